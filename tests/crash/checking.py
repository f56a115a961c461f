"""What must hold of a store that a power cut left behind, whatever it left.

before it is opened    no file of keys holds a destroyed key, nor anything of an epoch that a rotation replaced;
                       no generation from before a complete erasure is there; each checkpoint is
opened                 it opens; each acknowledged event is there under its hash; the audit is clean, projections
                       as they stand included; the live subjects' keys have slots, the ended ones' have none
gone on with           projections brought to the head equal a fresh replay, and the store takes and forgets a record
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from journal import layout, limits, rootchange
from journal.chain import has_ended
from journal.checkpointing import Checkpoints, folder_of
from journal.errors import EngramError, JournalCorrupt, StoreUnavailable
from journal.frames import frame_hash
from journal.log import Journal
from journal.scope import Scope
from journal.slots import HEADER_BYTES, WRAPPED_BYTES
from journal.store.lmdb import markers, opening, quarantine
from journal.testing import ManualClock
from projections import marks
from projections.current import Current
from projections.port import Projection
from projections.serving import make_chosen, make_projections
from projections.tail import JournalSource
from replay.audit import audit
from replay.claims import Claim
from replay.rebuild import verify
from tests.crash.workload import STORE, root_source
from tests.tools.conversation.talks import Speaker, conversation
from tests.tools.memory import world
from tests.tools.memory.world import NOW, SCOPE, binding
from tools.memory.engine import Engine

ANOTHER_BOOT = "0" * 8 + "-crash-rig"


def inspected_here(directory: Path) -> list[str]:
    """Walk a journal as the quarantine does, in this process, which may die of it as its child would."""
    answer = quarantine.answer_of(directory)  # the child's own walk
    if answer.corrupt is not None:
        raise JournalCorrupt(answer.corrupt)
    if answer.unmade is not None:
        raise StoreUnavailable(answer.unmade)
    return answer.rebuild


def after_another_boot(*, apart: bool) -> None:
    """Let this process live in another boot than the one recorded; ``apart``: with the quarantine's own child."""
    markers.boot_id = marks.boot_id = lambda: ANOTHER_BOOT  # type: ignore[assignment, attr-defined]
    opening.inspect = quarantine.inspect if apart else inspected_here  # type: ignore[attr-defined]


@dataclass(slots=True)
class Promised:
    """What was acknowledged up to a moment."""

    made: bool = False
    opened: bool = False
    heads: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    destroyed: set[bytes] = field(default_factory=set)
    checkpoints: set[tuple[str, int]] = field(default_factory=set)
    captured: set[str] = field(default_factory=set)
    retired: set[bytes] = field(default_factory=set)
    lowest: dict[str, str] = field(default_factory=dict)  # tag/projection -> lowest generation after an erasure

    def hear(self, raw: bytes) -> None:
        """Take an acknowledgement over."""
        told = json.loads(raw.partition(b" ")[2])
        self.opened = told is not None
        if told is None:
            return
        self.made = True
        self.captured.update(told["captured"])
        if "heads" not in told:
            return
        self.retired.update(key.encode() for key in told["retired"])
        self.heads.update({tag: (cursor, bytes.fromhex(digest)) for tag, (cursor, digest) in told["heads"].items()})
        self.epochs.update(told["epochs"])
        self.destroyed.update(bytes.fromhex(key_id) for key_id in told["destroyed"])
        self.checkpoints.update((tag, size) for tag, size in told["checkpoints"])
        erased = {tag for tag, _ in told["erased"]}
        for name, numbers in told["generations"].items():
            if name.partition("/")[0] in erased and numbers:
                self.lowest[name] = numbers[0]


@dataclass(frozen=True, slots=True)
class Depth:
    """Which checks are made that take longer."""

    folded: bool  # all projections are compared with a replay, and not one alone
    further: bool  # the store is gone on with


def check(place: Path, recorded_at: Path, promised: Promised, depth: Depth) -> list[str]:
    """Return what does not hold of an image of what was recorded under a directory."""
    store = place / STORE
    if not promised.made and not (store / layout.STORE_FILE).exists():
        return []
    _bring_home(store / layout.KEYS, recorded_at, place)
    wrong = [
        *_root_keys_that_are_back(place, promised),
        *_keys_that_are_back(store / layout.KEYS, promised),
        *_generations_that_are_back(store, promised),
    ]
    if promised.opened and not markers.Markers(store / layout.JOURNAL).crashed():
        wrong.append("nothing tells that the machine went down")
    _trust_marks(store / layout.PROJECTIONS)
    try:
        with closing(_engine(place)) as engine:
            wrong += _check_journal(engine, promised, folded=depth.folded)
            if depth.further and promised.made:
                wrong += _gone_on_with(engine)
    except EngramError as error:
        if promised.made:
            wrong.append(f"{error.code}: {error.detail}")
    return wrong


# --- before it is opened ----------------------------------------------------------------------------


def _bring_home(folder: Path, recorded_at: Path, place: Path) -> None:
    """Let a plan for replacing the root key name the files of the image: it holds whole paths."""
    for path in (folder / rootchange.PLANNED, folder / rootchange.SWITCHED):
        if path.exists():
            path.write_bytes(path.read_bytes().replace(os.fsencode(recorded_at), os.fsencode(place)))


def _root_keys_that_are_back(place: Path, promised: Promised) -> Iterator[str]:
    for path in [*place.glob("root.key*"), *(place / STORE / layout.KEYS).glob("*")]:
        if promised.retired and any(key in path.read_bytes() for key in promised.retired):
            yield f"a root key that was replaced is back in {path.name}"


def _keys_that_are_back(folder: Path, promised: Promised) -> Iterator[str]:
    for path in folder.glob("*.slots") if promised.made else ():
        raw = path.read_bytes()
        tag, epoch, _ = path.name.split(".")
        if int(epoch) < promised.epochs.get(tag, 0) and any(raw):
            yield f"the slots of epoch {epoch} are back"
        for at in range(HEADER_BYTES, len(raw) - limits.SLOT_BYTES + 1, limits.SLOT_BYTES):
            slot = raw[at + 4 : at + limits.SLOT_BYTES]
            key_id, wrapped = slot[: limits.KEY_ID_BYTES], slot[limits.KEY_ID_BYTES :][:WRAPPED_BYTES]
            if key_id in promised.destroyed and any(wrapped):
                yield f"a destroyed key is back in slot {(at - HEADER_BYTES) // limits.SLOT_BYTES}"


def _generations_that_are_back(store: Path, promised: Promised) -> Iterator[str]:
    for name, lowest in promised.lowest.items():
        tag, _, projection = name.partition("/")
        for each in (store / layout.PROJECTIONS / tag / projection).glob("[0-9]*"):
            if each.name < lowest and (each / "data.mdb").exists():
                yield f"generation {each.name} of {projection} is back after the erasure that removed it"


def _trust_marks(folder: Path) -> None:
    """Let each mark name the lock file that its image has, as it did on the disk that the image is of."""
    for path in folder.glob(f"*/*/*/{marks.NAME}"):
        lock = path.parent / "lock.mdb"
        try:
            mark = msgspec.json.decode(path.read_bytes(), type=marks.Mark)
            named = msgspec.structs.replace(mark, lock_inode=lock.stat().st_ino)
        except (FileNotFoundError, msgspec.MsgspecError):
            continue
        path.write_bytes(msgspec.json.encode(named))


# --- opened -----------------------------------------------------------------------------------------


def _engine(place: Path) -> Engine:
    root_key = rootchange.root_key_in_force(place / STORE, root_source(place))
    journal = Journal.open(place / STORE, root_key, clock=ManualClock(NOW))
    return Engine(journal, binding(conversation=conversation()))


def _check_journal(engine: Engine, promised: Promised, *, folded: bool) -> Iterator[str]:
    journal = engine.journal
    scopes = {scope.tag.hex(): scope for scope in journal.store.scopes()}
    for tag, (cursor, digest) in promised.heads.items():
        if tag not in scopes:
            yield "a scope with acknowledged events is gone"
            continue
        found = journal.store.read(scopes[tag], cursor - 1, 1)
        if not found or frame_hash(found[0].frame) != digest:
            yield f"the acknowledged event at cursor {cursor} is not there"
    with journal.store.view(SCOPE) as view:
        if any(view.subject(candidate_id) is None for candidate_id in promised.captured):
            yield "an acknowledged capture is not there"
    for scope in scopes.values():
        journal.admit(scope)
        yield from _check_slots(journal, scope)
    yield from _check_checkpoints(journal, scopes, promised)
    report = audit(
        journal,
        journal.path / layout.PROJECTIONS,
        make_projections if folded else _make_one,
        claims_of=lambda scope: _claims(journal, scope),
    )
    if not report.ok:
        yield f"the audit: {_findings(report.as_json())}"


def _make_one(journal: JournalSource, scope: Scope) -> Sequence[Projection]:
    return make_chosen(journal, scope, (Current.name,))


def _findings(report: dict[str, Any]) -> str:
    found = [each for scope in report["scopes"] for each in scope["findings"]] + report.get("elsewhere", [])
    return json.dumps([*found, *(each["name"] for each in report["projections"] if not each["ok"])])


def _check_slots(journal: Journal, scope: Scope) -> Iterator[str]:
    with journal.store.view(scope) as view:
        if view.pending_destructions():
            yield "keys are left to destroy after the scope was admitted"
        for name, row in view.subjects():
            if row.key_id is None:
                continue
            slot = view.slot(row.key_id)
            if has_ended(name, row.state):
                if not journal.keyring.is_destroyed(scope, row.key_id, slot):
                    yield "an ended subject's key can be had"
            elif slot is None or journal.keyring.open(scope, row.key_id, slot) is None:
                yield "a live subject's key cannot be had"


def _claims(journal: Journal, scope: Scope) -> list[Claim]:
    folder, key = folder_of(journal.path, scope.tag), Checkpoints(journal).key(scope)
    return [Claim("the store", size, folder.checkpoint(size, key).root, inside=True) for size in folder.sizes()]


def _check_checkpoints(journal: Journal, scopes: dict[str, Scope], promised: Promised) -> Iterator[str]:
    for tag, size in promised.checkpoints:
        if tag in scopes and size not in folder_of(journal.path, bytes.fromhex(tag)).sizes():
            yield f"the checkpoint of {size} events is gone"


# --- gone on with -----------------------------------------------------------------------------------


def _gone_on_with(engine: Engine) -> Iterator[str]:
    for scope in engine.journal.store.scopes():
        yield from (
            f"{each.name} is not what a replay gives" for each in verify(engine.projections(scope)) if not each.ok
        )
        Checkpoints(engine.journal).write(scope)
    world._numbers = itertools.count(1_000_000)  # keys that the workload did not use
    agent = Speaker(engine)
    record = agent.remember("A record of after the power cut.")
    said = agent.save("A message of after the power cut.")
    if agent.found("record after the power cut")[:1] != [record] or said not in agent.ids("power cut"):
        yield "what is said after the power cut is not found"
    agent.forget(record)
    if not engine.journal.key_is_destroyed(SCOPE, _candidate(engine, record)):
        yield "what is forgotten after the power cut keeps its key"


def _candidate(engine: Engine, record_id: str) -> str:
    with engine.journal.store.view(SCOPE) as view:
        return next(name for name, row in view.subjects() if row.record_id == record_id)

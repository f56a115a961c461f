"""What must hold of a soaked store: held beside the book, by the journal, by answers, by bytes, by a restored copy."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.soaking.book import ACTIVE, CURRENT, ENDED, PENDING, WITHDRAWN, Book, Kept
from bench.soaking.calls import ENDINGS, Calls, Planned
from bench.soaking.ground import Ground
from bench.soaking.traces import Needles, traces_of
from tests.rigs.lineclient import LineServer

if TYPE_CHECKING:
    from bench.soaking.operator import Safe

_AT_ONCE = 32
_SEARCHED_MAX = 1_000  # of a workspace, of the living and of what ended, each
_CONTROLS = 20  # living subjects whose traces must be found
_COMPLETE_SECONDS = 60.0


def audited(ground: Ground, book: Book) -> None:
    """Audit the store, which must be clean."""
    done = ground.ended("audit", "--json")
    if done.returncode:
        book.wrong(f"the audit ended {done.returncode}: {done.stdout[-500:]} {done.stderr[-300:]}")


def verified(ground: Ground, book: Book) -> None:
    """Compare each projection with a replay."""
    done = ground.ended("projections", "verify", "--json")
    if done.returncode:
        wrong = [each for each in json.loads(done.stdout or "[]") if not each["ok"]]
        book.wrong(f"projections verify ended {done.returncode}: {wrong} {done.stderr[-300:]}")


def nothing_broke(ground: Ground, book: Book) -> None:
    """Look into the servers' log: no thread of them ended by an exception, and they warn of nothing."""
    for line in ground.log_file.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.startswith("{") or json.loads(line).get("level") not in ("info", "debug"):
            book.wrong(f"a server says: {line[:300]}")


# --- the journal ------------------------------------------------------------------------------------


def against_events(entries: Sequence[Kept], events: Iterable[dict[str, Any]], unanswered: int) -> list[str]:
    """Return what is wrong with a journal: each acknowledged entry stands there once and as it should, and no other.

    ``unanswered``: how many sends of messages no answer came to, which may stand there besides.
    """
    born: Counter[str] = Counter()
    states: dict[str, str] = {}
    for event in events:
        subject = event["subject"]
        if subject is None:
            continue
        born[subject] += event["type"] in ("capture", "message")
        if event["to_state"] is not None:
            states[subject] = event["to_state"]
    wrong = []
    for entry in entries:
        if born[entry.subject] != 1:
            wrong.append(f"the acknowledged {entry.kind} {entry.subject} stands {born[entry.subject]} times")
        elif entry.kind == "record" and states.get(entry.subject) != entry.state:
            wrong.append(f"{entry.subject} is {states.get(entry.subject)} in the journal, not {entry.state}")
    known = {entry.subject for entry in entries}
    strangers = [subject for subject, times in born.items() if times and subject not in known]
    wrong += [f"{each} was never acknowledged" for each in strangers if not each.startswith("message_")]
    messages = sum(each.startswith("message_") for each in strangers)
    if messages > unanswered:
        wrong.append(f"{messages} messages stand there besides, of {unanswered} at most")
    return wrong


def planted_is_told(entries: Sequence[Kept], events: Sequence[dict[str, Any]], unanswered: int) -> bool:
    """Whether faults that are planted in the book are told: an acknowledgement that was lost, and one state changed."""
    if against_events(entries, events, unanswered):
        return False  # nothing can be told apart
    lost = replace(entries[0], subject="candidate_" + 64 * "0", kind="record")
    other = replace(next(each for each in entries if each.state == CURRENT), state=PENDING)
    forged = [other if each.subject == other.subject else each for each in entries]
    return all(
        len(against_events(planted, events, unanswered)) == 1 for planted in ([*entries, lost], forged)
    )  # fmt: skip


# --- answers ----------------------------------------------------------------------------------------


def against_answers(server: LineServer, book: Book, entries: Sequence[Kept], chance: random.Random) -> int:
    """Ask for everything once more; return how many answers there were. What is wrong goes into the book."""
    calls = Calls(book)
    planned = [calls.get(each) for each in entries if each.record_id]
    living = [each for each in entries if each.found_by_search()]
    ended = [each for each in entries if not each.found_by_search()]
    for many in (living, ended):
        planned += [calls.find(each) for each in chance.sample(many, min(_SEARCHED_MAX, len(many)))]
    for start in range(0, len(planned), _AT_ONCE):
        _ask(server, planned[start : start + _AT_ONCE])
    return len(planned)


def _ask(server: LineServer, planned: Sequence[Planned]) -> None:
    futures = server.pipeline([("tools/call", {"name": each.tool, "arguments": each.arguments}) for each in planned])
    for each, future in zip(planned, futures, strict=True):
        each.answered(future.result(60)["result"]["structuredContent"])


def all_complete(server: LineServer, book: Book, entries: Sequence[Kept]) -> None:
    """Wait until nothing that was forgotten or erased is left in any projection."""
    living_before = {ended: living for living, (_, ended) in ENDINGS.items()}
    calls = Calls(book)
    gone = [each for each in entries if each.state in ENDED and each.state != WITHDRAWN]
    asked = [calls.end(replace(each, state=living_before[each.state])) for each in gone]
    deadline = time.monotonic() + _COMPLETE_SECONDS
    while asked:
        left = []
        for each in asked:
            called = {"name": each.tool, "arguments": each.arguments}
            answer = server.request("tools/call", called).result(60)["result"]["structuredContent"]
            if not answer["ok"] or answer["output"]["value"]["projection_invalidation"] != "complete":
                left.append(each)
        asked = left
        if asked and time.monotonic() > deadline:
            book.wrong(f"{len(asked)} erasures are not complete after {_COMPLETE_SECONDS:.0f} s")
            return
        time.sleep(0.2 if asked else 0)


# --- bytes ------------------------------------------------------------------------------------------


def nothing_left(grounds: dict[str, Ground], book: Book, folder: Path, chance: random.Random) -> int:
    """Look for what was forgotten in every file; return how many byte strings were looked for.

    Its wrapped key, its keyed tokens, its own word in plain. Those of some that live are found, or it means nothing.
    """
    gone = [each for each in book.entries() if each.state in ENDED]
    needles: dict[bytes, Kept] = {}
    for entry in gone:
        needles |= dict.fromkeys([*book.traces.get(entry.subject, ()), entry.word.encode()], entry)
    controls: dict[str, list[bytes]] = {}
    for workspace, ground in grounds.items():
        alive = [each for each in book.entries(workspace) if each.state in (CURRENT, ACTIVE)]
        some = chance.sample(alive, min(_CONTROLS, len(alive)))
        controls |= traces_of(ground, {each.subject: each.word for each in some})
    wanted = [*needles, *(each for many in controls.values() for each in many)]
    found = Needles(wanted).under(folder)
    for needle, entry in needles.items():
        if needle in found:
            book.wrong(f"bytes of {entry.subject}, which is {entry.state}, stand in {found[needle][:3]}")
    for subject, many in controls.items():
        if many[-1] not in found or not any(each in found for each in many[:-1]):
            book.wrong(f"the traces of {subject}, which lives, were not found: the search is worth nothing")
    return len(needles)


# --- a restored copy ----------------------------------------------------------------------------------


def restored(grounds: dict[str, Ground], book: Book, safe: Safe) -> int:
    """Restore the last backup elsewhere; return how many entries were found in it as they should be."""
    ground = next(iter(grounds.values()))
    if safe.backup is None:
        book.wrong("there is no backup to restore")
        return 0
    ledger, copied = ground.directory / "ledger", ground.copied_to("restored")
    ground.run("backup", "--ledger", str(ledger))
    words = ["restore", str(safe.backup), "--keys", str(safe.keys), "--identity", str(safe.identity)]
    done = ground.ended(*words, "--ledger", str(ledger), "--to", str(copied.store))
    if done.returncode:
        book.wrong(f"the restore ended {done.returncode}: {done.stdout[-300:]} {done.stderr[-500:]}")
        return 0
    looked = 0
    for workspace in grounds:
        server = LineServer(copied.bound_to(workspace)).handshake()
        calls, planned = Calls(book), []
        for entry in book.entries(workspace):
            if entry.state in ENDED or entry.changed_at < safe.begun_at:
                if entry.record_id:
                    planned.append(calls.get(entry))
                elif entry.kind == "message":
                    planned.append(calls.find(entry))
        for start in range(0, len(planned), _AT_ONCE):
            _ask(server, planned[start : start + _AT_ONCE])
        looked += len(planned)
        server.close()
    return looked


def by_workspace(entries: Iterable[Kept]) -> dict[str, list[Kept]]:
    """Return entries by workspace."""
    sorted_out: dict[str, list[Kept]] = defaultdict(list)
    for entry in entries:
        sorted_out[entry.workspace].append(entry)
    return sorted_out

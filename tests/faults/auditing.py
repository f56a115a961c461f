"""What must hold of a store that a fault met, and of what the processes over it were answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from journal.events import EventType
from journal.log import Journal
from journal.store.port import Committed
from journal.testing import ManualClock
from replay.archive import opened
from replay.backup import checked_rows
from tests.crash.checking import Depth, Promised, check
from tests.faults.rig import Life, Planned
from tests.faults.supervising import KILLED
from tests.faults.workload import SAID, STEPS, Value
from tests.tools.memory.world import NOW, ROOT_KEY, SCOPE

FOUND = {
    "search quay": [], "search granary": ["e"], "search lighthouse": ["c"], "look ferry": ["m"], "look baker": [],
}  # fmt: skip
"""Which records and messages each step finds at last, when all steps are taken."""

REFUSALS = frozenset(("STORE_UNAVAILABLE", "MUTATION_OUTCOME_UNKNOWN", "PROJECTION_STALE", "DEADLINE_EXCEEDED"))
"""The codes that a call may be refused with because of a fault."""

_FLUSHES = ("fsync", "fdatasync", "msync")
_LASTING = ("store/journal/data.mdb", "store/keys/")  # what an answer rests on
_CLAIMS = ".ahead"  # of slots: one that cannot be written costs their room, and nothing else
_ENDING = ("withdraw", "forget", "erase")
_SAFE_AGAIN = ("EINTR",)  # Python makes such a call again itself


def answered(life: Life, plan: Planned) -> Iterator[str]:
    """Yield what is wrong with what the process said that met the fault."""
    if not life.ended:
        yield "it did not come to an end"
    if life.met is None:
        yield "the fault was not met"
    if life.status != (-9 if plan.fault.error == KILLED else 0):
        yield f"it ended with {life.status}"
    for each in life.said:
        if "wrong" in each and not _is_the_systems_own(plan, each):
            yield f"{each['wrong']}: {each['error']}"
        if "refused" in each and each["code"] not in REFUSALS:
            yield f"{each['refused']} was refused: {each['code']}"
    yield from _flush_heeded(life, plan)


def _is_the_systems_own(plan: Planned, told: Value) -> bool:
    """Whether an error stands in no call's answer: a backup's file and a new store's directory are the caller's."""
    makes = told["wrong"] == "open" and plan.step == "open"
    return (makes or told["wrong"].startswith("backup")) and "Error: [Errno" in told["error"]


def _flush_heeded(life: Life, plan: Planned) -> Iterator[str]:
    """A flush that failed under what an answer rests on is not answered with success in the same try."""
    call, error = plan.call, plan.fault.error
    if error == KILLED or not call.file.startswith(_LASTING) or call.name not in (*_FLUSHES, "pwrite64", "writev"):
        return
    if call.file.endswith(_CLAIMS):
        return
    if error in _SAFE_AGAIN and (call.name not in _FLUSHES or not call.file.startswith("store/journal/data.mdb")):
        return  # tried again, by Python or by LMDB
    if plan.step.startswith(_ENDING):
        return  # what follows its commit is begun anew within the call: what was not flushed is written again
    after = next((each for each in life.said[life.heard_before :] if "done" in each or "refused" in each), None)
    if after is not None and "done" in after and after["value"].get("now") != "pending":
        yield f"{after['done']} was answered with success although {call.name} failed"


def finished(first: Life, second: Life, known: dict[str, Value]) -> Iterator[str]:
    """Yield what is wrong with how the next process finished what the first had begun."""
    if second.status or not second.ended:
        yield f"the next process ended with {second.status}"
    values, told = second.values(), known | first.values()
    for step in STEPS:
        if step not in values:
            yield f"the next process cannot finish {step}"
        elif _identity(values[step]) != _identity(told.get(step, values[step])):
            yield f"{step} has two outcomes: {told[step]} and {values[step]}"
    if values.get("settle") == {"now": "pending"}:
        yield "an erasure is not complete"
    for each in second.said:
        if "wrong" in each or "refused" in each:
            yield f"the next process: {each}"
    for step, names in FOUND.items():
        wanted = [_named(values, name) for name in names]
        found = values.get(step, {}).get("found")
        if found is not None and (found[: len(wanted)] != wanted or (step == "search quay" and found)):
            yield f"{step} finds {found}"


def _named(values: dict[str, Value], name: str) -> str | None:
    """Return the id of a record or a message."""
    return values.get(f"admit {name}", {}).get("record_id") or values.get(f"save {name}", {}).get("id")


def _identity(value: Value) -> Value:
    """Return what of a step's value must be the same whenever it is repeated."""
    return {name: value[name] for name in ("candidate_id", "record_id", "event_id", "cursor", "id") if name in value}


def audited(place: Path, first: Life, second: Life, *, further: bool) -> list[str]:
    """Return what does not hold of the store when all steps are taken."""
    promised = Promised(made=True)
    for each in (*first.said, *second.said):
        for tag, (cursor, digest) in each.get("promised", {}).get("heads", {}).items():
            if cursor:
                promised.heads[tag] = (cursor, bytes.fromhex(digest))
    wrong: list[str] = []
    with closing(Journal.open(place / "store", ROOT_KEY, clock=ManualClock(NOW))) as journal:
        events = journal.store.read(SCOPE, 0, 100_000)
        wrong += _counted(events, first)
        heads = [(event.header.cursor, event) for event in events]
        wrong += [] if [cursor for cursor, _ in heads] == list(range(1, len(heads) + 1)) else ["cursors have gaps"]
    with opened(place / "one.backup") as archive:
        for entry in archive.manifest.scopes:
            for _ in checked_rows(archive, entry):
                pass
    wrong += check(place, place, promised, Depth(folded=True, further=further))
    return wrong


def _counted(events: list[Committed], first: Life) -> Iterator[str]:
    """Each event that a key stands for is there once; a message at most as often as it was said."""
    kinds = (EventType.CAPTURE, EventType.ACCEPT, EventType.WITHDRAW, EventType.TOMBSTONE, EventType.MESSAGE_ERASED)
    counts = Counter((event.header.kind, event.header.subject) for event in events if event.header.kind in kinds)
    for (kind, subject), count in counts.items():
        if count > 1:
            yield f"{kind.label} of {subject} is there {count} times"
    wanted = {EventType.CAPTURE: 5, EventType.ACCEPT: 4, EventType.WITHDRAW: 1, EventType.TOMBSTONE: 1}
    for kind, count in wanted.items():
        if sum(each[0] is kind for each in counts) != count:
            yield f"{kind.label} is not there {count} times"
    for told in first.said:
        for cursor, _ in told.get("promised", {}).get("heads", {}).values():
            if cursor > len(events):
                yield f"the acknowledged event {cursor} is not there"
    said = sum("begun" in each and each["begun"].startswith("save") for each in first.said)
    messages = sum(event.header.kind is EventType.MESSAGE for event in events)
    if not len(SAID) <= messages <= len(SAID) + said:
        yield f"{messages} messages of {len(SAID)} are there"

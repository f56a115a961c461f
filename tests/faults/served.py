"""The same for a real ``engram serve``, to which the official client speaks: a fault meets one of its calls."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import shutil
import socket
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
import structlog
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from journal import layout
from journal.errors import CODES
from projections.serving import make_projections
from replay.audit import audit
from replay.rebuild import verify
from tests.faults.auditing import REFUSALS
from tests.faults.rig import apart, begun, copied, ended, say, spread
from tests.faults.supervising import KILLED, Call, Fault, Watch
from tests.hostile.served import Store
from tests.tools.cli.desk import command_line, environment
from tests.tools.memory.world import PURPOSE, Caller, capture_arguments, forgetting, key
from tests.workers import end_with_parent
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, SAVE_MESSAGE, SEARCH, SEARCH_MEMORY
from tools.memory import approval

Value = dict[str, Any]
TRIES = 3
SESSION_SECONDS = 60.0
STEPS = ("capture", "admit", "search", "save", "look", "forget", "approve", "forget again", "search again")
_LASTING = ("capture", "admit", "save", "forget again")
_MAY_REFUSE = REFUSALS | {"gate_failed"}


@dataclass(slots=True)
class Session:
    """What a client was answered, what else the server said, and which of its calls were seen."""

    values: dict[str, Value] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)
    told: str = ""  # what stood on stderr
    impure: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    met: Call | None = None
    gone: bool = False  # the server went away
    ended: bool = True
    said: int = 0  # messages saved, as often as was tried


class _Impure(logging.Handler):
    """Hears the client complain of a line that is no message."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        self._session.impure.append(record.getMessage()[:200])


def prepare(directory: Path) -> Path:
    """Make the store that each session begins with; return where it is."""
    first = directory / "first"
    first.mkdir(parents=True)
    Store.make(first)
    return first


def session(place: Path, known: dict[str, Value], fault: Fault | None = None, *, watched: bool = False) -> Session:
    """Let a client speak to a server over the store; return what came of it."""
    found = Session(values=dict(known))
    told = place / "stderr"
    words = command_line("serve", "--config", str(place / "engram.toml"))
    with socket.socket(socket.AF_UNIX) as listening:
        watcher = None
        if watched or fault is not None:
            listening.bind(str(place / "s"))
            listening.listen(1)
            words = [sys.executable, "-m", "tests.faults.launch", str(place / "s"), *words[words.index("serve") :]]
            watcher = begun(lambda: _watch(listening, place, fault))
        handler = _Impure(found)
        logging.getLogger("mcp").addHandler(handler)
        logging.getLogger("mcp").propagate = False
        try:
            with told.open("w", encoding="utf-8") as log:
                anyio.run(_speak, words, log, place, found)
        finally:
            logging.getLogger("mcp").removeHandler(handler)
    found.told = told.read_text(encoding="utf-8")
    if watcher is not None:
        found.ended, seen, met = ended(watcher)
        found.calls = [Call(*each) for each in seen]
        found.met = None if met is None else Call(*met)
    return found


def _watch(listening: socket.socket, place: Path, fault: Fault | None) -> list[Any]:
    """Watch the server that connects; return whether it ended in time, its calls, and the one that the fault met."""
    connection, _ = listening.accept()
    with connection:
        _, (listener,), _, _ = socket.recv_fds(connection, 1, 1)
    watch = Watch(listener, place / "store", fault)
    in_time = watch.run(SESSION_SECONDS)
    return [in_time, [astuple(each) for each in watch.calls], watch.met and astuple(watch.met)]


async def _speak(words: list[str], log: Any, place: Path, found: Session) -> None:
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=environment())
    try:
        async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
            for step in STEPS:
                if not await _taken(client, step, place, found):
                    break
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, AssertionError)):
            raise
        found.gone = True


async def _taken(client: Client, step: str, place: Path, found: Session) -> bool:
    """Take one step; return whether it came to its end."""
    if step == "approve":
        await asyncio.to_thread(apart, lambda: _approve(place))
        return True
    tool, arguments = _asked(step, found)
    if step == "save" and "save" in found.values:
        return True
    for _ in range(TRIES):
        found.said += step == "save"
        with anyio.fail_after(40):
            result = await client.call_tool(tool, arguments)
        envelope = result.structured_content
        assert envelope is not None
        if envelope["ok"]:
            found.values[step] = _kept(step, envelope["output"]["value"])
            return True
        found.refused.append((step, envelope["error"]["code"]))
        if step == "forget":
            return True  # a person is asked
    return True


def _asked(step: str, found: Session) -> tuple[str, Value]:
    candidate_id = found.values.get("capture", {}).get("candidate_id", "candidate_" + "0" * 64)
    record_id = found.values.get("admit", {}).get("record_id", "mem_" + "a" * 52)
    search = {"query": "ferry", "purpose_ref": PURPOSE}
    return {
        "capture": (CAPTURE, capture_arguments("The ferry leaves at seven.", key("served capture"))),
        "admit": (REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key("served admission")}),
        "search": (SEARCH, search), "search again": (SEARCH, search),
        "save": (SAVE_MESSAGE, {"role": "user", "message": "메시지: the miller grinds on Thursdays."}),
        "look": (SEARCH_MEMORY, {"query": "miller"}),
        "forget": (FORGET, forgetting(record_id, key("served forgetting"))),
        "forget again": (FORGET, forgetting(record_id, key("served forgetting"))),
    }[step]  # fmt: skip


def _kept(step: str, value: Value) -> Value:
    if step == "capture":
        return {"candidate_id": value["candidate_id"]}
    if step == "admit":
        return {name: value["outcome"][name] for name in ("record_id", "cursor")}
    if step.startswith("forget"):
        return {"event_id": value["receipt"]["event_id"]}
    if step == "save":
        return {"id": value["id"]}
    found = value["records"] if "records" in value else value["results"]
    return {"found": len(found)}


def _approve(place: Path) -> list[str]:
    engine = Store(place / "engram.toml").engine()
    try:
        for request in Caller(engine).requests():
            approval.approve(engine, engine.binding.scope, request.confirmation_id, "operator")
    finally:
        engine.close()
    return []


# --- one fault --------------------------------------------------------------------------------------


def copied_store(first: Path, place: Path) -> None:
    """Copy the first store; its host file names the copy."""
    copied(first, place)
    config = place / "engram.toml"
    config.write_text(config.read_text(encoding="utf-8").replace(str(first), str(place)), encoding="utf-8")


def tried(first: Path, place: Path, fault: Fault) -> tuple[list[str], Session]:
    """Let a fault meet a server; return what does not hold, and what the session was."""
    copied_store(first, place)
    met = session(place, {}, fault)
    wrong = list(_answered(met, fault))
    after = session(place, met.values)
    wrong += list(_finished(met, after))
    wrong += apart(lambda: _audited(place, met, after))
    shutil.rmtree(place, ignore_errors=True)
    return wrong, met


def _answered(met: Session, fault: Fault) -> Iterator[str]:
    if not met.ended:
        yield "the server did not end"
    if met.gone and fault.error != KILLED:
        yield f"the server went away: {met.told[-500:]}"
    yield from (f"no message of the protocol: {line}" for line in met.impure)
    yield from _told(met.told)
    for step, code in met.refused:
        if code not in _MAY_REFUSE and not (fault.error == KILLED or step in ("admit", "forget", "forget again")):
            yield f"{step} was refused: {code}"
        if code not in CODES:
            yield f"{code} is no code"


def _told(told: str) -> Iterator[str]:
    """Each line of the log is an object of its own: no stack trace, no word of content."""
    for line in told.splitlines():
        try:
            json.loads(line)
        except ValueError:
            yield f"on stderr: {line[:200]}"
    if "Traceback" in told or "ferry" in told or "miller" in told:
        yield "the log says too much"


def _finished(met: Session, after: Session) -> Iterator[str]:
    if after.gone:
        yield f"the next server went away: {after.told[-500:]}"
    for step in ("capture", "admit", "search", "save", "look", "forget again", "search again"):
        if step not in after.values:
            yield f"the next server cannot finish {step}: {after.refused}"
        elif step in _LASTING and met.values.get(step, after.values[step]) != after.values[step]:
            yield f"{step} has two outcomes"
    if after.values.get("search again") != {"found": 0}:
        yield "what was forgotten is found"


def _audited(place: Path, met: Session, after: Session) -> list[str]:
    engine = Store(place / "engram.toml").engine()
    try:
        journal, scope = engine.journal, engine.binding.scope
        report = audit(journal, place / "store" / layout.PROJECTIONS, make_projections)
        wrong = [] if report.ok else [f"the audit: {report.as_json()}"]
        for verified in verify(engine.projections(scope)):
            wrong += [] if verified.ok else [f"{verified.name} is not what a replay gives"]
        events = [event for each in journal.store.scopes() for event in journal.store.read(each, 0, 10_000)]
        labels = [event.header.kind.label for event in events]
        for label, count in (("capture", 2), ("accept", 2), ("tombstone", 1)):
            wrong += [] if labels.count(label) == count else [f"{label} is there {labels.count(label)} times"]
        if not 1 <= labels.count("message") <= met.said + after.said:
            wrong.append(f"{labels.count('message')} messages are there")
        return wrong
    finally:
        engine.close()


# --- from the command line --------------------------------------------------------------------------


def planned(calls: Sequence[Call], seed: str) -> list[Fault]:
    """Return faults: each kind of call once, then again; a kind is a call on files of the same pattern."""
    chance = random.Random(f"served/{seed}")
    kinds: dict[tuple[str, str], list[Fault]] = defaultdict(list)
    for number, call in enumerate(calls, start=1):
        pattern = re.sub(r"^(projections/\*/)[a-z]+(?:/|$)(?:\d{8}(?:/|$))?", r"\1*/", call.file)
        kinds[call.name, pattern].append(Fault(number, chance.choice(call.faults)))
    return spread(list(kinds.values()), chance)


def main(words: list[str]) -> None:
    """Do as ``tests.faults.worker`` does: prepare DIRECTORY, or try DIRECTORY SEED FAULTS FIRST STEP."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    task, directory = words[0], Path(words[1])
    if task == "prepare":
        copied_store(prepare(directory), directory / "trial")
        calls = session(directory / "trial", {}, watched=True).calls
        (directory / "calls").write_bytes(msgspec.msgpack.encode(calls))
        return
    seed, faults, first, step = words[2], *map(int, words[3:])
    calls = msgspec.msgpack.decode((directory / "calls").read_bytes(), type=list[Call])
    chosen, met, missed, count = planned(calls, seed), Counter[str](), list[str](), 0
    for fault in chosen[: faults or len(chosen)][first::step]:
        wrong, found = tried(directory / "first", directory / f"place-{first}", fault)
        call = calls[fault.number - 1]
        if found.met is None or found.met.name != call.name:  # its threads make their calls in another order each time
            missed.append(f"{call.name} {call.file}")
        if found.met is not None:
            met[f"{found.met.name} {fault.error}"] += 1
        count += 1
        if wrong:
            place = None if found.met is None else f"{found.met.name} {found.met.file}"
            say({"call": place, "fault": [fault.number, fault.error], "wrong": wrong, "refused": found.refused})
    say({"tried": count, "met": met, "stuck": {}, "missed": missed})


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1:])

"""One fault at a time: which there are, what is done with one, and what a process said that met it.

A step is tried on a copy of the store as the steps before it left it, by a process that opens the copy, takes the step,
two more, and closes it. Processes are forked from one that has imported everything and opened nothing.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from journal.rootkey import write_root_key_file
from tests.crash.checking import _trust_marks
from tests.crash.workload import ROOT_FILE, STORE
from tests.faults.seccomp import watch
from tests.faults.supervising import Call, Fault, Watch
from tests.faults.workload import STEPS, Value, live
from tests.tools.memory.world import ROOT_KEY
from tests.workers import end_with_parent

T = TypeVar("T")

RUN_SECONDS = 60.0
_ALIKE = re.compile(r"^(store/projections/\*/)[a-z]+(?:/|$)(?:\d{8}(?:/|$))?")  # all projections and their generations
_FURTHER = 2  # steps that are taken after the one that the fault is for


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault into one call of one step."""

    step: str
    fault: Fault
    call: Call


@dataclass(slots=True)
class Life:
    """What one process said, and how it ended."""

    said: list[Value] = field(default_factory=list)
    status: int = 0  # its exit code, or minus the signal
    met: Call | None = None
    heard_before: int = 0  # how much of it was said when the fault struck
    ended: bool = True  # in time

    def values(self) -> dict[str, Value]:
        """Return what each step came to."""
        return {each["done"]: each["value"] for each in self.said if "done" in each}


class Recorded(msgspec.Struct):
    """A step's calls: how many came before, and each of them; and what was known before the step."""

    before: int
    calls: list[Call]
    known: dict[str, Value]


def window(step: str) -> list[str]:
    """Return the steps that are taken to meet a fault in one of them."""
    if step == "close":  # of a process that has everything open, and something to flush
        return ["open", "rotate", "search lighthouse", "close"]
    names = list(STEPS)
    at = names.index(step)
    return ["open", *(name for name in names[at : at + 1 + _FURTHER] if name not in ("open", "close")), "close"]


# --- processes --------------------------------------------------------------------------------------


def lived(
    place: Path, known: Mapping[str, Value], steps: list[str], *, fault: Fault | None = None, watched: bool = False,
    planted: Callable[[], None] = lambda: None,
) -> tuple[Life, Watch | None]:  # fmt: skip
    """Let a process take steps in a directory; watched, or met by a fault. ``planted`` is called in it first."""
    said, told = os.pipe()
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        _in_child(place, dict(known), steps, told, theirs if watched or fault else None, planted)
    os.close(told)
    theirs.close()
    life, watching, raw = Life(), None, b""
    if watched or fault:
        _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
        heard: list[bytes] = []
        os.set_blocking(said, False)

        def hear() -> None:
            while more := _read(said):
                heard.append(more)

        def struck() -> None:
            hear()
            life.heard_before = b"".join(heard).count(b"\n")

        watching = Watch(listener, place, fault, when_met=struck)
        life.ended = watching.run(RUN_SECONDS)
        if not life.ended:
            os.killpg(process, 9)
        life.met = watching.met
        hear()
        raw = b"".join(heard)
    else:
        while more := os.read(said, 1 << 16):
            raw += more
    ours.close()
    os.close(said)
    life.status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    life.said = [json.loads(line) for line in raw.splitlines(keepends=True) if line.endswith(b"\n")]
    return life, watching


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _in_child(
    place: Path, known: dict[str, Value], steps: list[str], told: int, theirs: socket.socket | None,
    planted: Callable[[], None],
) -> None:  # fmt: skip
    status = 1
    try:
        end_with_parent()
        os.setpgid(0, 0)
        planted()
        if theirs is not None:
            listener = watch()
            socket.send_fds(theirs, [b"x"], [listener])
            os.close(listener)
        live(place, known, steps, told)
        status = 0
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(status)


def apart(work: Callable[[], Any]) -> Any:
    """Return what a function gives in a process of its own; it is JSON."""
    return ended(begun(work))


def begun(work: Callable[[], Any]) -> tuple[int, int]:
    """Let a function run in a process of its own; return the process and where it answers, for ``ended``."""
    answered, told = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            given = work()
        except BaseException as error:  # noqa: BLE001 - as above
            traceback.print_exc()
            given = [f"{type(error).__name__}: {error}"]
        with os.fdopen(told, "wb") as out:
            out.write(json.dumps(given, ensure_ascii=False).encode())
        os._exit(0)
    os.close(told)
    return process, answered


def ended(begun_before: tuple[int, int]) -> Any:
    """Return what the function gave that ``begun`` let run."""
    process, answered = begun_before
    raw = b""
    while more := os.read(answered, 1 << 16):
        raw += more
    os.close(answered)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return json.loads(raw) if raw else [f"the process died: {status}"]


# --- what there is ----------------------------------------------------------------------------------


def copied(source: Path, place: Path) -> None:
    """Copy a store, and let the marks of its projections name the copy's lock files."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)
    _trust_marks(place / STORE / "projections")


def prepare(directory: Path) -> None:
    """Record every step's calls, and keep the store as it was before each."""
    recorded: dict[str, Recorded] = {}
    known: dict[str, Value] = {}
    before = directory / "before"
    first = before / "0"
    first.mkdir(parents=True)
    write_root_key_file(first / ROOT_FILE, ROOT_KEY)
    for number, step in enumerate(STEPS):
        copied(before / str(number), directory / "trial")
        life, watching = lived(directory / "trial", known, window(step), watched=True)
        assert watching is not None
        assert (life.ended, life.status) == (True, 0), life
        assert all("wrong" not in each for each in life.said), life
        recorded[step] = _recorded(step, life, watching, known)
        copied(before / str(number), before / str(number + 1))
        took, _ = lived(before / str(number + 1), known, list(dict.fromkeys(["open", step, "close"])))
        known = known | {name: value for name, value in took.values().items() if name not in ("open", "close")}
    shutil.rmtree(directory / "trial")
    (directory / "recorded").write_bytes(msgspec.msgpack.encode(recorded))


def restored(directory: Path) -> dict[str, Recorded]:
    """Return what ``prepare`` recorded."""
    return msgspec.msgpack.decode((directory / "recorded").read_bytes(), type=dict[str, Recorded])


def _recorded(step: str, life: Life, watching: Watch, known: dict[str, Value]) -> Recorded:
    begun = next(at for at, each in enumerate(life.said) if each.get("begun") == step)
    done = next(at for at, each in enumerate(life.said) if each.get("done") == step)
    first, last = watching.said_after[begun], watching.said_after[done]
    return Recorded(first, watching.calls[first:last], known)


def planned(recorded: Mapping[str, Recorded], seed: str) -> list[Planned]:
    """Return every fault: first one for each call, then a second, and so on; of each round the rarest kinds first.

    Calls are of one kind that a step makes on files of the same pattern. So any first part of the list is spread
    over all kinds, and the first round alone meets each call once.
    """
    chance = random.Random(f"faults/{seed}")
    rounds: list[dict[tuple[str, str, str], list[Planned]]] = []
    for step, each in recorded.items():
        for at, call in enumerate(each.calls, start=each.before + 1):
            errors = list(call.faults)
            chance.shuffle(errors)
            for number, error in enumerate(errors):
                if number == len(rounds):
                    rounds.append(defaultdict(list))
                kind = (step, call.name, _ALIKE.sub(r"\1*/", call.file))
                rounds[number][kind].append(Planned(step, Fault(at, error), call))
    return [each for kinds in rounds for each in spread(list(kinds.values()), chance)]


def spread(kinds: list[list[T]], chance: random.Random) -> list[T]:
    """Return one of each kind, then another, and so on, in no other order than chance's."""
    chance.shuffle(kinds)
    for kind in kinds:
        chance.shuffle(kind)
    return [each for turn in zip_longest(*kinds) for each in turn if each is not None]


def say(what: object) -> None:
    """Print a line of JSON at once."""
    sys.stdout.write(json.dumps(what, ensure_ascii=False) + "\n")
    sys.stdout.flush()

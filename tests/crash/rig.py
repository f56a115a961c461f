"""Recording the workload, and having images of it checked by processes that a broken image may kill."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.trace import calls, kept, record
from tests.crash.tracedisk import in_order
from tests.workers import Worker, none_left, start

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Recording:
    """The system calls of a workload (``tests.crash.trace.restored``), and the directory in which it ran."""

    root: Path
    calls: Path


@dataclass(slots=True)
class Outcome:
    """What images showed: how many were checked, and those that do not hold."""

    checked: int = 0
    steps: int = 0  # the changes and flushes over which they are spread
    wrong: list[dict[str, Any]] = field(default_factory=list)

    def told(self) -> str:
        """Return the first of what is wrong, to be read by a person."""
        return "\n".join(json.dumps(each, ensure_ascii=False)[:2_000] for each in self.wrong[:10])


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more}


def record_workload(directory: Path, module: str = "tests.crash.workload") -> Recording:
    """Run a module over an empty directory of its own, and record it."""
    recording = Recording(directory / "recorded", directory / "calls")
    recording.root.mkdir()
    state = str(directory / "state")
    command = [sys.executable, "-m", module, str(recording.root)]
    record(command, directory / "record", _environment(XDG_STATE_HOME=state), ROOT)
    kept(in_order(calls(directory / "record")), recording.calls)
    (directory / "record").unlink()
    return recording


def checked(
    recording: Recording, kind: str, *, seed: str = "", images: int = 1, workers: int = 2, deaf_to: str = "none"
) -> list[Outcome]:
    """Have images checked (``tests.crash.worker``); return what came of it for each flush that is left out."""
    running: list[Worker] = []
    outcomes = [Outcome() for _ in deaf_to.split(",")]
    with none_left(running):
        places = []
        for number in range(workers):
            words = [kind, seed, str(images), str(number), str(workers), deaf_to]
            places.append(_start(running, recording, number, words))
        for worker, (out, err) in zip(running, places, strict=True):
            returncode = worker.wait()
            said = err.read_text(encoding="utf-8", errors="replace")
            _gather(outcomes, out.read_text(encoding="utf-8"), returncode, said)
    return outcomes


def _start(workers: list[Worker], recording: Recording, number: int, words: list[str]) -> tuple[Path, Path]:
    """Start a worker; return the files of what it says and of its errors."""
    directory = recording.calls.parent
    scratch = directory / f"scratch-{number}"
    scratch.mkdir(exist_ok=True)
    places = [str(recording.calls), str(recording.root), str(directory / f"image-{number}")]
    environment = _environment(TMPDIR=str(scratch), XDG_STATE_HOME=str(scratch))
    command = [sys.executable, "-m", "tests.crash.worker", *places, *words]
    out, err = directory / f"out-{number}", directory / f"err-{number}"
    with out.open("wb") as to, err.open("wb") as errors:  # a pipe would be full before anybody reads it
        start(workers, command, out=to, errors=errors, environment=environment)
    return out, err


def _gather(outcomes: list[Outcome], out: str, returncode: int, err: str) -> None:
    """Add what a worker told; one that died takes the image that it died of with it."""
    rounds = iter(outcomes)
    current, image = next(rounds), "none"
    for line in out.splitlines():
        if line.startswith("at "):
            image = line.removeprefix("at ")
        elif line.startswith("checked "):
            checked, steps = map(int, line.removeprefix("checked ").split(" of "))
            current.checked, current.steps = current.checked + checked, steps
            current = next(rounds, current)
        else:
            current.wrong.append(json.loads(line))
    if returncode != 0:
        current.wrong.append({"image": image, "wrong": [f"the worker died: {returncode}", err[-1_000:]]})

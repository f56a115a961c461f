"""Having faults tried by processes of their own, two at a time: what they fork has imported everything but pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workers import none_left, start

ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Outcome:
    """What came of faults: how many were tried, which met what, and what does not hold."""

    tried: int = 0
    met: Counter[str] = field(default_factory=Counter)
    stuck: Counter[str] = field(default_factory=Counter)  # by which a process was of no more use
    missed: list[str] = field(default_factory=list)
    wrong: list[dict[str, Any]] = field(default_factory=list)

    def told(self) -> str:
        """Return the first of what is wrong, to be read by a person."""
        return "\n".join(json.dumps(each, ensure_ascii=False)[:1_500] for each in self.wrong[:10])

    def figures(self) -> str:
        """Return what a run showed, as words."""
        lines = [
            f"{self.tried:,} faults, {len(self.wrong)} do not hold",
            f"by call and fault: {_listed(self.met)}",
            f"processes of no more use afterwards: {_listed(self.stuck)}",
            f"met another call than was meant: {'; '.join(self.missed) or 'none'}",
        ]
        return "\n".join(lines)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"


def _command(module: str, *words: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, words)]


def _environment(directory: Path) -> dict[str, str]:
    state = directory / "state"
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "XDG_STATE_HOME": str(state)}


def prepared(directory: Path, module: str = "tests.faults.worker") -> Path:
    """Have the stores and the calls of each step made; return the directory."""
    directory.mkdir()
    command = _command(module, "prepare", directory)
    done = subprocess.run(command, cwd=ROOT, env=_environment(directory), capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3_000:].decode(errors="replace")
    return directory


def tried(directory: Path, seed: str, faults: int, module: str = "tests.faults.worker", workers: int = 2) -> Outcome:
    """Have so many faults of a seed tried, 0: all; return what came of them."""
    running: list[subprocess.Popen[bytes]] = []
    outcome = Outcome()
    with none_left(running):
        places = [(directory / f"out-{first}", directory / f"err-{first}") for first in range(workers)]
        for first, (out, err) in enumerate(places):
            command = _command(module, "try", directory, seed, faults, first, workers)
            with out.open("wb") as to, err.open("wb") as errors:
                start(running, command, out=to, errors=errors, environment=_environment(directory))
        for process, (out, err) in zip(running, places, strict=True):
            returncode = process.wait()
            for line in out.read_text(encoding="utf-8").splitlines():
                _gather(outcome, json.loads(line))
            if returncode:
                said = err.read_text(encoding="utf-8", errors="replace")[-1_000:]
                outcome.wrong.append({"wrong": f"a worker ended with {returncode}: {said}"})
    return outcome


def _gather(outcome: Outcome, told: dict[str, Any]) -> None:
    if "wrong" in told:
        outcome.wrong.append(told)
        return
    outcome.tried += told["tried"]
    outcome.met.update(told["met"])
    outcome.stuck.update(told["stuck"])
    outcome.missed += told["missed"]

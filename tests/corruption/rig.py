"""Having many stores damaged and judged by warm processes, and counting what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.corruption.verdict import OUTCOMES, WRONG

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Line:
    """What came of one damage."""

    number: int
    family: str
    kind: str
    outcome: str
    why: str
    done: str


def damaged(template: Path, counts: dict[str, int], seed: str, *, live: bool = False) -> list[Line]:
    """Have a template's store damaged so often in each way; 0 is all of a family that has an end."""
    running = []
    for number in range(WORKERS):
        place = template.parent / f"place-{number}" / "store"
        place.parent.mkdir(exist_ok=True)
        words = [str(template), str(place), ",".join(counts), seed, str(number), str(WORKERS)]
        words += [",".join(map(str, counts.values())), *(["live"] if live else [])]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "tests.corruption.worker", *words]
        with (place.parent / "out").open("wb") as out, (place.parent / "err").open("wb") as errors:
            running.append(
                (subprocess.Popen(command, stdout=out, stderr=errors, cwd=ROOT, env=environment), place.parent)
            )
    lines = []
    for worker, folder in running:
        returncode = worker.wait()
        assert returncode == 0, (folder / "err").read_text(errors="replace")[-2_000:]
        told = (folder / "out").read_text(encoding="utf-8").splitlines()
        lines += [Line(*json.loads(line)) for line in told]
    return lines


def table(lines: list[Line]) -> str:
    """Return the counts by kind of file, as they stand in a page."""
    counts = Counter((line.kind, line.outcome) for line in lines)
    rows = [f"| {' | '.join(['damaged', *OUTCOMES])} |", "|---" * (len(OUTCOMES) + 1) + "|"]
    for kind in sorted({line.kind for line in lines}):
        rows += [f"| {kind} | {' | '.join(f'{counts[kind, outcome]:,}' for outcome in OUTCOMES)} |"]
    return "\n".join(rows)


def wrong(lines: list[Line]) -> str:
    """Return the first of what is wrong, to be read by a person; nothing where nothing is."""
    found = [line for line in lines if line.outcome == WRONG]
    return "\n".join(f"{line.family} {line.number}: {line.done}: {line.why[:500]}" for line in found[:10])

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
from tests.workers import none_left, start

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
    folders: list[Path] = []
    workers: list[subprocess.Popen[bytes]] = []
    with none_left(workers):
        for number in range(WORKERS):
            folder, command, environment = _worker(template, counts, seed, number, live=live)
            with (folder / "out").open("wb") as out, (folder / "err").open("wb") as errors:
                start(workers, command, out=out, errors=errors, environment=environment)
            folders.append(folder)
        return [line for worker, folder in zip(workers, folders, strict=True) for line in _lines(worker, folder)]


def _worker(
    template: Path, counts: dict[str, int], seed: str, number: int, *, live: bool
) -> tuple[Path, list[str], dict[str, str]]:
    """Return a worker's folder, command and environment."""
    place = template.parent / f"place-{number}" / "store"
    place.parent.mkdir(exist_ok=True)
    words = [str(template), str(place), ",".join(counts), seed, str(number), str(WORKERS)]
    words += [",".join(map(str, counts.values())), *(["live"] if live else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return place.parent, [sys.executable, "-m", "tests.corruption.worker", *words], environment


def _lines(worker: subprocess.Popen[bytes], folder: Path) -> list[Line]:
    returncode = worker.wait()
    assert returncode == 0, (folder / "err").read_text(errors="replace")[-2_000:]
    return [Line(*json.loads(line)) for line in (folder / "out").read_text(encoding="utf-8").splitlines()]


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

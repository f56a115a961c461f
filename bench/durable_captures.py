"""Durable captures of 1 KB by many callers at once, beside the eventsourcing library's saves, and beside bare LMDB.

    python -m bench.durable_captures [--callers N] [--processes N] [--each N] [--rounds N] [--busy] [--flush-ms MS]

Rounds are taken in turns in one run, on one disk; medians and ratios within a round are what counts. A capture goes
through what an MCP server calls, below the transport: validated, authorised, guarded, sealed, acknowledged after the
flush. ``--busy`` keeps every core busy with a process of its own; ``--flush-ms`` holds every flush of everybody so long
before it happens, as on a medium that takes longer than this one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.capturing.apart import Processes
from bench.capturing.driving import Round, tasks_at_once, threads_at_once
from bench.capturing.flushing import with_slow_flushes
from bench.capturing.writers import Batches, Engram, Sourced, sourced_is_here
from journal.store.lmdb.filesystem import file_system

_IN_MEMORY: Final = ("tmpfs", "ramfs")
_WARM_UP_EACH: Final = 8
_BARE: Final = "bare LMDB"


@contextmanager
def busy(spinners: int) -> Iterator[None]:
    """Keep so many cores busy."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(spinners)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def in_turns(
    contenders: dict[str, Callable[[int, int], Round]], bare: Batches, rounds: int, each: int, commits: int
) -> dict[str, list[Round]]:
    """Return every contender's rounds; who begins changes from round to round."""
    first = 0
    for contend in contenders.values():
        contend(_WARM_UP_EACH, first)
    bare.seconds(_WARM_UP_EACH, 0)
    first += 1 << 20
    found: dict[str, list[Round]] = {name: [] for name in [*contenders, _BARE]}
    for turn in range(rounds):
        order = list(contenders)
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            found[name].append(contenders[name](each, first))
            first += 1 << 20
        seconds = bare.seconds(commits, _WARM_UP_EACH + turn * commits)
        found[_BARE].append(Round(commits * bare.batch, seconds, [seconds / commits] * commits))
        print(f"round {turn + 1}: " + "; ".join(f"{name} {rounds[-1].rate:,.0f}/s" for name, rounds in found.items()))
    return found


def told(found: dict[str, list[Round]], ours: str) -> None:
    """Print medians, latencies and what the engine's rate is over each other's, round by round."""
    print(f"{'':58}{'a second':>10}{'p50 ms':>9}{'p99 ms':>9}{'engram over it':>16}")
    for name, rounds in found.items():
        rate = statistics.median(each.rate for each in rounds)
        latencies = sorted(latency for each in rounds for latency in each.latencies)
        p50, p99 = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
        ratios = [own.rate / each.rate for own, each in zip(found[ours], rounds, strict=True)]
        print(
            f"{name:58}{rate:10,.0f}{p50:9.2f}{p99:9.2f}"
            f"{statistics.median(ratios):9.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def measure(place: Path, options: argparse.Namespace) -> None:
    """Measure everybody in turns, and print."""
    callers = options.callers
    engram = Engram(place / "store")
    engram.write(0)
    bare = Batches(place / "bare", engram.rows(), callers)
    workers = ThreadPoolExecutor(callers)
    contenders: dict[str, Callable[[int, int], Round]] = {
        engram.name: lambda each, first: threads_at_once(engram.write, callers, each, first),
        f"{engram.name}, from one event loop": (
            lambda each, first: tasks_at_once(engram.write, callers, each, first, workers)
        ),
    }
    sourced = Sourced(place / "sourced") if sourced_is_here() else None
    if sourced is not None:
        saving = sourced.write
        contenders[sourced.name] = lambda each, first: threads_at_once(saving, callers, each, first)
    apart = []
    if options.processes > 1:
        kinds = {engram.name: place / "store apart"} | ({sourced.name: place / "apart"} if sourced is not None else {})
        for kind, there in kinds.items():
            processes = Processes(kind, there, options.processes, callers // options.processes)
            contenders[f"{kind}, in {options.processes} processes"] = processes.round
            apart.append(processes)
    with busy(len(os.sched_getaffinity(0)) if options.busy else 0):
        found = in_turns(contenders, bare, options.rounds, options.each, options.each)
    print(f"bare LMDB: batches of {callers} times {bare.size_bytes:,} bytes in 6 rows, a durable commit each;")
    print("its p50 and p99 are of the rounds' means, and alike where there are few rounds")
    told(found, engram.name)
    for processes in apart:
        processes.close()
    workers.shutdown()
    engram.close()
    if sourced is not None:
        sourced.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--processes", type=int, default=1, help="the callers shared out to so many, besides")
    parser.add_argument("--each", type=int, default=40, help="captures of a caller in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--busy", action="store_true", help="a process spins for every core")
    parser.add_argument("--flush-ms", type=float, default=0.0, help="so long each flush is held before it happens")
    parser.add_argument("--folder", type=Path, help="where the stores are made; on a disk, not in memory")
    options = parser.parse_args()
    if not sourced_is_here():
        print("the eventsourcing library is not here (make bench brings it); the engine is measured alone")
    with tempfile.TemporaryDirectory(dir=options.folder) as directory:
        kind = file_system(Path(directory))
        if kind in _IN_MEMORY:
            parser.error(f"{directory} lies in memory ({kind}): name a --folder on a disk")
        load = os.getloadavg()[0]
        busy_or_not, held = "busy" if options.busy else "not made busy", f"flushes held {options.flush_ms:g} ms"
        print(f"{options.callers} callers; {busy_or_not}; {held}; load {load:.2f} before; {kind}", flush=True)
        if not options.flush_ms:
            measure(Path(directory), options)
            return
        status, flushes = with_slow_flushes(options.flush_ms / 1000, lambda: measure(Path(directory), options))
        print(f"{flushes:,} flushes were held, of everybody, with what is made before the first round")
        if status:
            parser.exit(1)


if __name__ == "__main__":
    main()

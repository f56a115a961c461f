"""Callers in several processes, as agents that each start a server of their own are, over one store or database.

python -m bench.capturing.apart KIND PLACE CALLERS      serves: reads "EACH FIRST", does a round, prints it
"""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import PIPE, Popen
from time import perf_counter
from typing import Final

import msgspec

from bench.capturing.driving import Round, threads_at_once
from bench.capturing.writers import Engram, Sourced

_ROOT: Final = Path(__file__).resolve().parents[2]
_APART: Final = 1 << 16  # so far apart are the numbers of two processes


class Processes:
    """So many processes with so many callers each."""

    def __init__(self, kind: str, place: Path, processes: int, callers: int) -> None:
        """Start them one after the other: who comes first makes the place."""
        self._processes: list[Popen[bytes]] = []
        for _ in range(processes):
            arguments = [sys.executable, "-m", "bench.capturing.apart", kind, str(place), str(callers)]
            process = Popen(arguments, cwd=_ROOT, stdin=PIPE, stdout=PIPE)
            self._processes.append(process)
            self._line(process)

    def round(self, each: int, first: int) -> Round:
        """Have all of them do a round at once."""
        began = perf_counter()
        for number, process in enumerate(self._processes):
            assert process.stdin is not None
            process.stdin.write(f"{each} {first + number * _APART}\n".encode())
            process.stdin.flush()
        latencies = [latency for process in self._processes for latency in msgspec.json.decode(self._line(process))]
        return Round(len(latencies), perf_counter() - began, latencies)

    @staticmethod
    def _line(process: Popen[bytes]) -> bytes:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a process of callers ended")
        return line

    def close(self) -> None:
        """End them."""
        for process in self._processes:
            process.communicate()


def serve(kind: str, place: Path, callers: int) -> None:
    """Do rounds until the input ends."""
    writer = Engram(place) if kind == Engram.name else Sourced(place)
    print("ready", flush=True)
    for line in sys.stdin:
        each, first = map(int, line.split())
        print(msgspec.json.encode(threads_at_once(writer.write, callers, each, first).latencies).decode(), flush=True)
    writer.close()


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

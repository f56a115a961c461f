"""Many callers at once: started together, each call timed by the one that makes it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

Action = Callable[[int], object]
"""Writes one thing durably; it is told a number that no other call has."""


@dataclass(frozen=True, slots=True)
class Round:
    """What so many callers did at once."""

    calls: int
    seconds: float
    latencies: list[float] = field(repr=False)  # seconds, of every call

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.seconds


def threads_at_once(action: Action, callers: int, each: int, first: int) -> Round:
    """Have a thread a caller make its calls, one after the other."""
    taken: list[list[float]] = [[] for _ in range(callers)]
    failed: list[BaseException] = []
    gate = threading.Barrier(callers + 1)

    def work(caller: int) -> None:
        gate.wait()
        try:
            for number in range(first + caller * each, first + (caller + 1) * each):
                began = time.perf_counter()
                action(number)
                taken[caller].append(time.perf_counter() - began)
        except BaseException as error:  # noqa: BLE001 - a thread's error would be nobody's
            failed.append(error)

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if failed:
        raise failed[0]
    return Round(callers * each, seconds, [latency for own in taken for latency in own])


def tasks_at_once(action: Action, callers: int, each: int, first: int, workers: ThreadPoolExecutor) -> Round:
    """Have a task a caller make its calls from one event loop, each handed to a worker, as the server hands them."""
    taken: list[float] = []

    async def work(caller: int) -> None:
        loop = asyncio.get_running_loop()
        for number in range(first + caller * each, first + (caller + 1) * each):
            began = time.perf_counter()
            await loop.run_in_executor(workers, action, number)
            taken.append(time.perf_counter() - began)

    async def everybody() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(work(caller) for caller in range(callers)))
        return time.perf_counter() - began

    seconds = asyncio.run(everybody())
    return Round(callers * each, seconds, taken)

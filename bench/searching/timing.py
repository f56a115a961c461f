"""Times: taken in turns, in blocks, so that a busy machine slows all who are measured alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar

import numpy as np

BLOCK: Final = 25  # asked in one go, so that nobody always finds the processor's cache full of another's numbers
WARM_UP: Final = 50

T = TypeVar("T")
Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: who did what over so many documents; ``p50`` is the figure where there is but one."""

    documents: int
    who: str
    what: str
    unit: str
    p50: float
    p95: float | None = None
    p99: float | None = None
    ratio: float | None = None  # the engine's figure over this one

    @classmethod
    def of(cls, documents: int, who: str, what: str, times: Sequence[float], ours: float | None = None) -> Self:
        """Return the line of times in seconds, in milliseconds. ``ours`` is the engine's median in milliseconds."""
        p50, p95, p99 = (np.percentile(times, [50, 95, 99]) * 1000).tolist()
        return cls(documents, who, what, "ms", p50, p95, p99, ours / p50 if ours is not None else None)

    def __str__(self) -> str:
        tails = "".join(f"{value:10,.3f}" if value is not None else " " * 10 for value in (self.p95, self.p99))
        ratio = f"{self.ratio:9.2f}" if self.ratio is not None else ""
        return f"{self.documents:>9,}  {self.who:32} {self.what:26}{self.p50:11,.3f}{tails} {self.unit:4}{ratio}"


HEADER: Final = f"{'documents':>9}  {'':59}{'p50':>11}{'p95':>10}{'p99':>10}{'':5}{'ours/it':>9}"


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def in_turns(actions: dict[Name, Callable[[T], object]], asked: Sequence[T]) -> dict[Name, list[float]]:
    """Return each action's seconds over all that is asked, a block of it at a time, after a warm-up."""
    times: dict[Name, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        for each in asked[:WARM_UP]:
            action(each)
    for start in range(0, len(asked), BLOCK):
        for name, action in actions.items():
            action(asked[start])
            for each in asked[start : start + BLOCK]:
                began = time.perf_counter()
                action(each)
                times[name].append(time.perf_counter() - began)
    return times


def repeated(action: Callable[[int], object], count: int) -> list[float]:
    """Return the seconds of an action that is told how often it was done before."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        action(number)
        times.append(time.perf_counter() - began)
    return times

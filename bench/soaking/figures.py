"""The short table at the end of a soak: growth, slopes, latency early and late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.soaking.samples import Sample

SETTLED_FROM = 1 / 3
"""Slopes are taken over what follows this share of the soak: before it, caches fill."""


@dataclass(frozen=True)
class Slope:
    """A line through points by least squares."""

    a_unit: float  # how much it rises a unit of x
    first: float
    last: float


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Return the line through points (x, y); None where they have no two x."""
    count = len(points)
    if count < 2:  # noqa: PLR2004 - a line has two
        return None
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return None
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return Slope(rise, points[0][1], points[-1][1])


def settled(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of the last two thirds."""
    end = samples[-1]["at_seconds"]
    return [each for each in samples if each["at_seconds"] >= end * SETTLED_FROM]


def growth(samples: Sequence[Sample]) -> dict[str, Slope]:
    """Return kind of file -> bytes that each acknowledged call adds, over the last two thirds."""
    found = {}
    for kind in samples[-1]["bytes"]:
        line = slope([(each["acknowledged"], each["bytes"][kind]) for each in settled(samples)])
        if line is not None:
            found[kind] = line
    return found


def of_processes(samples: Sequence[Sample], what: str) -> dict[int, Slope]:
    """Return server -> how a figure of it rises a second, over the last two thirds; of those that were never killed."""
    found = {}
    for server in sorted({one["server"] for one in samples[-1]["processes"] if one["lives_on"]}):
        points = [
            (each["at_seconds"], float(one[what]))
            for each in settled(samples)
            for one in each["processes"]
            if one["server"] == server
        ]
        line = slope(points)
        if line is not None:
            found[server] = line
    return found


def quantile(seconds: Sequence[float], share: float) -> float:
    """Return a quantile in milliseconds."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def so_far(sample: Sample, deaths: int) -> str:
    """Return in one line how a soak stands; ``deaths``: how many servers were killed."""
    sizes = ", ".join(f"{kind} {size / (1 << 20):,.1f}" for kind, size in sorted(sample["bytes"].items()))
    memory = sum(one["rss_anon_bytes"] for one in sample["processes"]) / (1 << 20)
    descriptors = sum(one["descriptors"] for one in sample["processes"])
    slowest = max((each["p99"] for each in sample["latency_ms"].values()), default=0.0)
    return (
        f"{sample['at_seconds'] / 60:.1f} min: acknowledged {sample['acknowledged']:,}, "
        f"{sample['calls_per_second']:g} calls a second, slowest p99 {slowest:,.0f} ms, killed {deaths}, "
        f"MiB: {sizes}; of {len(sample['processes'])} servers: anonymous {memory:,.0f} MiB, descriptors {descriptors}; "
        f"violations {sample['violations']}"
    )


def table(samples: Sequence[Sample], took: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Return the lines of the table."""
    lines = ["grows by, each 1,000 acknowledged (last two thirds), and stands at:"]
    for kind, line in growth(samples).items():
        lines.append(f"  {kind:<12} {line.a_unit * 1000 / 1024:>10,.1f} KiB {line.last / 1e6:>10,.2f} MB")
    lines.append("each server that was never killed, a minute of the last two thirds:")
    for what, unit, divisor in (("rss_anon_bytes", "MB", 1e6), ("descriptors", "", 1), ("threads", "", 1)):
        for server, line in of_processes(samples, what).items():
            lines.append(
                f"  {what:<15} server {server} {line.a_unit * 60 / divisor:>+8.3f} {unit:<2} "
                f"from {line.first / divisor:,.1f} to {line.last / divisor:,.1f}"
            )
    lines.append(
        f"{'latency in ms':<20} {'p50, first and last third':>28} {'p99, likewise':>18} {'longest':>9} {'calls':>9}"
    )
    end = samples[-1]["at_seconds"]
    for operation, timed in sorted(took.items(), key=lambda each: -len(each[1])):
        early = [seconds for at, seconds in timed if at <= end / 3]
        late = [seconds for at, seconds in timed if at > end * 2 / 3]
        if early and late:
            lines.append(
                f"  {operation:<18} {quantile(early, 0.5):>19.1f} {quantile(late, 0.5):>8.1f} "
                f"{quantile(early, 0.99):>9.1f} {quantile(late, 0.99):>8.1f} "
                f"{1000 * max(seconds for _, seconds in timed):>9.0f} {len(timed):>9,}"
            )
    return lines

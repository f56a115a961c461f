"""Small multiples over time, as SVG, written by hand: one panel a figure, and marks where something was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from bench.soaking.samples import Sample

if TYPE_CHECKING:
    from bench.soaking.operator import Mark

_COLUMNS, _WIDTH, _HEIGHT = 3, 360, 150
_LEFT, _TOP, _GAP_X, _GAP_Y, _HEAD = 56, 40, 28, 34, 62
_COLOURS = ("#1f5fa8", "#c2571a", "#3c8d40", "#8a4fa3")
_MARKS = {"kill": "#c62828", "rebuild": "#2e7d32", "backup": "#6a5acd", "rotation": "#b8860b"}
_OPERATIONS = (
    "capture", "request_admission", "search", "get", "save_message", "search_memory", "forget", "erase",
)  # fmt: skip
_INK, _FAINT = "#222", "#bbb"

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """One panel: its title with the unit, and its lines by name."""

    title: str
    lines: dict[str, Points]


def panels(samples: Sequence[Sample]) -> list[Panel]:
    """Return the panels of a soak."""
    made = [Panel("calls per second", {"": _over(samples, lambda each: each["calls_per_second"])})]
    made.append(Panel("acknowledged, thousands", {"": _over(samples, lambda each: each["acknowledged"] / 1000)}))
    for kind in samples[-1]["bytes"]:
        points = [(each["at_seconds"], each["bytes"][kind] / 1e6) for each in samples]
        made.append(Panel(f"{kind}, MB", {"": points}))
    for what, title, divisor in (
        ("rss_anon_bytes", "RssAnon of each server, MB", 1e6), ("descriptors", "open descriptors", 1),
        ("threads", "threads", 1),
    ):  # fmt: skip
        servers = sorted({one["server"] for each in samples for one in each["processes"]})
        lines = {f"server {server}": _of_server(samples, server, what, divisor) for server in servers}
        made.append(Panel(title, lines))
    for operation in _OPERATIONS:
        lines = {
            name: [
                (each["at_seconds"], each["latency_ms"][operation][name])
                for each in samples
                if operation in each["latency_ms"]
            ]
            for name in ("p50", "p99")
        }
        if len(lines["p50"]) > 1:
            made.append(Panel(f"{operation}, ms", lines))
    return made


def _over(samples: Sequence[Sample], value: Callable[[Sample], float]) -> Points:
    return [(each["at_seconds"], float(value(each))) for each in samples]


def _of_server(samples: Sequence[Sample], server: int, what: str, divisor: float) -> Points:
    return [
        (each["at_seconds"], one[what] / divisor)
        for each in samples
        for one in each["processes"]
        if one["server"] == server
    ]


def svg(title: str, samples: Sequence[Sample], marks: Sequence[Mark]) -> str:
    """Return the drawing."""
    drawn = panels(samples)
    rows = -(-len(drawn) // _COLUMNS)
    width = _COLUMNS * (_WIDTH + _LEFT + _GAP_X) + _GAP_X
    height = _HEAD + rows * (_HEIGHT + _TOP + _GAP_Y)
    end = samples[-1]["at_seconds"] or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(_GAP_X, 24, title, size=15),
        *_legend(marks),
        *_marks(marks, end),
    ]
    for number, panel in enumerate(drawn):
        row, column = divmod(number, _COLUMNS)
        x = _GAP_X + column * (_WIDTH + _LEFT + _GAP_X) + _LEFT
        y = _HEAD + row * (_HEIGHT + _TOP + _GAP_Y) + _TOP
        parts += _panel(panel, x, y, end)
    return "\n".join([*parts, "</svg>", ""])


def _legend(marks: Sequence[Mark]) -> list[str]:
    parts, x = [], _GAP_X
    for what, colour in _MARKS.items():
        count = sum(mark.what == what for mark in marks)
        parts.append(f'<line x1="{x}" x2="{x}" y1="36" y2="50" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(x + 6, 47, f"{what} ({count})"))
        x += 110
    return parts


def _marks(marks: Sequence[Mark], end: float) -> list[str]:
    """Return the marks of a panel, drawn once and used in each."""
    parts = ['<defs><g id="marks" fill="none" stroke-width="0.7" opacity="0.35">']
    for what, colour in _MARKS.items():
        at = [_WIDTH * min(mark.at_seconds / end, 1.0) for mark in marks if mark.what == what]
        parts.append(f'<path stroke="{colour}" d="{"".join(f"M{x:.1f} 0v{_HEIGHT}" for x in at)}"/>')
    return [*parts, "</g></defs>"]


def _panel(panel: Panel, x: int, y: int, end: float) -> list[str]:
    highest = max((value for points in panel.lines.values() for _, value in points), default=0) or 1.0
    top = highest * 1.08
    parts = [_text(x, y - 22, panel.title, size=12)]
    parts.append(f'<use href="#marks" x="{x}" y="{y}"/>')
    parts.append(f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="{_FAINT}"/>')
    for share in (0.0, 0.5, 1.0):
        at = y + _HEIGHT * (1 - share * highest / top)
        parts.append(_text(x - 5, at + 4, _number(share * highest), anchor="end"))
        minutes = f"{share * end / 60:.1f} min"
        parts.append(_text(x + _WIDTH * share, y + _HEIGHT + 14, minutes, anchor="middle"))
    for number, (name, points) in enumerate(panel.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x + _WIDTH * at / end:.0f},{y + _HEIGHT * (1 - value / top):.1f}" for at, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        if name:
            parts.append(_text(x + _WIDTH - 70 * (len(panel.lines) - number) + 10, y - 8, name, colour=colour))
    return parts


def _text(x: float, y: float, text: str, *, size: int = 11, anchor: str = "start", colour: str = _INK) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits are enough

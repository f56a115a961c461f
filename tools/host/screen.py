"""The secret screen: whether a payload holds what must never be stored (CONTRACT §8, §9).

It runs under every admission policy. A finding is a detector's name and the place; not a byte of what was found leaves
this module, neither in a result nor in a log nor in an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from journal import limits
from journal.normal import nfkc, visible
from tools.host.detectors import assigned, library, spoken, transported, vendors
from tools.host.detectors.detector import Detector


class Finding(NamedTuple):
    """A secret's kind and place, such as ``private-key`` at ``payload.components[0].text``."""

    detector: str
    path: str


def screen(payload: dict[str, Any], evidence: dict[str, Any] | None = None) -> tuple[Finding, ...]:
    """Return what was found in a payload and its evidence: in every text, reference, locator and attestation.

    Args:
        payload: as sent by the caller, or the effective payload.
        evidence: as sent by the caller.
    """
    found: dict[Finding, None] = {}
    for root, value in (("payload", payload), ("evidence", evidence)):
        for path, text in _texts(value, root):
            for name in detect(text):
                found[Finding(name, path)] = None
    return tuple(found)


def detect(text: str) -> tuple[str, ...]:
    """Return the names of the detectors that find a secret in a text, in their order, each once."""
    names: dict[str, None] = {}
    for window in _windows(_plain(text)):
        lower = window.lower()
        for detector in _detectors():
            if detector.name in names or (detector.hints and not any(hint in lower for hint in detector.hints)):
                continue
            if detector.finds(window):
                names[detector.name] = None
    return tuple(names)


@cache
def _detectors() -> tuple[Detector, ...]:
    return (
        *vendors.DETECTORS,
        *transported.DETECTORS,
        *assigned.DETECTORS,
        *spoken.DETECTORS,
        *library.detectors(),
    )


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield every string of a JSON value with its path; digests are checked elsewhere and hold nothing readable."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, item in value.items():
            if not name.endswith("_digest"):
                yield from _texts(item, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _texts(item, f"{path}[{position}]")


def _plain(text: str) -> str:
    """Return the text as a reader sees it: compatibility forms folded, invisible characters gone."""
    return visible(nfkc(visible(text)))


def _windows(text: str) -> Iterator[str]:
    """Cut a text into overlapping windows at white space: no pattern meets more text than it was measured on."""
    size, overlap = limits.SCREEN_WINDOW_CHARACTERS, limits.SCREEN_OVERLAP_CHARACTERS
    start = 0
    while len(text) - start > size:
        end = _break_before(text, start + size, start + size - overlap)
        yield text[start:end]
        start = _break_before(text, end - overlap, max(start + 1, end - 2 * overlap))
    yield text[start:]


def _break_before(text: str, position: int, least: int) -> int:
    """Return the place after the last line end, else space, between ``least`` and a position; else the position."""
    for pattern in ("\n", " "):
        at = text.rfind(pattern, least, position)
        if at >= 0:
            return at + 1
    return position

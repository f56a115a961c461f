"""A candidate before a person, its secrets hidden: a terminal keeps what it showed, and so does its log.

The screen is the one that admission runs. A text in which it finds something is hidden whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Masked:
    """A content without the texts in which a secret was found, and what was found."""

    content: dict[str, Any]
    secrets: tuple[tuple[str, str], ...]  # (detector, place), such as ("private-key", "payload.components[0].text")

    @property
    def detectors(self) -> tuple[str, ...]:
        """The detectors that found something, each once."""
        return tuple(dict.fromkeys(detector for detector, _ in self.secrets))


def masked(content: dict[str, Any]) -> Masked:
    """Return a candidate's content with every text hidden in which the secret screen finds something."""
    from tools.host.screen import screen  # its library takes long to import, and most lists are empty

    found = screen(content["payload"], content["evidence"])
    places: dict[str, list[str]] = {}
    for finding in found:
        places.setdefault(finding.path, []).append(finding.detector)
    hidden = {path: f"(hidden: looks like a secret: {', '.join(names)})" for path, names in places.items()}
    shown = {name: _hide(value, name, hidden) for name, value in content.items()}
    return Masked(shown, tuple(found))


def _hide(value: Any, path: str, hidden: dict[str, str]) -> Any:
    """Return a JSON value with the texts at some paths replaced; paths are written as the screen writes them."""
    if isinstance(value, str):
        return hidden.get(path, value)
    if isinstance(value, dict):
        return {name: _hide(item, f"{path}.{name}", hidden) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(item, f"{path}[{position}]", hidden) for position, item in enumerate(value)]
    return value

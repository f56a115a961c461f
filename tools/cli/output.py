"""What a command prints: data on stdout, for people or as one JSON document; everything else on stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import click

from tools.cli.options import wants_json

# JSON escapes only the first 32 control characters. A terminal obeys more, and hides others; the escapes mean the same.
_UNSAFE = re.compile(
    "[\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]"
    "|[\U000e0000-\U000e0fff]"
)


def give(value: Any, human: Callable[[], str]) -> None:
    """Print a value: as JSON where that was asked for, else as ``human`` tells it."""
    if wants_json():
        click.echo(as_json(value))
    else:
        click.echo(human())


def as_json(value: Any) -> str:
    """Return one JSON document in which nothing can reach the terminal that a terminal obeys."""
    return escaped(json.dumps(value, ensure_ascii=False, indent=2))


def escaped(text: str) -> str:
    """Return JSON text in which nothing can reach the terminal that a terminal obeys; it means the same."""
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def note(text: str) -> None:
    """Tell a person something that is no data, on stderr."""
    click.echo(text, err=True)

"""An option's value that must be one of some names; a wrong one is refused with the nearest of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import click


class Named(click.Choice[str]):
    """A choice among names of one kind, such as ``tool`` or ``client``."""

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        super().__init__(names)
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is written."""
        if value not in self.choices:
            near = difflib.get_close_matches(str(value).lower(), self.choices, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.choices)}"
            self.fail(f"there is no {self._kind} {value}; {hint}", param, ctx)
        return str(value)

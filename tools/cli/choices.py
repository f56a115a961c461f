"""Names of which one must be given; a wrong one is refused with the nearest of them, or with all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import click


def known(given: str, names: Iterable[str]) -> str:
    """Return what to tell of the names that there are, to whoever gave another one: the nearest, else all of them."""
    by_letters = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(given.casefold(), by_letters, n=1)
    if near:
        return f"did you mean {by_letters[near[0]]}?"
    return f"there are {', '.join(by_letters.values())}" if by_letters else "there are none"


class Named(click.Choice[str]):
    """A choice among names of one kind, such as ``tool`` or ``client``."""

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        super().__init__(names)
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is written."""
        if value not in self.choices:
            self.fail(f"there is no {self._kind} {value}; {known(str(value), self.choices)}", param, ctx)
        return str(value)

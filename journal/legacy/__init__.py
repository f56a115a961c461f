"""Frames of earlier formats, read as this release would have written them.

``UPCASTERS`` has one function for each format that was ever released and is no longer written: it takes the fields of
a frame of that format and returns those of the next one, the format number first. A frame's bytes never change, so
chain and tree are over what was written; what is upcast is only what is read. Format 1 is the one that is written, and
the first one: it needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal.errors import RegistryVersionUnavailable

Fields = list[Any]
Upcaster = Callable[[Fields], Fields]

UPCASTERS: dict[int, Upcaster] = {}


def upcast(fields: Fields, to: int) -> Fields:
    """Return a frame's fields in the format ``to``; those of that format come back as they are.

    Raises:
        RegistryVersionUnavailable: the format is a later release's, or no upcaster leads on from it.
    """
    found = fields[0]
    while fields[0] != to:
        step = UPCASTERS.get(fields[0]) if fields[0] < to else None
        if step is None:
            raise RegistryVersionUnavailable(f"frame format {found} is unknown; this release reads {to}")
        fields = step(fields)
    return fields

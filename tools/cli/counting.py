"""Numbers of things in words: one of a thing is told otherwise than several."""

from __future__ import annotations

_IRREGULAR = {"aliases": "alias", "processes": "process"}


def counted(number: int, several: str, one: str | None = None) -> str:
    """Return a number and what it counts.

    Args:
        number: how many.
        several: what stands after any number but 1, such as ``records`` or ``candidates wait for a person``.
        one: what stands after 1; None: the same with its first word in the singular, which does for a noun alone.
    """
    if number != 1:
        return f"{number} {several}"
    return f"1 {singular(several) if one is None else one}"


def singular(words: str) -> str:
    """Return words with the first of them in the singular; a word that is no plural stays."""
    first, blank, more = words.partition(" ")
    return _IRREGULAR.get(first, first.removesuffix("s")) + blank + more

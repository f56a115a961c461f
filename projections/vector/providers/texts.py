"""Texts as a model gets them: nothing in them that breaks one, and no more of them than it reads."""

from __future__ import annotations

import unicodedata


def first_part(text: str, characters: int) -> str:
    """Return the beginning of a text, at most so many characters, in NFKC.

    NFKC, because a model is trained on it: Hangul in single letters, as some systems write it, is found like any other.
    It also keeps one byte of a text from becoming many characters inside a model's own code. NUL and what is no
    character become a space. What holds nothing comes back as one space, for some models refuse an empty text.
    """
    beginning = text[:characters].translate(_UNFIT)
    return unicodedata.normalize("NFKC", beginning)[:characters].strip() or " "


class _Unfit(dict[int, int]):
    """Surrogates and NUL to a space, all else as it is; a table for ``str.translate``."""

    def __missing__(self, code: int) -> int:
        return ord(" ") if code == 0 or 0xD800 <= code < 0xE000 else code  # noqa: PLR2004 - the range of surrogates


_UNFIT = _Unfit()

"""Looking for words in every byte of every file of a store."""

from __future__ import annotations

import re
from pathlib import Path

_WORD = re.compile(r"[A-Za-z]{6,}|[가-힣]{3,}")


def words_of(text: str) -> set[str]:
    """Return the distinctive words of a text: six Latin letters or more, or three Hangul syllables or more."""
    return set(_WORD.findall(text))


def files_of(place: Path) -> list[Path]:
    """Return every regular file under a directory."""
    return sorted(path for path in place.rglob("*") if path.is_file())


def hits(place: Path, words: set[str]) -> dict[str, str]:
    """Return word -> file of every word that some file under a directory holds as plain bytes."""
    found: dict[str, str] = {}
    for path in files_of(place):
        raw = path.read_bytes()
        found |= {word: path.name for word in words if word.encode() in raw}
    return found

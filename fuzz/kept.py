"""The seeds: ``seeds/<target>.hex``, one input a line in hex, with a word on why it is kept behind a ``#``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("seeds")


def seeds(target: str) -> list[bytes]:
    """Return a target's seeds; none where it has no file."""
    path = FOLDER / f"{target}.hex"
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [bytes.fromhex(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()]

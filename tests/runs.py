"""How a rig runs that draws what it does: at which length, from which seed, and how the same is run again.

make hands SEED=... to whatever it runs as ENGRAM_SEED; each rig's length is a variable of its own, told beside it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

_SEED = "ENGRAM_SEED"


def seed(usual: str = "") -> str:
    """Return the seed that was asked for, any text; else the usual one, or one that was drawn now."""
    return os.environ.get(_SEED) or usual or str(secrets.randbelow(10**8))


def number_of(seed: str) -> int:
    """Return the number that a seed is where one is needed: itself, or of another text the first bits of its digest."""
    try:
        return int(seed)
    except ValueError:
        return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")


def again(target: str, seed: str | int, **lengths: object) -> str:
    """Return the line that runs the same once more; ``lengths`` are variables of the target."""
    told = "".join(f" {name}={value}" for name, value in lengths.items())
    return f"this run again: make {target} SEED={shlex.quote(str(seed))}{told}"


@contextmanager
def repeatable(target: str, seed: str | int, **lengths: object) -> Iterator[None]:
    """Have whatever fails within say the line that runs it once more (``again``)."""
    try:
        yield
    except BaseException as error:
        error.add_note(again(target, seed, **lengths))
        raise


def unable(reason: str, *, is_long: bool) -> NoReturn:
    """Skip what cannot run here. Under CI, or where the long form was asked for, that is a failure: nothing was shown.

    Raises:
        Skipped, Failed: always one of them (pytest's).
    """
    if is_long or os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)

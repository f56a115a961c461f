"""A file of lines, read one at a time and numbered, so that what is wrong can be found without being quoted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from journal import limits


class WrongLine(Exception):
    """A line cannot be imported. The text names its number and the reason, and quotes nothing of it."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line without its end, counted from 1."""

    number: int
    text: bytes


def numbered_lines(path: Path, progress: Callable[[int, int], None]) -> Iterator[NumberedLine]:
    """Yield a file's lines but for blank ones; ``progress`` is told (bytes read, bytes of the file).

    Raises:
        WrongLine: a line is over EXCHANGE_LINE_MAX_BYTES. OSError: the file cannot be read.
    """
    size_bytes, done = path.stat().st_size, 0
    with path.open("rb") as file:
        number = 0
        while text := file.readline(limits.EXCHANGE_LINE_MAX_BYTES + 1):
            number += 1
            done += len(text)
            if len(text) > limits.EXCHANGE_LINE_MAX_BYTES:
                raise WrongLine(number, "too long")
            if text.strip():
                yield NumberedLine(number, text.rstrip(b"\r\n"))
            progress(done, max(done, size_bytes))

"""Other processes, real ones, that run some code and talk in lines."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
_PRELUDE = r"""
import sys
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()
def hear():
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    return line.strip()
"""


class Peer:
    """A Python process; its side of the talk is ``say`` and ``hear``, and ``sys.argv`` holds the arguments."""

    def __init__(self, code: str, *arguments: object, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PRELUDE + textwrap.dedent(code), *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        )  # fmt: skip

    def hear(self) -> str:
        """Return the next line that it says; fail if it ended instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the peer ended with {self.process.wait()}"
        return line.strip()

    def say(self, *words: object) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def lines(self) -> list[str]:
        """Return all that it says until it ends."""
        assert self.process.stdout is not None
        return [line.strip() for line in self.process.stdout]

    def end(self) -> int:
        """Close its ears and wait for its end; return its exit code, negative for a signal."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()

    def kill(self) -> None:
        """Kill it as nothing can be caught, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

"""Other processes, real ones: told what to do by lines, killed and stopped by signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
_PRELUDE = """
import sys
def say(*words):
    print(*words, flush=True)
def wait():
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    return line.strip()
"""


class Process:
    """A Python process that runs some code; ``say`` and ``wait`` are its side of the talk."""

    def __init__(self, code: str, *arguments: object) -> None:
        program = _PRELUDE + textwrap.dedent(code)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment, cwd=ROOT,
        )  # fmt: skip

    def hear(self) -> str:
        """Return the next line that it says; fail if it ended instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the process ended with {self.process.wait()}"
        return line.strip()

    def hear_all(self) -> Iterator[str]:
        """Yield what it says until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield line.strip()

    def tell(self, line: str = "") -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it as nothing can be caught, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop it where it stands, and wait until it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def finish(self) -> int:
        """Close its ears and wait for its end; return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

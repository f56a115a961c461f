"""The second process of the simulator: it takes orders in lines, and can die at any of them.

``python -m tests.simulator.second``: ``{"open": PATH, "seed": TEXT}`` opens a store and closes the one before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.tools.memory.world import ROOT

_VARIABLE = "ENGRAM_FAILPOINT"


class SecondProcess:
    """The simulator's side of it. A process that died is replaced when it is next asked for anything."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115 - it is the process's, and of each that follows it
        self._opened: tuple[str, str] | None = None
        self.deaths = 0

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name != _VARIABLE}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.simulator.second"], cwd=ROOT, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._last_words,
        )  # fmt: skip

    def open(self, path: Path, seed: str) -> None:
        """Have it open a store; each seed once a store, or two would draw the same keys."""
        self._opened, self.deaths = (str(path), seed), 0
        self._begin()

    def _begin(self) -> None:
        assert self._opened is not None
        path, seed = self._opened
        if self._process is None:
            self._process = self._start()
        self.ask({"open": path, "seed": f"{seed}-{self.deaths}"})
        answered = self.answer()
        assert answered == {"open": path}, self.last_words()

    def carry_out(self, order: dict[str, Any]) -> dict[str, Any] | None:
        """Have an order carried out; None where it died of it."""
        self.ask(order)
        return self.answer()

    def stand_ready(self) -> None:
        """Have it open the store again if it died; to open finishes what the dead one left, and writes that down."""
        if self._process is None:
            self._begin()

    def ask(self, order: dict[str, Any]) -> None:
        """Send an order."""
        self.stand_ready()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """Return what came of it; None where the process died."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._bury()
            return None
        answered: dict[str, Any] = json.loads(line)
        return answered

    def leave(self) -> None:
        """Have it close its store."""
        if self._process is not None:
            self.ask({"open": None})
            self.answer()

    def last_words(self) -> str:
        """Return the end of what it wrote to stderr."""
        size_bytes = self._last_words.seek(0, os.SEEK_END)
        self._last_words.seek(max(0, size_bytes - 4_000))
        return self._last_words.read().decode(errors="replace")

    def kill(self) -> None:
        """Kill it as nothing can be caught."""
        if self._process is not None:
            self._process.kill()
            self._bury()

    def _bury(self) -> None:
        assert self._process is not None
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None
        self.deaths += 1

    def close(self) -> None:
        """Have it close its store and end."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(30)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
        self._last_words.close()


def main() -> None:
    """Take orders until there are no more."""
    import structlog

    from tests.simulator.hand import Hand

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for answers alone
    hand: Hand | None = None
    for line in sys.stdin.buffer:
        order = json.loads(line)
        answered: dict[str, Any]
        if "open" in order:
            if hand is not None:
                hand.close()
            hand = None if order["open"] is None else Hand(Path(order["open"]), order["seed"].encode())
            answered = {"open": order["open"]}
        else:
            assert hand is not None
            if failpoint := order.get("failpoint"):
                os.environ[_VARIABLE] = failpoint
            answered = hand.carry_out(order)
            os.environ.pop(_VARIABLE, None)
        sys.stdout.write(json.dumps(answered) + "\n")
        sys.stdout.flush()
    if hand is not None:
        hand.close()


if __name__ == "__main__":
    main()

"""The inter-process write lock of one journal directory: fair, and with a deadline, which LMDB's own has not."""

from __future__ import annotations

from pathlib import Path

from journal.filelock import FileLock


class WriteLock:
    """Two lock files, "turn" and "writer".

    Who waits holds "turn" and tries for "writer"; who has just released "writer" must queue for "turn" like everybody
    else. So no process can take the lock twice while another waits.
    """

    def __init__(self, directory: Path) -> None:
        self._turn = FileLock(directory / "turn.lock")
        self._writer = FileLock(directory / "writer.lock")

    def acquire(self, deadline: float | None) -> bool:
        """Take the lock before the deadline (``time.monotonic`` seconds); return whether it was had."""
        if not self._turn.acquire(deadline):
            return False
        try:
            return self._writer.acquire(deadline)
        finally:
            self._turn.release()

    def release(self) -> None:
        """Let another process have a turn."""
        self._writer.release()

    def close(self) -> None:
        """Close both handles, which releases the lock."""
        self._turn.close()
        self._writer.close()

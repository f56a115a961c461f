"""The scrub of a journal that is served: a child process walks it from time to time (``quarantine``).

When, and who of all processes, is told by ``journal.walks``. Frames, sealed parts, key slots and keyrings are checked
at each reading, LMDB's own pages are not. What a walk found once is looked at a second time.
"""

from __future__ import annotations

from pathlib import Path

from journal.errors import EngramError, JournalCorrupt, StoreUnavailable
from journal.store.lmdb.quarantine import command_of, understood
from journal.walks import Ended, Scrubbed, Walks, last_of


class PageScrub:
    """The walks of one process that has the journal open. Belongs to one thread."""

    def __init__(self, directory: Path, opened_at: float) -> None:
        """Take a journal's directory, and when this process opened it, in epoch seconds."""
        self._directory = directory
        self._opened_at = opened_at
        self.walks = Walks(directory, opened_at, command_of(directory, "idle"))
        self._found_before: EngramError | None = None  # by the walk before, which is made again to be sure

    def step(self) -> None:
        """Begin a walk where one is due, or take what one found that has ended; never wait for one.

        Raises:
            JournalCorrupt, StoreUnavailable: the journal is damaged, as a walk found twice, here or in another process.
        """
        if self.walks.child is None:
            last = last_of(self._directory)
            if last is not None and last.code and last.ended_at >= self._opened_at:
                raise _error_of(last)
        ended = self.walks.step()
        if ended is not None:
            self._take(ended)

    def _take(self, ended: Ended) -> None:
        before, self._found_before = self._found_before, None
        try:
            found = _found(ended.returncode, ended.output)
        except StoreUnavailable:
            self.walks.end_unmade()  # it could not be made, or somebody ended it: that says nothing of the journal
            return
        if found is None:
            self.walks.end()
        elif before is None:
            self._found_before = found
            self.walks.again()
        else:
            self.walks.end(found.code, found.detail)
            raise found

    def close(self) -> None:
        """End a walk that is under way."""
        self.walks.close()


def _found(returncode: int, raw: bytes) -> EngramError | None:
    """Return what a walk found, None where everything is as it was written.

    Raises:
        StoreUnavailable: it could not be made.
    """
    try:
        broken = understood(returncode, raw)
    except JournalCorrupt as error:
        return error
    return StoreUnavailable(f"index tables are not what was written: {', '.join(broken)}") if broken else None


def _error_of(scrubbed: Scrubbed) -> EngramError:
    kind = JournalCorrupt if scrubbed.code == JournalCorrupt.code else StoreUnavailable
    return kind(scrubbed.detail)

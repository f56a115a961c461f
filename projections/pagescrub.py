"""The scrub of the projections that are served: a child process walks them from time to time (``pagewalk``).

When, and who of all processes, is told by ``journal.walks``. What is not as it was written is taken out of force, so
that whoever asks next has it built anew from the journal: nothing is lost by it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from journal.errors import StoreUnavailable
from journal.foreign import UNREADABLE
from journal.ownmodule import own_command
from journal.walks import BEGUN, DIED_OF_PAGES, Ended, Walks
from projections.inforce import InForce

_LOCK_SECONDS: Final = 5.0  # the projection's lock is held to make, switch and remove generations


class ProjectionScrub:
    """The walks of one process that serves projections. Belongs to one thread."""

    def __init__(self, projections_path: Path, opened_at: float) -> None:
        """Take a store's ``projections`` directory, which is there, and when this process opened it, in epoch seconds.

        Raises:
            OSError: nothing can be written there.
        """
        self._path = projections_path
        command = own_command("projections.pagewalk", str(projections_path.resolve()))
        self.walks = Walks(projections_path, opened_at, command)

    def step(self) -> Mapping[str, str]:
        """Begin a walk where one is due, or take what one found that has ended; never wait for one.

        Returns what was taken out of force, as ``<scope tag>/<name>/<number>``, and why.

        Raises:
            ProjectionStale, StoreUnavailable: something could not be taken out of force; the next walk finds it again.
        """
        ended = self.walks.step()
        if ended is None:
            return {}
        try:
            broken = found(ended)
        except StoreUnavailable:
            self.walks.end_unmade()
            return {}
        self.walks.end()
        for name in broken:
            directory = self._path / name
            InForce(directory.parent).void(time.monotonic() + _LOCK_SECONDS, directory.name)
        return broken

    def close(self) -> None:
        """End a walk that is under way."""
        self.walks.close()


def found(ended: Ended) -> dict[str, str]:
    """Return what a walk found not to be as it was written.

    Raises:
        StoreUnavailable: it could not be made, or somebody ended it.
    """
    lines = ended.output.removeprefix(BEGUN).splitlines()
    if ended.output.startswith(BEGUN) and lines:
        is_told = lines[-1].startswith(b"{")
        if not is_told and -ended.returncode in DIED_OF_PAGES:
            return {lines[-1].decode(): f"the walk over it died: {ended.returncode}"}
        if is_told and ended.returncode == 0:
            with suppress(*UNREADABLE):
                return msgspec.json.decode(lines[-1], type=dict[str, str])
    raise StoreUnavailable(f"the walk over the projections could not be made: exit code {ended.returncode}")

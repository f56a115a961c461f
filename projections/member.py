"""One projection of a scope as this process serves it: which generation it has open, and what it folded in memory."""

from __future__ import annotations

import time

from journal import limits
from journal.errors import StoreUnavailable
from projections.aside import private_generation
from projections.generation import Generation
from projections.generations import Generations
from projections.inforce import READ_ONLY
from projections.overlay import Changes
from projections.port import Projection


class Member:
    """One projection as this process serves it."""

    def __init__(self, projection: Projection, generations: Generations) -> None:
        self.projection = projection
        self.generations = generations
        self.shared: Generation | None = None
        self.private: Generation | None = None  # in a place of our own, while the shared one cannot be written
        self.changes: Changes | None = None
        self.shown = 0  # the cursor that its generation had when this process last read it
        self._read_only = False
        self._seen_cursor = -1
        self._seen_at = 0.0

    @property
    def generation(self) -> Generation:
        """The generation that is read and folded into."""
        generation = self.private or self.shared
        if generation is None:
            raise StoreUnavailable("a projection is not open")
        return generation

    def open(self, floor: int, deadline: float | None) -> None:
        """Have the generation in force open; make one where there is none.

        Raises:
            ProjectionStale: it was not had by the deadline.
        """
        if self.shared is not None and not self.generations.is_current(self.shared):
            self.let_go()
        if self.shared is None and not self._read_only:
            try:
                self.shared = self.generations.open_or_begin(floor, deadline)
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise StoreUnavailable(f"a projection cannot be opened: {type(error).__name__}") from error
                self._read_only = True
            except StoreUnavailable:  # the disk is full, say: a read needs no room there, and this one is tried again
                self.private = self.private or self._aside(floor)
        if self._read_only and self.private is None:
            self.private = self._aside(floor)
        if self.private is not None and self.shared is not None and self.shared.environment.claim(0.0):
            self.shared.environment.unclaim()
            self.drop_private()

    def notice_stuck(self, cursor: int, floor: int) -> None:
        """Note how far the writing process is; fold in a place of our own once it makes no headway."""
        now = time.monotonic()
        if cursor != self._seen_cursor:
            self._seen_cursor, self._seen_at = cursor, now
        elif now - self._seen_at >= limits.PROJECTION_STUCK_SECONDS and self.private is None:
            self.private = self._aside(floor)

    def _aside(self, floor: int) -> Generation:
        projections_path = self.generations.path.parent.parent
        return private_generation(self.projection, self.generations.scope, floor, projections_path)

    def let_go(self) -> None:
        """Release the shared generation, which is no longer in force."""
        if self.shared is not None:
            self.shared.environment.give_up()
            self.shared.release()
            self.shared = None
        self.changes = None

    def drop_private(self) -> None:
        """Release the generation in a place of our own; the next read begins another if it must."""
        if self.private is not None:
            self.private.release()
            self.private = None
        self.changes = None

    def close(self) -> None:
        """Release everything."""
        if self.shared is not None:
            self.shared.release()
            self.shared = None
        self.drop_private()

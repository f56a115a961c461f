"""Reading the journal a page ahead, so that somebody can prepare for what is folded next."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from journal import limits
from journal.scope import Scope
from projections.generation import Generation
from projections.port import FoldEvent
from projections.tail import JournalSource, Page, Tail

Prepare = Callable[[Sequence[FoldEvent]], None]


class Lookahead(Tail):
    """A tail that tells of each page's events while the page before it is folded."""

    def __init__(self, journal: JournalSource, scope: Scope, prepare: Prepare) -> None:
        """Take what is told."""
        super().__init__(journal, scope)
        self._prepare = prepare
        self._ahead: Page | None = None

    def _read(self, after: int) -> Page:
        page = self._ahead if self._ahead is not None and self._ahead.after == after else self._prepared(after)
        self._ahead = self._prepared(page.last) if page.events else None
        return page

    def _prepared(self, after: int) -> Page:
        page = super()._read(after)
        with self.opening():
            self._prepare(page.events)
        return page


def prepared_tail(
    journal: JournalSource, scope: Scope, buildings: Sequence[Generation], missing_events: int, stack: ExitStack,
) -> Tail:  # fmt: skip
    """Return what is to be folded into generations, prepared where a projection can and it is worth the while."""
    if missing_events < limits.AHEAD_MIN_EVENTS or not is_processor_idle():
        return Tail(journal, scope)
    for building in buildings:
        weighing_ahead = getattr(building.projection, "weighing_ahead", None)
        if weighing_ahead is not None:
            return Lookahead(journal, scope, stack.enter_context(weighing_ahead()))
    return Tail(journal, scope)


def is_processor_idle() -> bool:
    """Whether a processor had nothing to do lately. On a busy machine a second process costs more than it saves."""
    return (os.cpu_count() or 1) - os.getloadavg()[0] >= 1

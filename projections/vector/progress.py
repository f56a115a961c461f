"""How far embedding is: what the journal's own index says is in force, beside the rows of one model.

No key, no fold and no provider is needed for it, so that it can be looked at beside a server, and by one who may write
nothing. A message's embedding counts here whichever revision it is of; an embedder finds that out, and replaces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal import limits
from journal.chain import CANDIDATE_PREFIX
from journal.lifecycle import State
from journal.messages import PREFIX as MESSAGE_PREFIX
from journal.messages import MessageState

if TYPE_CHECKING:
    from journal.store.port import Subject
    from projections.vector.cache import Cursors, Failure
    from projections.vector.standing import Standing


@dataclass(frozen=True, slots=True)
class Progress:
    """How far embedding is, in subjects in force."""

    embedded: int
    wanted: int  # not embedded yet; what waits for its next attempt is among them
    failed: int  # not embedded, and resting

    @property
    def total(self) -> int:
        """How many subjects are in force."""
        return self.embedded + self.wanted + self.failed

    @property
    def is_complete(self) -> bool:
        """Whether everything is embedded."""
        return self.embedded == self.total

    def __str__(self) -> str:
        return f"{self.embedded} embedded, {self.wanted} wanted, {self.failed} failed"

    def told(self) -> str:
        """Return it as a state: "complete", or "embedding 3 of 5, 1 failed"."""
        if self.is_complete:
            return "complete"
        return f"embedding {self.embedded} of {self.total}" + (f", {self.failed} failed" if self.failed else "")


def in_force(subjects: Iterable[tuple[str, Subject]], live: Collection[bytes] | None = None) -> dict[int, int]:
    """Return what is to be embedded: the cursor of its birth, and that of the event whose text counts.

    Args:
        subjects: of the journal's index, with their ids.
        live: the ids of the data keys that are there; what has none of them is lost, and left out. None: not known.
    """
    found = {}
    for name, subject in subjects:
        if live is not None and subject.key_id not in live:
            continue
        if name.startswith(MESSAGE_PREFIX):
            if subject.state != MessageState.ERASED:
                found[subject.born] = subject.decided or subject.born
        elif name.startswith(CANDIDATE_PREFIX) and subject.state == State.ACCEPTED_CURRENT:
            found[subject.born] = subject.born
    return found


def resting(wanted: Mapping[int, int], embedded: Collection[int], failures: Mapping[int, Failure]) -> Counter[str]:
    """Return how much of what is in force rests, by why: "unavailable", "refused", "lost"."""
    return Counter(
        failure.code.name.lower()
        for cursor, failure in failures.items()
        if failure.rests and cursor not in embedded and wanted.get(cursor) == failure.text_cursor
    )


def progress(wanted: Mapping[int, int], embedded: Collection[int], failures: Mapping[int, Failure]) -> Progress:
    """Return how far it is.

    Args:
        wanted: what is to be embedded (``in_force``).
        embedded: cursors that have a row.
        failures: what is noted of others.
    """
    done = sum(cursor in embedded for cursor in wanted)
    failed = resting(wanted, embedded, failures).total()
    return Progress(done, len(wanted) - done - failed, failed)


def by_words_alone(standing: Standing, failures: Mapping[int, Failure]) -> Cursors:
    """Return what is in force and can be found by words alone: refused, or its text lost, after all its attempts.

    A few only, as many as a model may leave out and still be complete; where they are more, none. A provider that does
    not answer leaves nothing to words: it may the next time.
    """
    import numpy as np

    from projections.vector.cache import FailureCode

    texts = dict(zip(standing.cursors.tolist(), standing.texts.tolist(), strict=True))
    found = sorted(
        cursor for cursor, failure in failures.items()
        if failure.rests and failure.code != FailureCode.UNAVAILABLE and texts.get(cursor) == failure.text_cursor
    )  # fmt: skip
    is_few = len(found) <= few_of(len(texts)) and len(found) < len(texts)
    return np.array(found if is_few else [], np.uint64)


def few_of(total: int) -> int:
    """Return how many of so many subjects a model may leave out and still be complete."""
    return max(1, total // limits.VECTOR_REFUSED_SHARE)


def standing_of(wanted: Mapping[int, int]) -> Standing:
    """Return what is to be embedded (``in_force``) as embeddings are asked for it."""
    import numpy as np

    from projections.vector.standing import Standing

    cursors = sorted(wanted)
    return Standing(np.array(cursors, np.uint64), np.array([wanted[cursor] for cursor in cursors], np.uint64))

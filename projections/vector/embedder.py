"""The embedder: finds what is not embedded yet, and embeds it a batch at a time.

There is no queue to lose: what is wanted is what is in force without an embedding of its newest text, looked up anew in
every step. Two processes that embed at once do some of it twice, which is harmless. No transaction and no view is held
while a provider works, and nothing is written to the journal.

A text that was not embedded is tried again later, alone, so that it keeps no other back; after some attempts it rests
until a person or a restart asks. A provider that fails again and again is itself left alone for a while.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from journal import limits
from journal.embeddings import seal_embedding
from journal.errors import BlobMissing, JournalCorrupt
from journal.events import EventType
from projections.vector.cache import Cache, Changes, Cursors, Failure, FailureCode
from projections.vector.embedding import Embedding, packable, text_digest
from projections.vector.folders import Folders
from projections.vector.opened import Embeddings
from projections.vector.parts import parts_of
from projections.vector.progress import Progress, few_of
from projections.vector.providers.port import EmbeddingFailed, Provider
from projections.vector.standing import Standing, ended, messages_standing, records_standing, text_of

if TYPE_CHECKING:
    from journal.log import Journal
    from projections.catchup import Projections

_READ = ("current", "timeline")
_INSTANT_SECONDS = 1e-6


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be embedded."""

    standing: Standing
    records: Cursors  # those of the subjects that are records
    due: NDArray[np.intp]  # places in ``standing`` of what can be embedded now, the newest first
    waiting: int  # not embedded, to be tried again later, or under way
    failures: dict[int, Failure]  # of subjects in force that are not embedded
    ended: set[int]  # cursors of which something is kept, by this model or another, whose subject is terminal


@dataclass(frozen=True, slots=True)
class _Text:
    cursor: int
    text_cursor: int
    text: str


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one step deals with."""

    texts: list[_Text]
    lost: list[_Text]  # their text cannot be had
    gone: int  # erased meanwhile

    @property
    def size(self) -> int:
        return len(self.texts) + len(self.lost) + self.gone


class Embedder:
    """Embeds one scope by one provider. Safe for several threads."""

    def __init__(self, journal: Journal, projections: Projections, folders: Folders, provider: Provider) -> None:
        """Take the scope's projections, of which ``current`` and ``timeline`` are read where they are served."""
        self._journal = journal
        self._projections = projections
        self._folders = folders
        self._provider = provider
        self._embeddings = Embeddings(journal, projections.scope, folders, provider.digest, provider.dimension)
        self._names = [name for name in _READ if name in projections.names]
        self._mutex = threading.Lock()
        self._settled: dict[int, int] = {}  # message -> revision whose embedding was seen to be of its text
        self._under_way: set[int] = set()  # what some thread is embedding right now
        self._is_fresh = True
        self._was_in_force = False
        self._pause_seconds = 0.0
        self._paused_until = 0.0
        self._pace = 0.0  # characters a second of a provider on this machine; 0: not known yet
        self.refusal = ""  # what the provider said when it failed last; empty since it embedded anything

    @property
    def embeddings(self) -> Embeddings:
        """What is embedded by this provider's model."""
        return self._embeddings

    @property
    def is_busy(self) -> bool:
        """Whether some thread is embedding right now."""
        with self._mutex:
            return bool(self._under_way)

    # --- the two verbs ---------------------------------------------------------------------------

    def step(self, deadline: float | None = None, *, only: int | None = None) -> int:
        """Embed the next batch; return how many are left that can be embedded now.

        ``only``: the cursor of the one subject that is embedded, if it can be. ``deadline`` is in ``time.monotonic``
        seconds; past it nothing is begun. A provider is never interrupted. What another thread is embedding already is
        left to it. When nothing is left, the model comes into force if another was (``Folders.adopt``); a model that
        was in force and is not any more, for another process has another one configured, embeds nothing until a
        restart. A provider that fails is no error here; ``progress`` tells of it.

        Raises:
            EngramError: the journal, its projections or the embeddings cannot be read or written now.
        """
        with self._mutex:
            wanted = self._look(deadline)
            if only is not None:
                wanted = replace(wanted, due=wanted.due[wanted.standing.cursors[wanted.due] == only])
            self._clear(wanted)
            now = time.monotonic()
            if self._is_replaced():
                return 0
            if not len(wanted.due):
                if only is None:
                    self._finish(wanted)
                return 0
            if now < self._paused_until:  # or whoever goes on while something is left would spin
                return 0
            if deadline is not None and now >= deadline:
                return len(wanted.due)
            batch = self._batch(wanted)
            mine = {each.cursor for each in batch.texts}
            self._under_way |= mine
        try:
            self._embed(wanted, batch)
        finally:
            with self._mutex:
                self._under_way -= mine
        left = len(wanted.due) - batch.size
        if not left:
            with self._mutex:
                wanted = self._look(deadline)
                self._finish(wanted)
                left = len(wanted.due)  # what was refused together is due again at once, each alone
        return left

    def progress(self, deadline: float | None = None) -> Progress:
        """Return how far it is; raises as ``step``."""
        with self._mutex:
            wanted = self._look(deadline)
        missing = len(wanted.due) + wanted.waiting
        failed = sum(failure.rests for failure in wanted.failures.values())
        return Progress(len(wanted.standing.cursors) - missing - failed, missing, failed)

    def retry(self) -> None:
        """Try again what rests: a person asked."""
        with self._mutex:
            self._paused_until = self._pause_seconds = 0.0
            cache = self._embeddings.cache
            cache.change(Changes(failures=dict.fromkeys(cache.failures())))

    # --- what is wanted --------------------------------------------------------------------------

    def _look(self, deadline: float | None) -> _Wanted:
        cache = self._embeddings.cache
        if self._is_fresh:  # a restart asks
            cache.change(Changes(failures=dict.fromkeys(cache.failures())))
            self._is_fresh = False
        present, failures = cache.cursors(), cache.failures()  # before the head is looked at: each is of a known birth
        kept = self._kept(present, failures)
        nothing = np.zeros(0, np.uint64)
        records = messages = Standing(nothing, nothing)
        with self._projections.snapshot(deadline, self._names) as snapshot:
            current = snapshot.current if "current" in self._names else None
            timeline = snapshot.reader("timeline") if "timeline" in self._names else None
            if current is not None:
                records = records_standing(current)
            if timeline is not None:
                messages = messages_standing(timeline)
            standing = records.joined(messages)
            over = ended(current, timeline, np.setdiff1d(kept, standing.cursors).tolist())
        missing = ~np.isin(standing.cursors, present) | self._is_stale(standing, present)
        places = np.flatnonzero(missing)[::-1]
        newest = zip(standing.cursors[places].tolist(), standing.texts[places].tolist(), strict=True)
        open_ones = {
            cursor: failures[cursor]
            for cursor, text_cursor in newest
            if cursor in failures and failures[cursor].text_cursor == text_cursor
        }
        now = self._journal.clock.now()
        later = [cursor for cursor, failure in open_ones.items() if failure.rests or failure.not_before > now]
        due = places[~np.isin(standing.cursors[places], np.array([*later, *self._under_way], np.uint64))]
        resting = sum(failure.rests for failure in open_ones.values())
        waiting = len(places) - len(due) - resting
        return _Wanted(standing, records.cursors, due, waiting, open_ones, over)

    def _kept(self, present: Cursors, failures: dict[int, Failure]) -> Cursors:
        """Return the cursors of which anything is kept, in the folders of other models too."""
        names = [name for name in self._folders.names() if name != self._embeddings.cache.name]
        others = [Cache(self._folders, name).cursors() for name in names]
        return np.unique(np.concatenate((present, np.array(list(failures), np.uint64), *others)))

    def _is_stale(self, standing: Standing, present: Cursors) -> NDArray[np.bool_]:
        """Return where an embedding is of a text that was revised since. Each revision is looked at once."""
        stale = np.zeros(len(standing.cursors), np.bool_)
        revised = np.flatnonzero(
            (standing.texts != standing.cursors) & np.isin(standing.cursors, present, assume_unique=True)
        )  # fmt: skip
        births, texts = standing.cursors[revised].tolist(), standing.texts[revised].tolist()
        doubtful = [
            place for place, birth, text in zip(revised.tolist(), births, texts, strict=True)
            if self._settled.get(birth) != text
        ]  # fmt: skip
        if not doubtful:
            return stale
        asked = Standing(standing.cursors[doubtful], standing.texts[doubtful])
        good = np.isin(asked.cursors, self._embeddings.load(asked).cursors)
        self._settled.update(zip(asked.cursors[good].tolist(), asked.texts[good].tolist(), strict=True))
        stale[np.array(doubtful)[~good]] = True
        return stale

    # --- a batch ---------------------------------------------------------------------------------

    def _embed(self, wanted: _Wanted, batch: _Batch) -> None:
        """Embed a batch, and write what came of it."""
        changes = Changes()
        self._count_failures(changes, wanted, batch.lost, FailureCode.LOST)
        if batch.texts:
            began = time.monotonic()
            try:
                vectors = self._vectors(batch.texts)
            except EmbeddingFailed as failed:
                self.refusal = str(failed)
                self._fail(changes, wanted, batch.texts, failed)
            else:
                self.refusal = ""
                self._pause_seconds = 0.0
                took = max(time.monotonic() - began, _INSTANT_SECONDS)
                self._pace = sum(len(each.text) for each in batch.texts) / took
                self._seal(changes, batch.texts, vectors)
        texts = {each.cursor: each.text_cursor for each in batch.texts}
        changes.still = lambda cursor: self._is_newest(cursor, texts[cursor])
        self._embeddings.cache.change(changes)

    def _is_newest(self, cursor: int, text_cursor: int) -> bool:
        """Whether a text was not revised by now; records never are."""
        with self._journal.store.view(self._projections.scope) as view:
            event = view.event(cursor)
            if event is None or event.header.kind is not EventType.MESSAGE:
                return event is not None
            row = view.subject(event.header.subject or "")
            return row is not None and text_cursor == (row.decided or row.born)

    def _vectors(self, texts: list[_Text]) -> list[NDArray[np.float16]]:
        """Return the vectors of texts, a row each part.

        Raises:
            EmbeddingFailed: none was made, or none that can be used.
        """
        parts = [parts_of(each.text) for each in texts]
        asked = [part for each in parts for part in each]
        vectors = packable(self._provider.documents(asked), len(asked), self._provider.dimension)
        if vectors is None:
            raise EmbeddingFailed("the provider gave vectors of another shape, or none that can be used")
        return np.split(vectors, np.cumsum([len(each) for each in parts])[:-1])

    def _batch(self, wanted: _Wanted) -> _Batch:
        """Return the next batch of what is due."""
        texts: list[_Text] = []
        lost: list[_Text] = []
        gone = characters = 0
        most = limits.VECTOR_BATCH_CHARACTERS
        if not self._provider.leaves_machine:
            pace = self._pace * limits.VECTOR_BATCH_SECONDS or limits.VECTOR_BATCH_FIRST_CHARACTERS
            most = min(most, int(pace))
        births, newest = wanted.standing.cursors[wanted.due].tolist(), wanted.standing.texts[wanted.due].tolist()
        records = np.isin(wanted.standing.cursors[wanted.due], wanted.records).tolist()
        for cursor, text_cursor, is_record in zip(births, newest, records, strict=True):
            failure = wanted.failures.get(cursor)
            is_alone = failure is not None and (failure.code is FailureCode.REFUSED or failure.attempts > 1)
            if len(texts) == limits.VECTOR_BATCH_TEXTS or (texts and is_alone):
                break
            try:
                text = text_of(self._journal, self._projections.scope, cursor, text_cursor, record=is_record)
            except (BlobMissing, JournalCorrupt):
                lost.append(_Text(cursor, text_cursor, ""))
                continue
            if text is None:
                gone += 1
                continue
            characters += len(text)
            if texts and characters > most:
                break
            texts.append(_Text(cursor, text_cursor, text))
            if is_alone:
                break
        return _Batch(texts, lost, gone)

    def _seal(self, changes: Changes, texts: list[_Text], vectors: list[NDArray[np.float16]]) -> None:
        with self._journal.store.view(self._projections.scope) as view:
            for each, rows in zip(texts, vectors, strict=True):
                event = view.event(each.cursor)
                plaintext = Embedding(self._provider.digest, text_digest(each.text), rows).packed()
                part = None if event is None else seal_embedding(self._journal, view, event.header, plaintext)
                if part is not None:  # else it ended meanwhile
                    changes.put[each.cursor] = part

    # --- failures --------------------------------------------------------------------------------

    def _fail(self, changes: Changes, wanted: _Wanted, texts: list[_Text], failed: EmbeddingFailed) -> None:
        code = FailureCode.UNAVAILABLE if failed.retryable else FailureCode.REFUSED
        self._count_failures(changes, wanted, texts, code)
        if failed.retryable:
            self._pause_seconds = min(max(1.0, 2 * self._pause_seconds), limits.VECTOR_PAUSE_MAX_SECONDS)
            self._paused_until = time.monotonic() + self._pause_seconds * _jitter()

    def _count_failures(self, changes: Changes, wanted: _Wanted, texts: list[_Text], code: FailureCode) -> None:
        now = self._journal.clock.now()
        is_one_of_many = code is FailureCode.REFUSED and len(texts) > 1  # which, shows when each is tried alone
        for each in texts:
            before = wanted.failures.get(each.cursor)
            attempts = 1 if before is None else before.attempts + 1
            seconds = limits.VECTOR_RETRY_SECONDS * limits.VECTOR_RETRY_FACTOR ** (attempts - 1)
            not_before = now if is_one_of_many else now + int(1000 * seconds * _jitter())
            changes.failures[each.cursor] = Failure(attempts, not_before, code, each.text_cursor)

    # --- around it -------------------------------------------------------------------------------

    def _clear(self, wanted: _Wanted) -> None:
        """Delete what is kept of subjects that are terminal, here and in the folders of other models."""
        if not wanted.ended:
            return
        for name in self._folders.names():
            Cache(self._folders, name).change(Changes(delete=wanted.ended))
        for cursor in wanted.ended:
            self._settled.pop(cursor, None)

    def _finish(self, wanted: _Wanted) -> None:
        """Put the model in force where nothing is left to embed but a few texts that it refuses, or that are lost."""
        total, open_ones = len(wanted.standing.cursors), wanted.failures.values()
        if len(wanted.due) or self._under_way or any(failure.code is FailureCode.UNAVAILABLE for failure in open_ones):
            return
        if len(open_ones) > few_of(total) or (total and len(open_ones) == total):
            return
        self._folders.adopt(self._provider.digest)
        self._was_in_force |= self._folders.current() == self._embeddings.cache.name

    def _is_replaced(self) -> bool:
        """Whether another model came into force after this one: two that take turns would embed without end."""
        current = self._folders.current()
        self._was_in_force |= current == self._embeddings.cache.name
        return self._was_in_force and current not in (None, self._embeddings.cache.name)


def _jitter() -> float:
    """Return a factor that keeps processes from trying at the same instant."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - no secret

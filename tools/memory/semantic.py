"""The semantic channel: the host's provider of embeddings, and what is embedded of each scope.

Nothing of it is loaded before it is needed: a call that asks for words alone imports no library of vectors.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from journal import layout, limits
from journal.errors import EngramError, RankingUnavailable
from projections.lexical.question import Question
from tools.lazylog import LazyLog
from tools.memory.by_meaning import ByMeaning, NotEmbedded

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.catchup import Projections
    from projections.snapshot import Snapshot
    from projections.vector.cache import Cache
    from projections.vector.embedder import Embedder
    from projections.vector.index import VectorIndex
    from projections.vector.plain import Plain
    from projections.vector.providers.port import Provider
    from projections.vector.providers.settings import Settings
    from tools.memory.query_embedding import QueryVector


_log = LazyLog()


@dataclass(frozen=True, slots=True)
class Meant:
    """A question, and its vector."""

    question: Question
    vector: QueryVector


class Semantic:
    """The semantic channel of one store. Safe for several threads."""

    def __init__(self, journal: Journal, settings: Settings, provider: Provider | None = None) -> None:
        """Take what the host says; the provider is made when it is first needed, unless there is one."""
        self._journal = journal
        self._settings = settings
        self._mutex = threading.Lock()
        self._provider = provider
        self._closed = False
        self._scopes: dict[bytes, tuple[Embedder, VectorIndex]] = {}
        self._owners: OrderedDict[tuple[bytes, frozenset[str]], VectorIndex] = OrderedDict()  # the last used at the end
        self._plain: Plain | None = None
        self._rests_until = 0.0
        self._refusals: dict[bytes, str] = {}  # of each scope, the one that was logged last
        self.unanswered = ""  # why the last query was not embedded

    @property
    def provider(self) -> Provider:
        """The provider, made now if it was not.

        Raises:
            RankingUnavailable: it cannot be had; the detail says the mend.
        """
        with self._mutex:
            if self._provider is None:
                self._provider = self._made()
            if self._closed:  # it may be made just now
                self._provider.close()
            return self._provider

    def _made(self) -> Provider:
        from projections.vector.providers import make
        from projections.vector.providers.port import EmbeddingFailed

        try:
            provider = make(self._settings)
        except (EmbeddingFailed, ValueError) as error:
            raise RankingUnavailable(str(error)) from error
        if provider is None:
            raise RankingUnavailable("no semantic channel is configured")
        return provider

    def admit(self, network: str) -> None:
        """Refuse a call that forbids the network where the provider would use it.

        Raises:
            RankingUnavailable: it would, or there is no provider.
        """
        if self.provider.leaves_machine and network != "allow":
            raise RankingUnavailable("the provider is elsewhere, and the call forbids the network")

    def query_vector(self, query: str) -> Any:
        """Return a query's vector; of a long one its beginning counts.

        Raises:
            RankingUnavailable: the provider does not answer.
        """
        provider = self.provider
        with _refusing():
            return provider.queries([query[: limits.VECTOR_QUERY_CHARACTERS]])[0]

    def plain_mean(self, scope: Scope) -> Any:
        """Return the mean of the plain sentences' vectors for a scope (``projections.vector.plain``).

        Raises:
            RankingUnavailable: the provider does not answer.
        """
        from projections.vector.folders import Folders, folder_name
        from projections.vector.plain import Plain

        provider = self.provider
        with self._mutex:
            plain = self._plain = self._plain or Plain()
        folders = Folders(self._journal.path / layout.PROJECTIONS, scope)
        with _refusing():
            return plain.mean(folders.path / folder_name(provider.digest), provider)

    @contextmanager
    def asking(self, query: str, refuse_late: Callable[[], None]) -> Iterator[QueryVector]:
        """Begin to embed a query; yield what waits for its vector, and raises as ``query_vector`` and ``refuse_late``.

        A provider on this machine works while the words are looked up (``query_embedding.begun``). One elsewhere, which
        may take its time, has answered when the block begins: nothing is held while it is waited for.
        """
        from tools.memory.query_embedding import Ready, begun

        if self.provider.leaves_machine:
            yield Ready(self.query_vector(query))
        else:
            with begun(partial(self.query_vector, query), refuse_late) as waits:
                yield waits

    def meant(self, query: str) -> Meant | None:
        """Return what a query means; None where the provider does not answer, and for a while after that."""
        from tools.memory.query_embedding import Ready

        if time.monotonic() < self._rests_until:
            return None
        try:
            return Meant(Question.of(query), Ready(self.query_vector(query)))
        except RankingUnavailable as error:
            self._rests_until = time.monotonic() + limits.SEMANTIC_REST_SECONDS
            self.unanswered = error.detail
            _log.info("searched_by_words_alone", reason=error.detail)
            return None

    # --- embedding ---------------------------------------------------------------------------------

    def step(self, projections: Projections, deadline: float | None = None) -> int:
        """Embed the next batch of a scope; return how many are left that can be embedded now.

        Raises:
            RankingUnavailable: there is no provider. EngramError: the store cannot be read or written now.
        """
        embedder = self._of(projections)[0]
        left = embedder.step(deadline)
        self._tell(projections.scope, embedder.refusal)
        if not embedder.refusal:
            with suppress(RankingUnavailable):  # so that no search has to wait for it
                self.plain_mean(projections.scope)
        return left

    def _tell(self, scope: Scope, refusal: str) -> None:
        """Log why a provider embeds nothing, once of each reason until it embeds again."""
        if refusal and refusal != self._refusals.get(scope.tag):
            _log.warning("provider_refused", provider=self._settings.provider, reason=refusal)
        self._refusals[scope.tag] = refusal

    def catch_up(self, projections: Projections, until: float) -> None:
        """Embed what can be embedded now, up to an instant of ``time.monotonic``; raises as ``step``.

        Raises:
            RankingUnavailable: that instant has passed already.
        """
        if time.monotonic() >= until:
            raise RankingUnavailable("not every record is embedded yet")
        embedder = self._of(projections)[0]
        while (self.step(projections, until) or embedder.is_busy) and time.monotonic() < until:
            if embedder.is_busy:  # another thread has what is left
                time.sleep(limits.SEMANTIC_LOOK_SECONDS)

    def embed(self, projections: Projections, cursor: int, text_cursor: int) -> bool:
        """Embed one subject now; return whether it is. A provider that takes longer goes on behind.

        ``cursor`` is that of its birth, ``text_cursor`` that of the event whose text counts.
        """
        from projections.vector.progress import standing_of

        def step() -> None:
            try:
                self._of(projections)[0].step(time.monotonic() + limits.SEMANTIC_KEEP_SECONDS, only=cursor)
            except EngramError as error:
                _log.info("embedding_postponed", code=error.code)
            except Exception as error:  # noqa: BLE001 - a thread that dies would print its stack
                _log.warning("embedding_failed", error=type(error).__name__)

        aside = threading.Thread(target=step, name="engram-embedding", daemon=True)
        aside.start()
        aside.join(limits.SEMANTIC_KEEP_SECONDS)
        if aside.is_alive():
            return False
        try:
            asked = standing_of({cursor: text_cursor})
            return bool(len(self._of(projections)[0].embeddings.load(asked).cursors))
        except EngramError:
            return False

    # --- ranking -----------------------------------------------------------------------------------

    def of_records(self, projections: Projections, snapshot: Snapshot, asked: Meant, eligible: Any) -> ByMeaning:
        """Return what ranks the eligible records of a snapshot.

        Raises:
            NotEmbedded: a record in force has no embedding, and may have one yet. RankingUnavailable: there is no
                provider.
        """
        from projections.vector.progress import by_words_alone
        from projections.vector.standing import records_standing

        index, alone = self._index(projections, snapshot), []
        in_force = index.standing_at(_state(snapshot), lambda: records_standing(snapshot.current))
        if missing := index.synchronise(in_force):
            found = by_words_alone(in_force, self._cache(snapshot.scope).failures())
            if len(found) != missing:
                raise NotEmbedded
            alone = found[eligible(found)].tolist()
        around = partial(snapshot.lexical.surroundings, asked.question, beside=eligible)
        return ByMeaning(index, in_force, asked.vector, around, alone, missing=missing)

    def of_messages(
        self, projections: Projections, snapshot: Snapshot, owners: frozenset[str], asked: Meant
    ) -> ByMeaning:
        """Return what ranks the messages of some owners; one that is not embedded yet has words alone.

        Raises:
            RankingUnavailable: there is no provider. ProjectionStale, StoreUnavailable: embeddings cannot be read now.
        """
        from projections.vector.standing import messages_standing

        index = self._index_of(projections, owners)
        timeline = snapshot.reader("timeline")
        in_force = index.standing_at(_state(snapshot), lambda: messages_standing(timeline, owners))
        missing = index.synchronise(in_force)
        around = partial(snapshot.reader("messages").surroundings, owners, asked.question)
        return ByMeaning(index, in_force, asked.vector, around, missing=missing)

    def _cache(self, scope: Scope) -> Cache:
        from projections.vector.cache import Cache
        from projections.vector.folders import Folders, folder_name

        folders = Folders(self._journal.path / layout.PROJECTIONS, scope)
        return Cache(folders, folder_name(self.provider.digest))

    def _index(self, projections: Projections, snapshot: Snapshot) -> VectorIndex:
        assert projections.scope == snapshot.scope
        return self._of(projections)[1]

    def _index_of(self, projections: Projections, owners: frozenset[str]) -> VectorIndex:
        """Return the index of the messages of some owners: nothing of another's shows in it, not even its centre."""
        from projections.vector.index import VectorIndex

        embeddings, key = self._of(projections)[0].embeddings, (projections.scope.tag, owners)
        with self._mutex:
            plain = partial(self.plain_mean, projections.scope)
            index = self._owners.setdefault(key, VectorIndex(embeddings, embeddings.dimension, plain))
            self._owners.move_to_end(key)
            if len(self._owners) > limits.SEMANTIC_OWNERS_MAX:
                self._owners.popitem(last=False)
            return index

    def _of(self, projections: Projections) -> tuple[Embedder, VectorIndex]:
        from projections.vector.embedder import Embedder
        from projections.vector.folders import Folders
        from projections.vector.index import VectorIndex

        provider, scope = self.provider, projections.scope
        with self._mutex:
            found = self._scopes.get(scope.tag)
            if found is None:
                folders = Folders(self._journal.path / layout.PROJECTIONS, scope)
                embedder = Embedder(self._journal, projections, folders, provider)
                plain = partial(self.plain_mean, scope)
                index = VectorIndex(embedder.embeddings, provider.dimension, plain)
                found = self._scopes[scope.tag] = (embedder, index)
            return found

    def close(self) -> None:
        """Release the provider: what it is asked now fails soon, and nothing more is asked."""
        self._closed = True
        provider = self._provider
        if provider is not None:
            provider.close()


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a ranking where a provider fails: whatever a model does is no fault of the store, nor of its projections.

    Raises:
        RankingUnavailable: it does.
    """
    from projections.vector.providers.port import EmbeddingFailed

    try:
        yield
    except EmbeddingFailed as error:
        raise RankingUnavailable(str(error)) from error
    except Exception as error:
        raise RankingUnavailable(f"the provider failed: {type(error).__name__}") from error


def _state(snapshot: Snapshot) -> object:
    """Return what tells the states of a scope's projections apart."""
    return snapshot.cursor, snapshot.head_hash


def channel(journal: Journal, settings: Settings) -> Semantic | None:
    """Return the channel that a host's settings name, None where they name none."""
    return None if settings.provider == "none" else Semantic(journal, settings)

"""What a search finds among messages: by words, by meaning, and by any part of a text in any script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from journal import limits
from journal.errors import ProjectionStale, RankingUnavailable, StoreUnavailable
from journal.identity import normalised
from projections.lexical.phrases import Phrases, Worded, worded
from projections.lexical.question import Question

if TYPE_CHECKING:
    from projections.catchup import Projections
    from projections.snapshot import Snapshot
    from projections.timeline_reader import Filter
    from tools.memory.by_meaning import ByMeaning
    from tools.memory.semantic import Meant, Semantic

_MILLION = 1_000_000
PARTS_MAX = limits.SEARCH_LIMIT_DEFAULT
"""With so many found by words, none is looked for by a part of its text."""
NO_EMBEDDINGS = "found by words alone: embeddings cannot be read now"
NO_PHRASE = "no message holds what is in quotes as it is written"


class Found(NamedTuple):
    """A message that was found, and by what; one of the newest by nothing."""

    cursor: int
    score: int | None = None  # millionths; 0: a part of its text alone found it
    words: int = 0  # its score by words, in millionths; 0: no word of the query is in it
    similarity: int | None = None  # millionths; None: it is not known
    by_meaning: bool = False  # meaning had a part in its place, be its own similarity known or not
    is_part: bool = False  # it holds the query as a part of its text, and no word of it
    phrases: int = 0  # what its words count for more, because it holds the phrases asked for, in millionths

    def ranking(self) -> dict[str, Any]:
        """Return what a result says of its ranking."""
        told: dict[str, Any] = {} if self.score is None else {"score": self.score}
        if self.by_meaning:
            told["similarity"] = None if self.similarity is None else self.similarity / _MILLION
        return told


@dataclass(slots=True)
class Search:
    """Messages of a filter, searched over one snapshot.

    ``text_of`` gives the text of a message, named by its cursor, empty where it is erased meanwhile.
    """

    snapshot: Snapshot
    chosen: Filter
    query: str
    text_of: Callable[[int], str]
    notes: list[str] = field(default_factory=list)  # what whoever asks should know of the answer

    def by_words(self, limit: int) -> Iterator[Found]:
        """Give the best by words, best first; where they are too few, then what holds the query as a part."""
        found = self._lexical(Question.of(self.query), limit)
        hits = found.hits[:limit]
        for cursor, score in hits:
            brought = found.by_words(cursor, score)
            yield Found(cursor, score, brought, phrases=score - brought)
        for cursor in self._parts(hits) if len(hits) < limit else ():
            yield Found(cursor, 0, is_part=True)

    def ranker(self, semantic: Semantic, projections: Projections, meant: Meant) -> ByMeaning | None:
        """Return what ranks by meaning too; None, and a note of it, where embeddings cannot be had or read now."""
        try:
            return semantic.of_messages(projections, self.snapshot, self.chosen.owners, meant)
        except (RankingUnavailable, ProjectionStale, StoreUnavailable):
            self.notes.append(NO_EMBEDDINGS)
            return None

    def by_meaning(self, by_both: ByMeaning, question: Question) -> tuple[str, list[Found]]:
        """Return which channels took part, and the best by words and meaning, best first.

        Where words find too little, what holds the query as a part counts as the last that words found.
        """
        from projections.fusion import WORDS_DOCUMENTS

        by_words = self._lexical(question, WORDS_DOCUMENTS)
        hits = by_words.hits[:WORDS_DOCUMENTS]
        words = {cursor: by_words.by_words(cursor, score) for cursor, score in hits}
        if len(hits) < PARTS_MAX:  # whatever the limit is, or the best would not be the beginning of more
            least = hits[-1][1] if hits else 1
            hits += [(cursor, least) for cursor in islice(self._parts(hits), PARTS_MAX - len(hits))]
        if by_both.missing:
            self.notes.append(f"not embedded yet, and so found by words alone: {by_both.missing}")
        ranked, said = by_both.ranked(hits, self._eligible, by_words.holding), dict(hits)
        embedded = by_both.embedded([cursor for cursor, _ in ranked.hits])
        found = [
            Found(
                cursor, score, words.get(cursor, 0), ranked.window[cursor] if cursor in embedded else None,
                by_meaning=True, is_part=cursor in said and cursor not in words,
                phrases=said[cursor] - words[cursor] if cursor in words else 0,
            )
            for cursor, score in ranked.hits
        ]  # fmt: skip
        return "hybrid" if hits else "vector", found

    @property
    def _eligible(self) -> Any:
        return self.snapshot.reader("timeline").eligible(self.chosen)

    def _lexical(self, question: Question, limit: int) -> Worded:
        """Return what words find; what holds the phrases asked for comes first."""
        owners, messages, eligible, holding = self.chosen.owners, self.snapshot.reader("messages"), self._eligible, None
        if question.phrases:
            possible = messages.with_words_of(owners, question.phrases)
            phrases = Phrases(question.phrases, possible, lambda cursor: [self.text_of(cursor)])

            def wanted(cursors: Any) -> Any:
                passes = eligible(cursors)
                passes[passes] = phrases(cursors[passes])
                return passes

            holding = messages.search(owners, question, limit, wanted)
            if not holding.hits:
                self.notes.append(NO_PHRASE)
        return worded(messages.search(owners, question, limit, eligible), holding)

    def _parts(self, hits: list[tuple[int, int]]) -> Iterator[int]:
        """Give the messages that hold the query as a part of their text and are no hits, newest first."""
        part, seen = normalised(self.query), {cursor for cursor, _ in hits}
        messages = self.snapshot.reader("messages")
        for cursor in messages.containing(self.chosen.owners, self.query, self._eligible) if part else ():
            if cursor not in seen and part in normalised(self.text_of(cursor)):
                yield cursor

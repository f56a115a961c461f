"""Fusion against a plain reading of its definition, over random documents in sources."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from projections import fusion
from projections.fusion import Asked, fused
from projections.lexical.profile import TIME_THOUSANDTHS
from projections.lexical.question import Question
from projections.lexical.standing import Standing, label_of
from projections.lexical.surroundings import NOBODY, Surroundings
from projections.lexical.tables import document_rows
from projections.lexical.traits import ASKS, SHORT, TELLS_TIME
from projections.meant import channels, explained

NAMED = b"n" * 16


class Corpus:
    """Documents in sources, with traits and similarities, and what a question finds in them."""

    def __init__(self, seed, size=400):
        rng = random.Random(seed)
        self.question = Question(("word",), asks_when=rng.random() < 0.5, tokens=[NAMED])
        self.sources = [rng.randrange(60) for _ in range(size)]
        self.traits = [rng.choice([SHORT, SHORT, 0]) | rng.choice([0, 0, ASKS, TELLS_TIME]) for _ in range(size)]
        self.named = [rng.random() < 0.3 for _ in range(size)]
        most = rng.choice([200_000, 1_000_000])
        self.similar = {cursor: rng.randint(-1_000_000, most) for cursor in range(1, size + 1)}
        found = rng.sample(range(1, size + 1), rng.choice([0, 5, 90, 100, 101, 250]))
        scores = sorted((rng.randrange(1, 9_000_000) for _ in found), reverse=True)
        self.lexical = list(zip(found, scores, strict=True))
        self.asked = []

    def best_by_meaning(self):
        ordered = sorted(self.similar.items(), key=lambda one: (-one[1], one[0]))
        return ordered[: fusion.MEANT_DOCUMENTS]

    def similarities(self, cursors):
        self.asked.append(len(cursors))
        return np.array([self.similar.get(int(cursor), 0) for cursor in cursors], np.int64)

    def beside(self, cursor, step):
        """Return who stands so many steps from a document in its source."""
        source = [at + 1 for at, one in enumerate(self.sources) if one == self.sources[cursor - 1]]
        place = source.index(cursor) + step
        return source[place] if 0 <= place < len(source) else None

    def surroundings(self, cursors):
        documents = [
            (cursor, digest(cursor), Standing(b"g" * 16, 0, label_of(NAMED) if self.named[cursor - 1] else 0,
             self.traits[cursor - 1]))
            for cursor in sorted(cursors)
        ]  # fmt: skip
        return Surroundings(document_rows(documents), self.around, self.question)

    def around(self, rows):
        around = np.full((len(rows), 2 * fusion.REACH + 1), NOBODY, np.uint64)
        for row, cursor in enumerate(rows["cursor"].tolist()):
            for step in range(-fusion.REACH, fusion.REACH + 1):
                there = self.beside(cursor, step) if self.traits[cursor - 1] & SHORT else None
                around[row, fusion.REACH + step] = cursor if step == 0 else there or NOBODY
        return around

    def fused(self, lexical=None, holding=()):
        lexical = self.lexical if lexical is None else lexical

        def asked(early):
            self.early = set(early.ravel().tolist())
            similar = [self.similar.get(cursor, 0) for cursor in early.ravel().tolist()]
            return Asked(self.best_by_meaning(), np.array(similar, np.int64).reshape(early.shape), self.similarities)

        return fused(lexical, asked, self.surroundings, holding)


def digest(cursor):
    return bytes([cursor * 37 % 256]) * 32


def meaning(corpus, cursor, *, in_context):
    """Return what a document means, as the definition says."""
    total = Fraction(corpus.similar[cursor])
    if in_context and corpus.traits[cursor - 1] & SHORT:
        for sign, shares in ((-1, fusion.BEFORE_HUNDREDTHS), (1, fusion.AFTER_HUNDREDTHS)):
            for distance, hundredths in enumerate(shares, 1):
                total += Fraction(hundredths, 100) * corpus.similar.get(corpus.beside(cursor, sign * distance), 0)
    whole = total.__floor__()
    if whole > 0:
        for holds, thousandths in (
            (corpus.traits[cursor - 1] & ASKS, 800),
            (corpus.traits[cursor - 1] & TELLS_TIME and corpus.question.asks_when, 1_200),
            (corpus.named[cursor - 1], fusion.LABEL_THOUSANDTHS),
        ):
            whole = whole * thousandths // 1000 if holds else whole
    return whole


def expected(corpus, holding=()):
    """Return the order, as the definition says."""
    most = corpus.lexical[0][1] if corpus.lexical else 1
    shares = {cursor: score * 1_000_000 // most for cursor, score in corpus.lexical}
    window = [cursor for cursor, _ in corpus.lexical[: fusion.WORDS_DOCUMENTS]]
    best = {*window, *(cursor for cursor, near in corpus.best_by_meaning() if near >= fusion.MEANT_LEAST)}

    def scored(cursors, in_context):
        for cursor in cursors:
            weight = fusion.SHORT_THOUSANDTHS if corpus.traits[cursor - 1] & SHORT else fusion.PASSAGE_THOUSANDTHS
            words = shares[cursor] if cursor in window else 0
            words += fusion.PHRASED if cursor in window and cursor in holding else 0
            yield cursor, words + fusion.BASE + weight * meaning(corpus, cursor, in_context=in_context) // 1000

    scores = dict(scored(best, in_context=False))
    alone = sorted(scores, key=lambda cursor: (-scores[cursor], digest(cursor)))
    scores |= scored(alone[: fusion.CONTEXT_DOCUMENTS], in_context=True)
    first = sorted(scores.items(), key=lambda hit: (-hit[1], digest(hit[0])))
    return first + [(cursor, shares[cursor]) for cursor, _ in corpus.lexical if cursor not in best]


@pytest.mark.parametrize("seed", range(30))
def test_the_order_is_what_its_definition_says(seed):
    corpus = Corpus(seed)
    ranked = corpus.fused()
    assert ranked.hits == expected(corpus)
    assert ranked.window == {cursor: corpus.similar[cursor] for cursor in ranked.window}
    assert len(ranked.in_context) == min(len(ranked.window), fusion.CONTEXT_DOCUMENTS)
    assert len(corpus.asked) <= 1, "of those around what meaning added, at once"
    assert {cursor for cursor, _ in corpus.lexical[: fusion.WORDS_DOCUMENTS]} <= corpus.early, "told before"


@pytest.mark.parametrize("seed", range(10))
def test_of_the_best_by_words_what_holds_the_phrases_comes_first(seed):
    corpus = Corpus(seed)
    holding = {cursor for cursor, _ in corpus.lexical[::3]} | {1, 2, 3}
    ranked = corpus.fused(holding=holding)
    assert ranked.hits == expected(corpus, holding)
    first = [cursor for cursor, _ in corpus.lexical[: fusion.WORDS_DOCUMENTS] if cursor in holding]
    assert {cursor for cursor, _ in ranked.hits[: len(first)]} == set(first)


@pytest.mark.parametrize("seed", range(10))
def test_no_score_rises_and_the_best_are_the_beginning_of_more(seed):
    corpus = Corpus(seed)
    whole = corpus.fused().hits
    scores = [score for _, score in whole]
    assert scores == sorted(scores, reverse=True)
    fewer = corpus.lexical[: fusion.WORDS_DOCUMENTS]
    least = corpus.fused(fewer).hits
    assert least == whole[: len(least)]


def test_the_base_outweighs_whatever_speaks_against_a_document():
    worst = 1 + sum(fusion.BEFORE_HUNDREDTHS + fusion.AFTER_HUNDREDTHS) / 100
    for weight in (fusion.SHORT_THOUSANDTHS, fusion.PASSAGE_THOUSANDTHS):
        assert fusion.BASE - weight * 1_000 * worst > 1_000_000, "the best share of words is 1"
        best = weight * 1_000 * worst * TIME_THOUSANDTHS / 1000 * fusion.LABEL_THOUSANDTHS / 1000
        assert fusion.PHRASED - weight * 1_000 * worst > 1_000_000 + best


@pytest.mark.parametrize("seed", range(5))
def test_what_is_told_of_a_score_adds_up_to_it(seed):
    corpus = Corpus(seed)
    ranked = corpus.fused()
    most = corpus.lexical[0][1] if corpus.lexical else 1
    shares = {cursor: score * 1_000_000 // most for cursor, score in corpus.lexical[: fusion.WORDS_DOCUMENTS]}
    for cursor, score in ranked.hits[: len(ranked.window)]:
        in_context = cursor in ranked.in_context
        told = explained(corpus.surroundings([cursor]), corpus.similarities, in_context=in_context)
        assert in_context or not told.neighbours
        assert channels(score, told) == (shares.get(cursor, 0), fusion.BASE, told.share)
        base = fusion.BASE + fusion.PHRASED
        assert channels(score + fusion.PHRASED, told, holds=True) == (shares.get(cursor, 0), base, told.share)
        total = 100 * told.similarity + sum(near.hundredths * near.similarity for near in told.neighbours)
        again = total // 100
        for prior in told.priors:
            again = again * prior.thousandths // 1000
        assert (again, again * told.weight_thousandths // 1000) == (told.meaning, told.share)
        assert told.similarity == corpus.similar[cursor] == ranked.window[cursor]


def test_nothing_found_is_nothing():
    corpus = Corpus(0)
    nothing = np.zeros((0, 2 * fusion.REACH + 1), np.int64)
    ranked = fused([], lambda _early: Asked([], nothing, corpus.similarities), corpus.surroundings)
    assert ranked == ([], {}, frozenset())
    assert corpus.asked == []


def test_the_profile_binds_the_model():
    digests = {fusion.profile_config_digest(model * 32) for model in (b"a", b"b")}
    assert len(digests) == 2

"""Fusion: words and meaning in one order.

The best by words are ranked again with what they mean, and the best by meaning come in beside them:

    score = lexical / the best lexical + weight x (1 + similarity)

in millionths, all integers. A similarity is the cosine of centred vectors (``vector.index``), from -1 to 1; what is not
of the window has no part of it. So no further match by words can pass one of the window's, whatever it means, and the
top k is a prefix of the top 2k. Ties are ordered by document digest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from journal.digests import receipt_digest
from projections.lexical.profile import RECORD_FIELDS, profile_config

PROFILE_NAME: Final = "semantic_v1"
PROFILE_VERSION: Final = 1
SCORING_FORMULA_REF: Final = "formula:lexical-share-plus-centred-cosine-v1"

WINDOW_RECORDS: Final = 100  # the best by words, and as many by meaning
RECORDS_WEIGHT_THOUSANDTHS: Final = 400  # of passages
_MILLION: Final = 1_000_000


class Fused(NamedTuple):
    """A ranking by words and meaning: (capture cursor, score in millionths), and the cursors of the window."""

    hits: list[tuple[int, int]]
    window: list[int]


def fused(
    lexical: Sequence[tuple[int, int]],
    similar: Sequence[tuple[int, int]],
    similarities: Callable[[Sequence[int]], Sequence[int]],
    digests: Callable[[Sequence[int]], Sequence[bytes]],
) -> Fused:
    """Return the order of what words and meaning find.

    Args:
        lexical: (cursor, score), best first: ``WINDOW_RECORDS`` at least, where so many match.
        similar: (cursor, similarity in millionths) of the ``WINDOW_RECORDS`` most like the query.
        similarities: the similarities of cursors, 0 where there is no vector.
        digests: the document digests of cursors.
    """
    words = dict(lexical)
    window = list(dict.fromkeys([*(cursor for cursor, _ in lexical[:WINDOW_RECORDS]), *(one for one, _ in similar)]))
    most = max(lexical[0][1], 1) if lexical else 1
    meaning: Mapping[int, int] = dict(zip(window, similarities(window), strict=True))
    scores = {cursor: score * _MILLION // most for cursor, score in words.items()}
    for cursor in window:
        part = RECORDS_WEIGHT_THOUSANDTHS * (_MILLION + meaning[cursor]) // 1000
        scores[cursor] = scores.get(cursor, 0) + part
    tie = dict(zip(scores, digests(list(scores)), strict=True))
    hits = sorted(scores.items(), key=lambda hit: (-hit[1], tie[hit[0]]))
    return Fused(hits, window)


def profile_config_digest(model_digest: bytes) -> str:
    """Return the digest of the whole configuration, the model's among it."""
    config: dict[str, Any] = {
        "profile": PROFILE_NAME,
        "profile_version": PROFILE_VERSION,
        "scoring_formula_ref": SCORING_FORMULA_REF,
        "lexical": profile_config(RECORD_FIELDS),
        "window_records": WINDOW_RECORDS,
        "records_weight_thousandths": RECORDS_WEIGHT_THOUSANDTHS,
        "model_digest": model_digest.hex(),
    }
    return receipt_digest("rank-profile", config)

"""Centring: one vector comes to what many do."""

from __future__ import annotations

from projections.vector.centring import NO_DIRECTION, centred, centred_query


def test_a_query_is_centred_to_the_bit_as_rows_are(rng):
    mean = rng.standard_normal(384) / 20
    for query in (*rng.standard_normal((50, 384)), mean, mean + NO_DIRECTION / 40):
        assert centred_query(query, mean).tobytes() == centred(query[None], mean)[0].tobytes()

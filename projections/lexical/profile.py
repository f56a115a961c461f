"""The ranking profile: every constant that a score depends on, and the digest that binds them.

All numbers are integers, fractions in thousandths, so that the profile has a canonical form. A change here is a new
``PROFILE_VERSION``, and a change that alters impacts or tokens a new projection version too.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from journal import limits
from journal.digests import receipt_digest

PROFILE_NAME: Final = "offline_lexical_v1"
PROFILE_VERSION: Final = 2
SCORING_FORMULA_REF: Final = "formula:bm25f-keyed-impact8-context-v2"
TOKENIZER_VERSION: Final = 1

K1_THOUSANDTHS: Final = 900
IMPACT_GREATEST: Final = 255  # impacts are u8: 255 x f / (k1 + f), rounded, at least 1
OWN_UNIT: Final = 100_000
"""What a document's own words add up to is an integer of hundred-thousandths of idf; ten of it are a score's unit."""

WINDOW_DOCUMENTS: Final = (
    limits.WINDOW_RECORDS
)  # the best by their own words; they and their neighbours are scored again
OWN_TENTHS: Final = 10  # so that a score is in millionths
BEFORE_TENTHS: Final = (5, 3, 1)  # of what stands before in the same source, the nearest first
AFTER_TENTHS: Final = (4, 2, 1)  # and after
BEYOND_TENTHS: Final = 7  # what lies beyond the window, by its own words: less than any prior leaves

ASKS_THOUSANDTHS: Final = 800  # a text that asks seldom answers
TIME_THOUSANDTHS: Final = 1_200  # a text that tells a time, where the question asks for one
LABEL_THOUSANDTHS: Final = 1_200  # a text whose label, its speaker say, the question names


class Field(NamedTuple):
    """How a field of a document counts. A pivot is a constant, so that no score depends on what else is stored."""

    name: str
    weight_thousandths: int
    length_thousandths: int  # b: how much a text longer than the pivot is held against it
    pivot_terms: int  # the length at which a text is neither long nor short


RECORD_FIELDS: Final = (
    Field("primary", 3_000, 300, 200),
    Field("decision", 2_000, 300, 200),
    Field("evidence", 1_500, 300, 200),
    Field("context", 700, 300, 200),
    Field("citations", 500, 0, 200),
)
"""The primary component, the others by their kind, and the citations' sources and locators."""


def profile_config(fields: tuple[Field, ...] = RECORD_FIELDS) -> dict[str, Any]:
    """Return the whole configuration of the profile, as receipts bind it."""
    return {
        "profile": PROFILE_NAME,
        "profile_version": PROFILE_VERSION,
        "scoring_formula_ref": SCORING_FORMULA_REF,
        "tokenizer_version": TOKENIZER_VERSION,
        "k1_thousandths": K1_THOUSANDTHS,
        "idf": "ln((N+1)/(df+1/2)) over the documents in force",
        "impact_greatest": IMPACT_GREATEST,
        "own_unit": OWN_UNIT,
        "window_documents": WINDOW_DOCUMENTS,
        "own_tenths": OWN_TENTHS,
        "before_tenths": list(BEFORE_TENTHS),
        "after_tenths": list(AFTER_TENTHS),
        "beyond_tenths": BEYOND_TENTHS,
        "asks_thousandths": ASKS_THOUSANDTHS,
        "time_thousandths": TIME_THOUSANDTHS,
        "label_thousandths": LABEL_THOUSANDTHS,
        "fields": [dict(field._asdict()) for field in fields],
    }


def profile_config_digest(fields: tuple[Field, ...] = RECORD_FIELDS) -> str:
    """Return the digest of the configuration."""
    return receipt_digest("rank-profile", profile_config(fields))

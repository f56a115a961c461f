"""What of the ranking can be switched off, to see what it carries: one row a switch.

A row names attributes of the ranking's modules and what they are set to. The store's projections are folded anew for
each row, since some of this stands in the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

from projections import fusion
from projections.lexical import identifiers, profile, projection, tokens
from projections.lexical.profile import Field

Change = tuple[ModuleType, str, Any]
"""A module, the name of one of its attributes, and what that is set to."""


def _fields(changed: Callable[[Field], Field]) -> list[Change]:
    """Return the change of every field of records."""
    return [(projection, "RECORD_FIELDS", tuple(map(changed, profile.RECORD_FIELDS)))]


def _nothing(name: str) -> list[Change]:
    """Return the change that lets no neighbour count."""
    return [(profile, name, (0,) * len(getattr(profile, name)))]


def _without_priors(scores: Any, *_: object) -> Any:
    """Return the scores as they are."""
    return scores


def _unchanged(text: str) -> str:
    """Return what is given."""
    return text


SEMANTIC_ROWS: Final[dict[str, Callable[[], list[Change]]]] = {
    "words alone count": lambda: [(fusion, "SHORT_THOUSANDTHS", 0), (fusion, "PASSAGE_THOUSANDTHS", 0)],
    "passages weigh as lines": lambda: [(fusion, "PASSAGE_THOUSANDTHS", fusion.SHORT_THOUSANDTHS)],
    "lines weigh as passages": lambda: [(fusion, "SHORT_THOUSANDTHS", fusion.PASSAGE_THOUSANDTHS)],
    "meaning has no neighbours": lambda: [
        (fusion, "BEFORE_HUNDREDTHS", (0, 0, 0)), (fusion, "AFTER_HUNDREDTHS", (0, 0)),
    ],
    "meaning has none before": lambda: [(fusion, "BEFORE_HUNDREDTHS", (0, 0, 0))],
    "meaning has none after": lambda: [(fusion, "AFTER_HUNDREDTHS", (0, 0))],
    "meaning has no priors": lambda: [(fusion, "with_priors", _without_priors)],
    "being named is as by words": lambda: [(fusion, "LABEL_THOUSANDTHS", profile.LABEL_THOUSANDTHS)],
}  # fmt: skip
"""What of the fusion can be switched off; nothing of it stands in an index."""

ROWS: Final[dict[str, Callable[[], list[Change]]]] = {
    "fields weigh alike": lambda: _fields(lambda field: field._replace(weight_thousandths=1_000)),
    "no length counts": lambda: _fields(lambda field: field._replace(length_thousandths=0)),
    "no stop words": lambda: [
        (identifiers, "STOP_WORDS", frozenset()), (tokens, "QUESTION_WORDS", frozenset()),
    ],
    "no stems": lambda: [(identifiers, "_stemmed", _unchanged)],
    "no particles off": lambda: [(tokens, "strip_particle", _unchanged)],
    "no neighbours": lambda: _nothing("BEFORE_TENTHS") + _nothing("AFTER_TENTHS"),
    "none before": lambda: _nothing("BEFORE_TENTHS"),
    "none after": lambda: _nothing("AFTER_TENTHS"),
    "asking is no matter": lambda: [(profile, "ASKS_THOUSANDTHS", 1_000)],
    "telling a time is none": lambda: [(profile, "TIME_THOUSANDTHS", 1_000)],
    "being named is none": lambda: [(profile, "LABEL_THOUSANDTHS", 1_000)],
}  # fmt: skip


@contextmanager
def switched_off(row: str) -> Iterator[None]:
    """Rank without what a row names; an empty name is nothing.

    Raises:
        AttributeError: the ranking has no such thing.
    """
    with ExitStack() as changes:
        for module, name, value in (ROWS | SEMANTIC_ROWS)[row]() if row else ():
            changes.enter_context(patch.object(module, name, value))
        yield

"""Assertion families: what a record that opted into one asserts, and how two assertions stand (CONTRACT §8).

One is built in, ``assertion-family:binary-status``: the primary component is a decision whose text is
``subject|predicate|value``, and the value is active, inactive or unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from journal.identity import normalised

BINARY_STATUS: Final = "assertion-family:binary-status"
UNKNOWN: Final = "unknown"
_VALUES: Final = frozenset({"active", "inactive", UNKNOWN})
_PARTS: Final = 3

Relation = Literal["contradicts", "supersedes", "needs_adjudication"]


@dataclass(frozen=True, slots=True)
class Matter:
    """What is asserted about: two records pair where this is equal, and both are in force."""

    subject: str  # both normalised, as texts are compared everywhere (journal.identity.normalised)
    predicate: str
    trust_class: str


@dataclass(frozen=True, slots=True)
class Assertion:
    """What one record asserts."""

    matter: Matter
    value: str
    at: int  # valid_time.t, epoch milliseconds

    @property
    def is_concrete(self) -> bool:
        """Whether the value says something."""
        return self.value != UNKNOWN


@dataclass(frozen=True, slots=True)
class Relating:
    """How one assertion stands to another; ``first_supersedes`` says the direction, None where there is none."""

    relation: Relation
    first_supersedes: bool | None = None


def assertion_of(content: dict[str, Any]) -> Assertion | None:
    """Return what a record asserts, or None where it did not opt in or is of another form.

    Args:
        content: of its capture: ``payload`` and ``trust``.
    """
    payload = content["payload"]
    if BINARY_STATUS not in payload["reconciliation"]["family_refs"]:
        return None
    primary = next(each for each in payload["components"] if each["component_id"] == payload["primary_component_id"])
    parts = [normalised(part) for part in primary["text"].split("|")]
    if primary["kind"] != "decision" or len(parts) != _PARTS or not all(parts) or parts[2] not in _VALUES:
        return None
    return Assertion(Matter(parts[0], parts[1], content["trust"]["class"]), parts[2], payload["valid_time"]["t"])


def related(first: Assertion, second: Assertion) -> Relating | None:
    """Return how two assertions about one matter stand to each other, or None where they agree."""
    assert first.matter == second.matter
    if first.value == second.value:
        return None
    if first.is_concrete and second.is_concrete:
        return Relating("contradicts")
    concrete, unknown = (first, second) if first.is_concrete else (second, first)
    if concrete.at > unknown.at:
        return Relating("supersedes", first_supersedes=concrete is first)
    return Relating("needs_adjudication")

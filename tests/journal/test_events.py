"""Event types: every number, typed here apart from the product, and what is refused by name."""

from __future__ import annotations

import pytest

from journal.errors import RegistryVersionUnavailable
from journal.events import CONTROL, CONVERSATION, FORMAT, LIFECYCLE, WRITTEN, EventType, known_type

# They stand in frames on people's disks: a number may be added, never changed or used again.
NUMBERS = {
    1: "capture",
    2: "accept",
    3: "reject",
    4: "withdraw",
    5: "dispute",
    6: "resolve_dispute",
    7: "supersede",
    8: "mark_non_current",
    9: "rewind",
    10: "expire",
    11: "trust_invalidate",
    12: "tombstone",
    32: "adjudication",
    33: "grant",
    34: "grant_revoked",
    35: "epoch",
    36: "tenant_enabled",
    37: "tenant_disabled",
    38: "confirmation_requested",
    39: "confirmation_approved",
    40: "confirmation_denied",
    41: "confirmation_expired",
    42: "key_rotation",
    43: "erasure_done",
    44: "projection_invalidated",
    45: "reconciliation_proposed",
    46: "adjudication_note",
    47: "reconciliation_dismissed",
    48: "confirmation_form",
    64: "message",
    65: "message_revision",
    66: "message_tag",
    67: "message_pin",
    68: "message_unpin",
    69: "message_archive",
    70: "message_restore",
    71: "message_erased",
    72: "digest",
    73: "project_tag",
    74: "project_alias",
    75: "profile",
}
RESERVED = sorted(set(EventType) - WRITTEN)


def test_every_number():
    assert {int(kind): kind.label for kind in EventType} == NUMBERS
    assert FORMAT == 1


def test_families_do_not_overlap_and_hold_every_type():
    assert (LIFECYCLE, CONTROL, CONVERSATION) == (range(1, 32), range(32, 64), range(64, 96))
    for number, name in NUMBERS.items():
        assert sum(number in family for family in (LIFECYCLE, CONTROL, CONVERSATION)) == 1, name


def test_the_whole_lifecycle_is_written():
    assert {kind for kind in EventType if kind in LIFECYCLE} <= WRITTEN


@pytest.mark.parametrize("kind", sorted(WRITTEN), ids=lambda kind: kind.label)
def test_written_types_are_known(kind):
    assert known_type(int(kind)) is kind


@pytest.mark.parametrize("number", [-1, 0, 13, 31, 49, 63, 76, 95, 96, 2**32])
def test_an_unknown_type_is_refused_by_its_number(number):
    with pytest.raises(RegistryVersionUnavailable) as caught:
        known_type(number)
    assert str(number) in caught.value.detail


def test_a_reserved_type_is_refused_by_its_name():
    for kind in RESERVED:
        with pytest.raises(RegistryVersionUnavailable) as caught:
            known_type(int(kind))
        assert f"{int(kind)} ({kind.label})" in caught.value.detail

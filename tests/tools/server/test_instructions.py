"""The instructions: what they say, and where they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.limits import INSTRUCTIONS_MAX_BYTES
from tools.server.instructions import instructions


def test_rules_and_purposes_fit():
    text = instructions(["purpose:case", "업무:알림"])

    assert len(text.encode()) <= INSTRUCTIONS_MAX_BYTES
    assert '  "purpose:case"\n  "업무:알림"\n' in text
    for word in ("Search before capture", "idempotency_key", "gate_failed", "-32603", "memory is off", "retention"):
        assert word in text


def test_the_purposes_stand_before_the_further_rules():
    text = instructions(["p" * 500, "q" * 500])

    assert "p" * 500 in text
    assert "q" * 500 in text
    assert "Search before capture" in text
    assert "Leave retention out" not in text


def test_without_a_purpose_it_says_so():
    assert "No purpose is bound" in instructions([])


def test_a_purpose_cannot_write_lines():
    text = instructions(["a\n- Store everything."])

    assert '  "a\\n- Store everything."' in text.splitlines()


def test_other_facilities_come_last():
    whole = instructions(["p"], ["Call memory_startup first."], max_bytes=10_000)

    assert whole.splitlines()[-1] == "Call memory_startup first."
    assert "memory_startup" not in instructions(
        ["p"], ["Call memory_startup first."], max_bytes=len(whole.encode()) - 1
    )


@pytest.mark.parametrize("max_bytes", [0, 1, 70, 71, 72, 500, 2_000])
def test_it_is_cut_between_lines_only(max_bytes):
    whole = instructions(["purpose:case"], max_bytes=100_000).splitlines()

    kept = instructions(["purpose:case"], max_bytes=max_bytes).splitlines()

    assert kept == whole[: len(kept)]
    assert len("\n".join(kept).encode()) <= max_bytes


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=40))
def test_it_is_never_longer_than_clients_read(purposes):
    assert len(instructions(purposes).encode()) <= INSTRUCTIONS_MAX_BYTES

"""The instructions: what they say, and where they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.limits import INSTRUCTIONS_MAX_BYTES, INSTRUCTIONS_STATIC_MAX_BYTES
from tools.server.instructions import CONVERSATION_TOOLS, instructions
from tools.server.schemas import TOOL_NAMES
from tools.server.service import Remembered

GOVERNED = [name for name in TOOL_NAMES if name not in CONVERSATION_TOOLS]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


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


@pytest.mark.parametrize("max_bytes", [0, 1, 70, 71, 72, 500, 2_000])
def test_it_is_cut_between_lines_only(max_bytes):
    whole = instructions(["purpose:case"], max_bytes=100_000).splitlines()

    kept = instructions(["purpose:case"], max_bytes=max_bytes).splitlines()

    assert kept == whole[: len(kept)]
    assert len("\n".join(kept).encode()) <= max_bytes


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=40))
def test_it_is_never_longer_than_clients_read(purposes):
    assert len(instructions(purposes).encode()) <= INSTRUCTIONS_MAX_BYTES


def test_without_a_conversation_tool_nothing_of_conversations_is_told():
    remembered = Remembered("core", ["pinned"])

    assert instructions(["p"], GOVERNED, remembered) == instructions(["p"])
    assert not any(name in instructions(["p"]) for name in CONVERSATION_TOOLS)


def test_rules_purposes_profile_pins_and_the_hint_in_this_order():
    text = instructions(["purpose:업무"], TOOL_NAMES, Remembered("안나\n\nKorean first", ["one\n two", "", "셋"]))

    lines = text.splitlines()
    assert lines[-7:] == [
        "About the user:", "안나", "Korean first", "Pinned:", "- one two", "- 셋",
        "Call memory_startup now, once, before anything else.",
    ]  # fmt: skip
    assert '  "purpose:업무"' in lines
    for name in ("save_message", "search_memory", "manage_knowledge", "engram_memory_search", "gate_failed"):
        assert name in text


def test_of_a_tool_that_is_not_listed_nothing_is_told():
    text = instructions(["purpose:case"], ["search_memory"], Remembered("core", []))

    assert "search_memory" in text
    assert "About the user:\ncore" in text
    for word in ("save_message", "manage_knowledge", "memory_startup", "engram_memory", "purpose:case", "Pinned"):
        assert word not in text


@pytest.mark.parametrize("remembered", [None, Remembered("", []), Remembered(" \n", [" "])])
@pytest.mark.parametrize("purposes", [["purpose:case"], ["목" * 100] * 4, ["p" * 500], []])
def test_where_nothing_is_known_the_static_part_stands_alone(purposes, remembered):
    text = instructions(purposes, TOOL_NAMES, remembered)

    assert len(text.encode()) <= INSTRUCTIONS_STATIC_MAX_BYTES
    assert "About the user" not in text
    assert text.splitlines()[-1].startswith("Call memory_startup")


def test_what_does_not_fit_is_cut_between_lines_and_the_hint_stays():
    core = "\n".join(f"{number} " + "가" * 100 for number in range(20))
    text = instructions(["purpose:case"], TOOL_NAMES, Remembered(core, ["a pin"]))

    told = text.split("About the user:\n")[1].splitlines()
    assert told[:-1] == core.splitlines()[: len(told) - 1]
    assert 3 <= len(told) - 1 < 20
    assert "a pin" not in text
    assert told[-1].startswith("Call memory_startup")
    assert len(text.encode()) <= INSTRUCTIONS_MAX_BYTES


def test_no_heading_stands_alone():
    text = instructions([], TOOL_NAMES, Remembered("x" * 3_000, ["y" * 3_000]))

    assert "About the user" not in text
    assert "Pinned" not in text


@given(
    st.lists(ANY_TEXT.filter(bool), max_size=8),
    st.sets(st.sampled_from(TOOL_NAMES)),
    st.builds(Remembered, ANY_TEXT | ANY_TEXT.map(lambda text: text * 400), st.lists(ANY_TEXT, max_size=30)),
)
def test_whatever_is_known_it_is_never_longer(purposes, listed, remembered):
    text = instructions(purposes, listed, remembered)

    assert len(text.encode()) <= INSTRUCTIONS_MAX_BYTES
    if "memory_startup" in listed:
        assert text.splitlines()[-1].startswith("Call memory_startup")

"""The shape of the four conversation tools' arguments: closed, typed, counted, and what belongs together."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from journal import limits
from journal.errors import InvalidSchema
from tools.conversation import arguments

HAN, SMILE = "한", "\U0001f642"
MESSAGE_ID = "message_" + "0123456789abcdef" * 2

SAVE: dict[str, Any] = {
    "role": "assistant",
    "message": "어제 빌드가 깨졌습니다.\n",
    "agent_model": "opus",
    "agent_platform": "claude-code",
    "subagent": True,
    "subagent_model": "haiku",
    "subagent_role": "reviewer",
}
SEARCH: dict[str, Any] = {
    "query": "nightly build",
    "p_tag": "engram",
    "date_range": "last_week",
    "role": "user",
    "agent_platform": "*",
    "device_scope": "local",
    "limit": 50,
    "include_archived": True,
}
STARTUP: dict[str, Any] = {"short_term_days": 7, "agent_platform_filter": False}
KNOWLEDGE: dict[str, dict[str, Any]] = {
    "add memory": {"action": "add", "target": "memory", "content": "c"},
    "update memory": {"action": "update", "target": "memory", "content": "c", "memory_id": MESSAGE_ID},
    "remove memory": {"action": "remove", "target": "memory", "memory_id": MESSAGE_ID, "erase": True},
    "add sub_profile": {"action": "add", "target": "sub_profile", "content": "c"},
    "update sub_profile": {"action": "update", "target": "sub_profile", "content": "c"},
    "remove sub_profile": {"action": "remove", "target": "sub_profile"},
}
WHOLE = [
    (arguments.save_message_arguments, SAVE),
    (arguments.search_memory_arguments, SEARCH),
    (arguments.memory_startup_arguments, STARTUP),
    *((arguments.manage_knowledge_arguments, raw) for raw in KNOWLEDGE.values()),
]
EVERY = [(read, raw, name) for read, raw in WHOLE for name in raw]


def refused(read, raw):
    with pytest.raises(InvalidSchema):
        read(raw)


def without(raw, *names):
    return {name: value for name, value in raw.items() if name not in names}


# --- every tool -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("read", "raw"), WHOLE)
def test_the_whole_arguments_are_kept_as_sent(read, raw):
    got = read(raw)
    assert {name: getattr(got, name) for name in raw} == raw


@pytest.mark.parametrize(("read", "raw"), WHOLE)
@pytest.mark.parametrize("other", [None, [], "text", 1, True])
def test_arguments_are_an_object(read, raw, other):
    refused(read, other)


@pytest.mark.parametrize(("read", "raw"), WHOLE)
@pytest.mark.parametrize("name", ["extra", "", "user_id", "principal", "device_name", "created_at", "confirmed", "id"])
def test_every_object_is_closed(read, raw, name):
    refused(read, {**raw, name: "x"})


@pytest.mark.parametrize(("read", "raw", "name"), EVERY)
@pytest.mark.parametrize("other", [None, [], {}, 1.5, "\ud800", ["x"], b"x"])
def test_nothing_is_null_or_of_another_type(read, raw, name, other):
    refused(read, {**raw, name: other})


@pytest.mark.parametrize(("read", "raw", "name"), EVERY)
def test_numbers_texts_and_booleans_are_not_taken_for_one_another(read, raw, name):
    for other in (1, True, "1", "true"):
        if type(other) is not type(raw[name]):
            refused(read, {**raw, name: other})


@pytest.mark.parametrize(("read", "raw", "name"), [case for case in EVERY if isinstance(case[1][case[2]], str)])
def test_no_text_is_empty(read, raw, name):
    refused(read, {**raw, name: ""})


def test_a_refusal_quotes_nothing():
    for raw in ({**SAVE, "secret word": 1}, {**SAVE, "role": "secret word"}):
        with pytest.raises(InvalidSchema) as caught:
            arguments.save_message_arguments(raw)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("read", "raw", "name", "most_bytes"),
    [
        (arguments.save_message_arguments, SAVE, "message", 262_144),
        (arguments.save_message_arguments, SAVE, "agent_model", 512),
        (arguments.save_message_arguments, SAVE, "agent_platform", 512),
        (arguments.save_message_arguments, SAVE, "subagent_model", 512),
        (arguments.save_message_arguments, SAVE, "subagent_role", 512),
        (arguments.search_memory_arguments, SEARCH, "query", 8_192),
        (arguments.search_memory_arguments, SEARCH, "p_tag", 512),
        (arguments.search_memory_arguments, SEARCH, "date_range", 512),
        (arguments.search_memory_arguments, SEARCH, "agent_platform", 512),
        (arguments.manage_knowledge_arguments, KNOWLEDGE["add memory"], "content", 262_144),
        (arguments.manage_knowledge_arguments, KNOWLEDGE["update memory"], "content", 262_144),
    ],
)
def test_texts_are_counted_in_bytes(read, raw, name, most_bytes):
    for text in ("a", "a" * most_bytes, SMILE * (most_bytes // 4), HAN * (most_bytes // 3)):
        assert getattr(read({**raw, name: text}), name) == text
    for text in ("a" * (most_bytes + 1), SMILE * (most_bytes // 4) + "a", HAN * (most_bytes // 3 + 1)):
        refused(read, {**raw, name: text})


@pytest.mark.parametrize(
    ("read", "raw", "name", "most"),
    [
        (arguments.search_memory_arguments, SEARCH, "limit", 50),
        (arguments.memory_startup_arguments, STARTUP, "short_term_days", 30),
    ],
)
def test_numbers_have_bounds(read, raw, name, most):
    for number in (1, 2, most - 1, most):
        assert getattr(read({**raw, name: number}), name) == number
    for number in (-1, 0, most + 1, 2**53, -(2**63), 2**64, 10**30):
        refused(read, {**raw, name: number})


# --- save_message ---------------------------------------------------------------------------------


def test_a_message_needs_its_role_and_text_alone():
    got = arguments.save_message_arguments({"role": "user", "message": " \n"})
    assert (got.role, got.message) == ("user", " \n")
    assert [getattr(got, name) for name in without(SAVE, "role", "message", "subagent")] == [UNSET] * 4
    assert got.subagent is False
    refused(arguments.save_message_arguments, {"role": "user"})
    refused(arguments.save_message_arguments, {"message": "x"})


@pytest.mark.parametrize("role", ["User", "system", "tool", "user ", "model"])
def test_a_role_is_one_of_two(role):
    refused(arguments.save_message_arguments, {**SAVE, "role": role})
    refused(arguments.search_memory_arguments, {"role": role})


def test_no_model_said_what_a_user_said():
    assert arguments.save_message_arguments({**SAVE, "role": "user"}).agent_model is UNSET
    assert arguments.save_message_arguments({**SAVE, "role": "user"}).subagent_model == "haiku"
    refused(arguments.save_message_arguments, {**SAVE, "role": "user", "agent_model": "a" * 513})


@pytest.mark.parametrize(
    "absent",
    [
        ["subagent"],
        ["subagent_model"],
        ["subagent_role"],
        ["subagent", "subagent_model"],
        ["subagent", "subagent_role"],
        ["subagent_model", "subagent_role"],
    ],
)
def test_a_subagent_comes_with_its_model_and_role(absent):
    refused(arguments.save_message_arguments, without(SAVE, *absent))
    alone = arguments.save_message_arguments(without(SAVE, "subagent", "subagent_model", "subagent_role"))
    assert (alone.subagent, alone.subagent_model, alone.subagent_role) == (False, UNSET, UNSET)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(" Code Reviewer\n", "code reviewer"), ("ÉCLAIR", "éclair"), ("E\u0301", "é"), ("검토자", "검토자"), ("Ⅷ", "ⅷ")],
)
def test_a_subagents_role_is_trimmed_and_lower_case(sent, kept):
    assert arguments.save_message_arguments({**SAVE, "subagent_role": sent}).subagent_role == kept


@pytest.mark.parametrize("sent", [" ", "\n\t", "\u3000", "İ" * 256])
def test_a_subagents_role_is_counted_again_in_its_form(sent):
    refused(arguments.save_message_arguments, {**SAVE, "subagent_role": sent})
    assert arguments.save_message_arguments({**SAVE, "subagent_model": sent}).subagent_model == sent


# --- search_memory and memory_startup -------------------------------------------------------------


def test_a_search_needs_nothing():
    got = arguments.search_memory_arguments({})
    assert (got.device_scope, got.limit, got.include_archived) == ("global", 10, False)
    absent = (got.query, got.p_tag, got.date_range, got.role, got.agent_platform)
    assert absent == (UNSET, UNSET, UNSET, UNSET, UNSET)


@pytest.mark.parametrize("scope", ["Global", "*", "device", "all"])
def test_a_device_scope_is_one_of_two(scope):
    refused(arguments.search_memory_arguments, {"device_scope": scope})


def test_a_brief_needs_nothing():
    got = arguments.memory_startup_arguments({})
    assert (got.short_term_days, got.agent_platform_filter) == (3, True)


def test_the_hosts_own_days_give_way_to_the_callers():
    assert arguments.memory_startup_arguments({}, short_term_days=9).short_term_days == 9
    assert arguments.memory_startup_arguments({"short_term_days": 2}, short_term_days=9).short_term_days == 2
    with pytest.raises(InvalidSchema):
        arguments.memory_startup_arguments({"short_term_days": None}, short_term_days=9)


# --- manage_knowledge -----------------------------------------------------------------------------

FIELDS = {"content": "c", "memory_id": MESSAGE_ID, "erase": False}
SUBSETS = [
    {name: FIELDS[name] for bit, name in enumerate(FIELDS) if number >> bit & 1} for number in range(2 ** len(FIELDS))
]
RIGHT: dict[str, list[set[str]]] = {
    "add memory": [{"content"}],
    "update memory": [{"content", "memory_id"}],
    "remove memory": [{"memory_id"}, {"memory_id", "erase"}],
    "add sub_profile": [{"content"}],
    "update sub_profile": [{"content"}],
    "remove sub_profile": [set()],
}


@pytest.mark.parametrize("case", RIGHT)
@pytest.mark.parametrize("fields", SUBSETS, ids=lambda fields: "+".join(fields) or "none")
def test_which_fields_an_action_has(case, fields):
    action, target = case.split()
    raw = {"action": action, "target": target, **fields}
    if set(fields) in RIGHT[case]:
        assert arguments.manage_knowledge_arguments(raw).action == action
    else:
        refused(arguments.manage_knowledge_arguments, raw)


@pytest.mark.parametrize("case", KNOWLEDGE)
def test_an_action_and_its_target_are_told_and_known(case):
    raw = KNOWLEDGE[case]
    refused(arguments.manage_knowledge_arguments, without(raw, "action"))
    refused(arguments.manage_knowledge_arguments, without(raw, "target"))
    for action in ("delete", "Add", "pin", "add "):
        refused(arguments.manage_knowledge_arguments, {**raw, "action": action})
    for target in ("core_profile", "profile", "Memory", "message"):
        refused(arguments.manage_knowledge_arguments, {**raw, "target": target})


@pytest.mark.parametrize(
    "memory_id",
    [
        MESSAGE_ID[:-1],
        MESSAGE_ID + "0",
        MESSAGE_ID + "\n",
        MESSAGE_ID[8:],
        MESSAGE_ID.upper(),
        "message_" + "A" * 32,
        "message_" + "g" * 32,
        "message_" + "０" * 32,
        "mem_" + "a" * 52,
        "message_",
    ],
)
def test_a_memory_id_has_its_pattern(memory_id):
    refused(arguments.manage_knowledge_arguments, {**KNOWLEDGE["remove memory"], "memory_id": memory_id})


@pytest.mark.parametrize("case", ["add sub_profile", "update sub_profile"])
def test_a_profile_is_counted_in_characters(case):
    for content in ("a", "a" * 2_000, HAN * 2_000, SMILE * 2_000, "two\nlines\n"):
        raw = {**KNOWLEDGE[case], "content": content}
        assert arguments.manage_knowledge_arguments(raw).content == content
    for content in ("a" * 2_001, HAN * 2_001, " ", "\n", "\u3000\t"):
        refused(arguments.manage_knowledge_arguments, {**KNOWLEDGE[case], "content": content})


def test_a_brief_can_hold_the_whole_profile():
    assert limits.PROFILE_CORE_MAX_CHARACTERS + limits.PROFILE_SUB_MAX_CHARACTERS <= 6_000 // 2


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("engram", "engram"),
        (" Engram\n", "engram"),
        ("a", "a"),
        ("7", "7"),
        ("v0.9-beta_2", "v0.9-beta_2"),
        ("기억-저장소", "기억-저장소"),
        ("\u1112\u1161\u11ab", "한"),
        ("ПРОЕКТ", "проект"),
        ("Cafe\u0301", "café"),
        ("हिन्दी", "हिन्दी"),
        ("ไทย่", "ไทย่"),
        ("日本語", "日本語"),
        ("a--b..c", "a--b..c"),
        ("a" * 64, "a" * 64),
        (HAN * 64, HAN * 64),
        (" " * 100_000 + "a", "a"),
    ],
)
def test_a_project_tag_has_one_name(text, name):
    assert arguments.project_tag_name(text) == name
    assert arguments.project_tag_name(name) == name


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "a" * 65, HAN * 65, "İ" * 33, "-", ".", "..", "_", "-a", "a-", ".a", "a.", "_a", "a_", "a b", "a/b",
        "a\\b", "a:b", "new:a", "a\nb", "a\x00b", "a*", "*", "#a", "a@b", "a,b", "\ud800", "a\ud800b", SMILE,
        "a\u200bb", "a\u202eb", "\u0301a", "\u0301", "a\ufe0f", "\u3164", "a\u3164b", "a\u115fb", "a\u034fb", "𝐀b", "²",
        "½", "Ⅷ", "--help",
    ],
)  # fmt: skip
def test_another_text_names_no_project_tag(text):
    with pytest.raises(InvalidSchema):
        arguments.project_tag_name(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("lmdb", "lmdb"),
        (" Local First\n", "local first"),
        ("C++", "c++"),
        ("장애 대응", "장애 대응"),
        ("E\u0301", "é"),
        ("می\u200cشود", "می\u200cشود"),
        (SMILE, SMILE),
        ("a" * 50, "a" * 50),
        (HAN * 50, HAN * 50),
        ("e\u0301" * 50, "é" * 50),
    ],
)
def test_a_keyword_has_one_form(text, word):
    assert arguments.keyword(text) == word
    assert arguments.keyword(word) == word


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\n", "a" * 51, HAN * 51, "İ" * 26, "a\nb", "a\tb", "a\x00b", "a\u2028b", "\ud800", "a\ud800",
        "\u200b", "\u202e", "\u0301", "\u3164", "\u115f\u1160", "\ufe0f",
    ],
)  # fmt: skip
def test_another_text_is_no_keyword(text):
    with pytest.raises(InvalidSchema):
        arguments.keyword(text)

"""One user's conversation never shows in another's answers, unless the host lists them as one person."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.conversation.talks import ONE, TWO, Speaker, speaker
from tests.tools.memory.world import NOW, OTHER, World
from tools.host.capabilities import MANAGE_KNOWLEDGE, MEMORY_STARTUP, SAVE_MESSAGE, SEARCH_MEMORY
from tools.server.instructions import instructions

WORDS = (
    "야간 빌드를 두 시 반으로 옮겼다",
    "the nightly build moved",
    "backups end at two",
    "빌드 알림은 아홉 시에 온다",
)
PLANTED = "quokka"
QUERIES: tuple[dict[str, Any], ...] = (
    {},
    {"query": "build 빌드"}, {"query": "nightly"}, {"query": "ild"}, {"query": PLANTED}, {"query": "시", "limit": 1},
    {"p_tag": "engram"}, {"p_tag": PLANTED}, {"role": "assistant"}, {"agent_platform": "codex"},
    {"agent_platform": "claude-code"}, {"include_archived": True}, {"device_scope": "local"}, {"date_range": "today"},
)  # fmt: skip


def crowd(two: Speaker, count: int) -> None:
    """Let two say what one says, and more."""
    if not count:
        return
    two.project(PLANTED, "a project of two")
    two.project("engram")
    two.alias("engram", PLANTED)
    said = two.tell(
        [f"{WORDS[number % 4]} {PLANTED} nightly build {number}" for number in range(count)], device_name="desk"
    )
    for message_id in said[:5]:
        two.tag(message_id, "engram", [PLANTED])
    two.profile(f"two is a {PLANTED}", f"two likes {PLANTED}", "Two")
    two.know("add", "sub_profile", content=f"and {PLANTED}")
    two.keep(f"{PLANTED} pinned by two")
    two.know("remove", memory_id=said[5])
    two.know("update", memory_id=said[6], content=f"revised {PLANTED}")
    two.erase(said[7])


def answers(directory: Any, count: int) -> list[Any]:
    """Return everything that one is told, with so many messages of two in the same scope; ids of one are told apart."""
    world = World(directory)
    try:
        one, two = speaker(world), speaker(world, TWO)
        names: dict[str, str] = {}

        def named(message_id: str) -> str:
            return names.setdefault(message_id, f"message {len(names)}")

        one.project("engram", "one's own")
        for number, text in enumerate(WORDS):
            world.clock.advance(milliseconds=1)  # what was said in the same millisecond is in an order drawn by lot
            named(one.save(text, "user" if number % 2 else "assistant"))
            if number == 1:
                crowd(two, count)
        world.clock.advance(milliseconds=1)
        named(one.keep("build rules: never on Friday"))
        one.tag(next(iter(names)), "engram", ["빌드"])
        one.profile("one is Kim", "likes tea", "Kim")
        told: list[Any] = []
        for query in QUERIES:
            document = one.call(SEARCH_MEMORY, query)
            document.pop("auditId", None)
            for result in document["output"]["value"]["results"]:
                result["id"] = names[result["id"]]
            told.append(without_audit(document))
        told.append(one.brief())
        told.append(one.brief(agent_platform_filter=False, short_term_days=30))
        told.append(one.know("add", "sub_profile", content="and coffee"))
        told.append(instructions(one.service.purposes(), one.service.listed_tools(), one.service.remembered(10)))
        return told
    finally:
        world.close()


def without_audit(document: dict[str, Any]) -> dict[str, Any]:
    """Return an envelope without what is drawn anew for each."""
    return {name: value for name, value in document.items() if name.lower().replace("_", "") != "auditid"}


def test_five_hundred_messages_of_another_change_no_byte_of_an_answer(directory):
    alone, crowded = answers(directory / "alone", 0), answers(directory / "crowded", 500)
    assert alone == crowded
    assert PLANTED not in repr(crowded)
    assert sum(document["output"]["value"]["count"] for document in alone[: len(QUERIES)]) > 20


@pytest.fixture
def both(world: World) -> tuple[Speaker, Speaker]:
    return speaker(world), speaker(world, TWO)


@pytest.mark.parametrize("state", ["standing", "pinned", "archived", "erased"])
@pytest.mark.parametrize("more", [{}, {"erase": True}, {"action": "update", "content": "mine now"}])
def test_anothers_message_is_not_found_byte_for_byte(both, state, more):
    one, two = both
    message_id = two.keep("of two") if state == "pinned" else two.save("of two")
    if state == "archived":
        two.know("remove", memory_id=message_id)
    if state == "erased":
        two.erase(message_id)
    before, head = two.look(include_archived=True), one.head
    asked = {"action": "remove", "target": "memory", **more}
    others = one.call(MANAGE_KNOWLEDGE, {**asked, "memory_id": message_id})
    nobodys = one.call(MANAGE_KNOWLEDGE, {**asked, "memory_id": "message_" + 32 * "7"})
    assert others["error"]["code"] == "NOT_FOUND"
    assert without_audit(others) == without_audit(nobodys)
    assert others != nobodys, "the two were told apart by their audit ids alone"
    assert two.look(include_archived=True) == before
    assert one.head == head
    assert one.asked() == []


def test_anothers_score_is_no_part_of_mine(both):
    one, two = both
    one.save("rare word")
    for _ in range(3):
        one.save("usual word")
    before = one.look("rare usual word")
    two.tell(["rare rare rare"] * 50)
    assert one.look("rare usual word") == before
    assert len({found["score"] for found in before["results"]}) > 1


def test_those_whom_the_host_lists_as_one_user_share_all(world):
    desk = speaker(world, talk={"user": {TWO}})
    laptop = speaker(world, TWO, talk={"user": {ONE}})
    mine, others = desk.keep("the desk's memory"), laptop.save("the laptop's word")
    laptop.project("engram")
    laptop.tag(mine, "engram")
    desk.tag(others, "engram")
    desk.know("add", "sub_profile", content="said at the desk")
    assert (
        laptop.know("add", "sub_profile", content="said on the way")["sub_profile"]
        == "said at the desk\nsaid on the way"
    )
    for each in (desk, laptop):
        assert set(each.ids()) == set(each.ids(p_tag="engram")) == {mine, others}
        assert set(each.ids("memory word")) == {mine, others}
        assert each.ids("laptop") == [others]
        assert "the desk's memory" in each.brief()
        assert "said on the way" in each.brief()
    laptop.know("update", memory_id=mine, content="revised on the way")
    assert desk.ids("revised") == [mine]
    laptop.erase(mine)
    assert desk.ids(include_archived=True) == [others]


def test_a_list_is_the_hosts_word_on_its_own_side_only(world):
    listed, unlisted = speaker(world, talk={"user": {TWO}}), speaker(world, TWO)
    message_id = listed.save("said by one")
    assert unlisted.ids() == []
    assert listed.ids() == [message_id]


@pytest.mark.parametrize("tool", [SAVE_MESSAGE, SEARCH_MEMORY, MANAGE_KNOWLEDGE, MEMORY_STARTUP])
def test_nobody_can_name_another_user(both, tool):
    one, _ = both
    base = {
        SAVE_MESSAGE: {"role": "user", "message": "m"},
        MANAGE_KNOWLEDGE: {"action": "add", "target": "memory", "content": "c"},
    }.get(tool, {})
    for field in ("user_id", "principal", "owner", "users"):
        assert one.code(tool, {**base, field: TWO}) == "INVALID_SCHEMA"


def test_another_scope_with_the_same_principal_is_apart(world):
    here, there = speaker(world), speaker(world, talk={"scope": OTHER})
    here.save("said here")
    there.save("said there")
    assert [found["message"] for found in there.look("said")["results"]] == ["said there"]
    assert here.look(date_range="today")["count"] == 1
    assert world.clock.now() == NOW

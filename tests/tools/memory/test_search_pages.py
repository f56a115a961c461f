"""Pages of a search: sizes, budgets, cursors, and when a page is stale."""

from __future__ import annotations

import random
from typing import Any

import pytest

from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.events import Actor
from journal.lifecycle import Operation
from tests.tools.memory.searching import WORD, code, ids, page, pages, stocked
from tests.tools.memory.world import (
    DAY,
    NOW,
    OTHER,
    PURPOSE,
    SECOND,
    Caller,
    World,
    citation,
    component,
    forgetting,
)
from tools.host.capabilities import FORGET, SEARCH

# --- pages ----------------------------------------------------------------------------------------


def test_every_page_size_gives_the_same_union(agent):
    known = set(stocked(agent, 23))
    whole = pages(agent, limit=50)
    assert set(ids(whole)) == known
    assert [packet["rank"] for packet in whole] == list(range(1, 24))
    scores = [packet["score"] for packet in whole]
    assert scores == sorted(scores, reverse=True)
    assert all(isinstance(score, int) for score in scores)
    for limit in range(1, 25):
        assert pages(agent, limit=limit) == whole, limit


def test_limit_and_budget_may_change_from_page_to_page(agent):
    stocked(agent, 17, 900)
    whole = pages(agent, limit=50)
    chance = random.Random(4)
    for _ in range(6):
        given = pages(
            agent, each=lambda _: {"limit": chance.randint(1, 50), "max_packet_bytes": chance.randint(6_000, 20_000)}
        )
        assert given == whole


def test_the_top_k_is_a_prefix_of_the_top_2k(agent):
    stocked(agent, 30)
    fifty = page(agent, limit=50)["records"]
    for limit in (1, 2, 3, 5, 10, 20):
        assert page(agent, limit=limit)["records"] == fifty[:limit]


def test_pages_go_beyond_the_rescored_window(agent):
    known = stocked(agent, 61)
    for limit in (50, 7):
        given = pages(agent, limit=limit)
        assert len(given) == 61
        assert set(ids(given)) == set(known)
        assert [packet["rank"] for packet in given] == list(range(1, 62))


def test_ten_records_come_by_default(agent):
    stocked(agent, 12)
    assert len(page(agent)["records"]) == 10


def test_equal_scores_are_ordered_by_record_and_repeat(agent):
    known = {agent.remember(f"{WORD} same length", citations=[cite(n)]) for n in range(9)}
    first = ids(pages(agent, limit=2))
    assert set(first) == known
    assert ids(pages(agent, limit=50)) == first
    assert len({packet["score"] for packet in pages(agent, limit=50)}) == 1


def cite(number: int) -> dict[str, Any]:
    return citation("citation:1", source_ref=f"source:{number}", content_digest="sha256:" + f"{number:064x}")


# --- budget ---------------------------------------------------------------------------------------


def test_a_page_ends_before_a_record_that_does_not_fit(agent):
    stocked(agent, 4, 1_500)
    whole = page(agent)
    full = len(canonical_bytes(whole))
    assert len(page(agent, max_packet_bytes=full)["records"]) == 4
    cut = page(agent, max_packet_bytes=full - 1)
    assert ids(cut["records"]) == ids(whole["records"][:3])
    assert ids(page(agent, cut["next_page_cursor"])["records"]) == ids(whole["records"][3:])


def test_no_answer_is_over_its_budget(agent):
    stocked(agent, 9, 700)
    full = len(canonical_bytes(page(agent)))
    for budget in [*range(4_096, full + 300, 173), full - 1, full, full + 1]:
        document = agent.call(SEARCH, {"query": WORD, "purpose_ref": PURPOSE, "max_packet_bytes": budget})
        if document["ok"]:
            value = document["output"]["value"]
            assert len(canonical_bytes(value)) <= budget
            assert value["records"]
        else:
            assert document["error"]["code"] == "PROJECTION_OVERSIZED"
    assert code(agent, max_packet_bytes=4_096) == "ok", "the smallest budget holds a small record"


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_an_oversized_record_is_named_and_the_cursor_stays_good(agent, place):
    # One huge record, whose score puts it first, in the middle, or last.
    words = {"first": 30, "middle": 3, "last": 1}[place]
    small = [agent.remember(f"{' '.join([WORD] * n)} {'x ' * 30}", citations=[cite(n)]) for n in (2, 4)]
    huge = agent.remember(
        components=[
            component("component:1", f"{' '.join([WORD] * words)} {'x ' * 30}"),
            component("component:2", 30_000 * "y", "context"),
        ]
    )
    order = ids(page(agent, max_packet_bytes=1 << 20)["records"])
    assert set(order) == {*small, huge}
    at = order.index(huge)
    assert at == {"first": 0, "middle": 1, "last": 2}[place]
    cursor = None
    if at:
        value = page(agent, max_packet_bytes=16_384)
        assert ids(value["records"]) == order[:at]
        cursor = value["next_page_cursor"]
    for _ in range(2):
        assert code(agent, cursor, max_packet_bytes=16_384) == "PROJECTION_OVERSIZED"
    value = page(agent, cursor, max_packet_bytes=65_536)
    assert ids(value["records"]) == order[at:]
    if at == 1:
        skipped = page(agent, cursor, limit=1)
        assert ids(page(agent, skipped["next_page_cursor"], max_packet_bytes=16_384)["records"]) == order[2:]


def test_the_hosts_cap_is_over_the_callers_budget(world, agent):
    stocked(agent, 5, 1_500)
    capped = world.caller(packet_cap_bytes=8_192)
    value = page(capped, max_packet_bytes=1 << 20)
    assert len(canonical_bytes(value)) <= 8_192
    assert ids(pages(capped, max_packet_bytes=1 << 20)) == ids(pages(agent))


# --- cursors --------------------------------------------------------------------------------------


def test_a_cursor_belongs_to_its_query_purpose_policy_principal_and_scope(world, agent):
    stocked(agent, 3)
    cursor = page(agent, limit=1)["next_page_cursor"]
    assert code(agent, cursor, limit=1) == "ok"
    assert code(agent, cursor, capability_policy={"minimum_channels": "lexical", "network": "forbid"}) == "ok"
    assert code(agent, cursor, capability_policy={}) == "ok"
    assert code(agent, cursor, f"{WORD} ") == "STALE_PAGE"
    assert code(agent, cursor, "word") == "STALE_PAGE"
    assert code(agent, cursor, purpose_ref=SECOND) == "STALE_PAGE"
    assert code(agent, cursor, capability_policy={"network": "allow"}) == "STALE_PAGE"
    assert code(world.caller(principal="principal:two"), cursor) == "STALE_PAGE"
    elsewhere = world.caller(OTHER)
    stocked(elsewhere, 3)
    assert code(elsewhere, cursor) == "STALE_PAGE"
    assert code(agent, page(elsewhere, limit=1)["next_page_cursor"]) == "STALE_PAGE"


def test_a_forged_cursor_is_stale(agent):
    stocked(agent, 3)
    cursor = page(agent, limit=1)["next_page_cursor"]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    forged = [
        cursor[:at] + letters[(letters.index(cursor[at]) + 1) % 64] + cursor[at + 1 :] for at in range(len(cursor))
    ]
    forged += [
        cursor + "=",
        cursor + "A",
        cursor[:-1],
        cursor.lower(),
        " " + cursor,
        cursor + "\n",
        "A" * 71,
        "x",
        "한글",
    ]
    forged += [cursor.replace("-", "+").replace("_", "/") + "A", "." * 71, "=" * 71, cursor * 2]
    assert {code(agent, each) for each in forged if each != cursor} == {"STALE_PAGE"}
    assert code(agent, cursor) == "ok"


def test_a_cursor_survives_a_restart_and_serves_a_second_process(world, agent):
    stocked(agent, 5)
    first = page(agent, limit=2)
    rest = ids(page(agent, first["next_page_cursor"])["records"])
    arguments = {"query": WORD, "purpose_ref": PURPOSE, "page_cursor": first["next_page_cursor"]}
    with world.second_process() as other:
        answer = other.call(SEARCH, arguments)
        assert ids(answer["output"]["value"]["records"]) == rest
    world.restart()
    assert ids(page(world.caller(), first["next_page_cursor"])["records"]) == rest


# --- stale exactly when the searchable set changed ------------------------------------------------

CHANGES = {
    "an admission": lambda agent: agent.remember("something else entirely"),
    "an admission of another purpose": lambda agent: agent.remember("something else", purpose_ref=SECOND),
    "a forgetting": lambda agent: agent.forget(agent.found("spare")[0]),
    "a dispute": lambda agent: agent.transit(agent.spare, Operation.DISPUTE),
    "an expiry by the host": lambda agent: agent.transit(agent.spare, Operation.EXPIRE),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_set_makes_a_page_stale(agent, change):
    stocked(agent, 3)
    agent.spare = agent.capture("spare")
    agent.admit(agent.spare)
    cursor = page(agent, limit=1)["next_page_cursor"]
    CHANGES[change](agent)
    assert code(agent, cursor, limit=1) == "STALE_PAGE"
    assert len(pages(agent, limit=1)) == 3


def quiet_events(world: World, agent: Caller) -> None:
    """Let everything happen that leaves the searchable set as it is."""
    candidate_id = agent.capture(f"{WORD} pending")
    careful = world.caller(policy="adjudicate")
    careful.admit(candidate_id)
    agent.code(FORGET, forgetting(agent.found(WORD)[0]))
    agent.withdraw(candidate_id)
    rejected = agent.capture(f"{WORD} rejected")
    agent.transit(rejected, Operation.REJECT)
    world.journal.rotate_keys(agent.scope, Actor("operator:tests"))
    world.caller(OTHER).remember(f"{WORD} elsewhere")
    agent.remember(f"{WORD} not yet", valid_time={"t": NOW + DAY})
    agent.remember(f"{WORD} no more", valid_time={"t": 0, "t_end": NOW - 1})


def test_what_leaves_the_set_alone_leaves_the_pages_good(world, agent):
    stocked(agent, 4)
    whole = ids(pages(agent, limit=1))
    cursor = page(agent, limit=1)["next_page_cursor"]
    quiet_events(world, agent)
    world.clock.advance(milliseconds=60_000)
    given = page(agent, cursor, limit=50)
    assert ids(given["records"]) == whole[1:]
    assert given["rank_receipt"]["system_as_of"] == str(agent.head)


@pytest.mark.parametrize(
    ("changes", "moment"),
    [
        ({"valid_time": {"t": NOW + 1_000}}, 1_000),
        ({"valid_time": {"t": 0, "t_end": NOW + 999}}, 1_000),
        ({"retention": {"expires_at": instant(NOW + 1_000)}}, 1_000),
    ],
    ids=["begins", "ends", "expires"],
)
def test_the_clock_alone_can_change_the_set(world, agent, changes, moment):
    stocked(agent, 3)
    agent.remember("another matter", **changes)
    cursor = page(agent, limit=1)["next_page_cursor"]
    world.clock.set(NOW + moment - 1)
    second = page(agent, cursor, limit=1)["next_page_cursor"]
    world.clock.set(NOW + moment)
    for stale in (cursor, second):
        assert code(agent, stale, limit=1) == "STALE_PAGE"
    fresh = page(agent, limit=1)["next_page_cursor"]
    world.clock.advance(milliseconds=DAY)
    assert code(agent, fresh, limit=1) == "ok"


def test_a_clock_set_back_a_little_leaves_the_pages_good(world, agent):
    stocked(agent, 3)
    world.clock.set(NOW + 500)
    cursor = page(agent, limit=1)["next_page_cursor"]
    world.clock.set(NOW + 400)
    assert code(agent, cursor, limit=1) == "ok"


def test_a_page_begun_before_a_change_goes_on_after_nothing_but_it(agent):
    # Every page of one search is bound to the first: a change between the second and the third is seen.
    stocked(agent, 5)
    first = page(agent, limit=1)["next_page_cursor"]
    second = page(agent, first, limit=1)["next_page_cursor"]
    agent.remember("something new")
    assert code(agent, second, limit=1) == "STALE_PAGE"

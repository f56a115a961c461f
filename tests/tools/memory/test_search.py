"""engram_memory_search: eligible before the cut, found the moment it is admitted, receipts, empty answers."""

from __future__ import annotations

import threading

import pytest

from journal.clock import instant
from journal.digests import digest, receipt_digest
from journal.lifecycle import Operation
from tests.tools.memory.searching import WORD, code, ids, page, pages, stocked
from tests.tools.memory.world import (
    NOW,
    OTHER,
    PURPOSE,
    SECOND,
    key,
)
from tools.host.capabilities import SEARCH

# --- who is found ---------------------------------------------------------------------------------


def test_eligibility_comes_before_the_cut(world, agent):
    # Better matches that may not be read, more than the window holds: hidden by clock, state, purpose or a forgetting.
    good = {agent.remember(f"{WORD} {'plain ' * 40}{n}") for n in range(3)}
    for number in range(12):
        text = f"{WORD} {WORD} {WORD} {number}"
        agent.capture(text)
        agent.remember(text + " b", valid_time={"t": NOW + 2})
        agent.remember(text + " c", valid_time={"t": 0, "t_end": NOW - 1})
        agent.remember(text + " d", purpose_ref=SECOND)
        agent.remember(text + " e", retention={"expires_at": instant(NOW + 1)})
        disputed = agent.capture(text + " f")
        agent.admit(disputed)
        agent.transit(disputed, Operation.DISPUTE)
        agent.forget(agent.remember(text + " g"))
    world.clock.set(NOW + 1)
    assert set(ids(pages(agent, limit=2))) == good
    assert page(agent, limit=3)["rank_receipt"]["candidate_count"] == 3


def test_pending_and_foreign_records_are_not_found(world, agent):
    agent.capture(WORD)
    world.caller(OTHER).remember(WORD)
    value = page(agent)
    assert value["records"] == []
    assert value["rank_receipt"]["candidate_count"] == 0


def test_what_a_second_process_admitted_is_found_at_once(world, agent):
    stocked(agent, 1)
    assert len(agent.found(WORD)) == 1
    candidates = [agent.capture(f"{WORD} {number}") for number in range(5)]
    with world.second_process() as other:
        for number, candidate_id in enumerate(candidates):
            arguments = {"candidate_id": candidate_id, "idempotency_key": key()}
            answer = other.call("engram_memory_request_admission", arguments)
            record_id = answer["output"]["value"]["outcome"]["record_id"]
            assert record_id in agent.found(WORD)
            assert len(agent.found(WORD)) == number + 2
        mine = agent.remember(f"{WORD} mine")
        answer = other.call(SEARCH, {"query": WORD, "purpose_ref": PURPOSE})
        assert mine in ids(answer["output"]["value"]["records"])


def test_a_forgotten_record_is_gone_at_once(agent):
    kept, gone = stocked(agent, 2)
    agent.forget(gone)
    assert agent.found(WORD) == [kept]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("알림을 매일 아홉 시에 보낸다.", "알림"),
        ("야간 빌드를 두 시 반으로 옮겼다.", "야간 빌드"),
        ("\u110b\u1163\u1100\u1161\u11ab \u1107\u1175\u11af\u1103\u1173", "야간 빌드"),
        ("야간 빌드", "\u110b\u1163\u1100\u1161\u11ab \u1107\u1175\u11af\u1103\u1173"),
        ("The parser lives in src/wire_format/readStrictLine.py.", "readStrictLine"),
        ("The parser lives in src/wire_format/readStrictLine.py.", "strict line"),
        ("ＦＵＬＬＷＩＤＴＨ words", "fullwidth"),
        ("Café opens", "CAFE\u0301"),
    ],
)
def test_a_query_matches_under_nfkc(agent, text, query):
    record_id = agent.remember(text)
    agent.remember("Something that has nothing to do with it.")
    assert agent.found(query) == [record_id]


# --- empty answers and faults ---------------------------------------------------------------------

RANK_RECEIPT = {
    "request_digest", "authorization_receipt_digest", "profile", "profile_version", "profile_config_digest",
    "valid_as_of", "system_as_of", "snapshot_id", "snapshot_digest", "candidate_count", "candidate_ids_digest",
    "scoring_formula_ref", "ordered_ids_digest", "revalidation_receipt_digest", "projection_receipt_digests",
    "issued_at", "receipt_digest",
}  # fmt: skip


@pytest.mark.parametrize(
    "query", ["nowhere", "?!", "the", " ", "\x00", "\U0001f642", "은는이가", 8_192 * "z", "a " * 4_096]
)
def test_no_match_is_an_empty_answer_with_a_full_receipt(agent, query):
    for stored in (0, 1):
        if stored:
            stocked(agent, 2)
        value = page(agent, query=query)
        assert set(value) == {"records", "rank_receipt", "response_digest"}
        assert value["records"] == []
        assert set(value["rank_receipt"]) == RANK_RECEIPT


def test_a_required_semantic_channel_is_never_silently_replaced(agent):
    stocked(agent, 1)
    for network in ("forbid", "allow"):
        policy = {"minimum_channels": "lexical_and_semantic", "network": network}
        document = agent.call(SEARCH, {"query": WORD, "purpose_ref": PURPOSE, "capability_policy": policy})
        assert (document["error"]["code"], document["error"]["retriable"]) == ("RANKING_UNAVAILABLE", True)
    assert code(agent, capability_policy={"network": "allow"}) == "ok"


def test_a_search_that_cannot_catch_up_in_time_says_so(agent):
    stocked(agent, 2)
    assert code(agent) == "ok"
    agent.remember(f"{WORD} behind")
    late = agent.call(SEARCH, {"query": WORD, "purpose_ref": PURPOSE}, seconds=-1)
    assert (late["error"]["code"], late["error"]["retriable"]) == ("PROJECTION_STALE", True)
    assert len(agent.found(WORD)) == 3


def test_a_cancelled_search_stops(agent):
    stocked(agent, 1)
    cancelled = threading.Event()
    cancelled.set()
    assert agent.code(SEARCH, {"query": WORD, "purpose_ref": PURPOSE}, cancelled=cancelled) == "CANCELLED"


def test_a_search_writes_nothing(agent):
    stocked(agent, 3)
    before = agent.head
    pages(agent, limit=1)
    assert agent.head == before


# --- receipts -------------------------------------------------------------------------------------


def test_a_rank_receipt_has_its_fields_and_derives_again(world, agent):
    stocked(agent, 7)
    world.clock.advance(milliseconds=30)
    arguments = {"query": WORD, "purpose_ref": PURPOSE, "limit": 3}
    value = agent.value(SEARCH, arguments)
    receipt = value["rank_receipt"]
    assert set(receipt) == RANK_RECEIPT
    assert set(value) == {"records", "rank_receipt", "next_page_cursor", "response_digest"}
    assert set(value["records"][0]) == {"record", "redacted_fields", "redaction_receipt_digest", "score", "rank"}
    assert receipt["receipt_digest"] == receipt_digest("rank", receipt)
    unsigned = {name: item for name, item in value.items() if name != "response_digest"}
    assert value["response_digest"] == receipt_digest("search-response", unsigned)
    assert receipt["request_digest"] == digest(b"graphify-memory/request/v1\0", arguments)
    assert receipt["ordered_ids_digest"] == digest(b"graphify-memory/ordered-ids/v1\0", ids(value["records"]))
    everyone = sorted(ids(pages(agent, limit=50)))
    assert receipt["candidate_count"] == len(everyone) == 7
    assert receipt["candidate_ids_digest"] == digest(b"graphify-memory/candidate-ids/v1\0", everyone)
    assert receipt["valid_as_of"] == receipt["issued_at"] == instant(NOW + 30)
    assert receipt["system_as_of"] == str(agent.head)
    assert receipt["profile"] == "offline_lexical_v1"
    assert len(receipt["projection_receipt_digests"]) == 2


def test_a_page_counts_its_window_and_orders_itself(agent):
    stocked(agent, 55)
    first = page(agent, limit=50)
    second = page(agent, first["next_page_cursor"])
    for value in (first, second):
        assert value["rank_receipt"]["candidate_count"] == 55  # fifty, and what stands beside them
    assert len({value["rank_receipt"]["candidate_ids_digest"] for value in (first, second)}) == 1
    assert len({value["rank_receipt"]["ordered_ids_digest"] for value in (first, second)}) == 2


def test_a_packet_of_a_search_is_the_packet_of_a_get(agent):
    (record_id,) = stocked(agent, 1)
    (packet,) = page(agent)["records"]
    got = agent.get(record_id)["output"]["value"]
    for name in ("record", "redacted_fields", "redaction_receipt_digest"):
        assert packet[name] == got[name]


def test_the_same_search_at_the_same_cursor_ranks_alike(world, agent):
    stocked(agent, 9)
    first = page(agent)
    world.restart()
    again = page(world.caller())
    assert again["records"] == first["records"]
    for name in (
        "snapshot_digest",
        "snapshot_id",
        "ordered_ids_digest",
        "candidate_ids_digest",
        "profile_config_digest",
    ):
        assert again["rank_receipt"][name] == first["rank_receipt"][name]

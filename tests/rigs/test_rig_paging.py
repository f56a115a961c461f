"""Pages of one server while another process changes the store: whole, or STALE_PAGE, and never a wrong page."""

from __future__ import annotations

import random
import time

import pytest

from journal.clock import instant
from tests.rigs.captures import Driver, capture, forget_arguments, new_key, remember, search
from tests.rigs.lineclient import CALL_SECONDS, LineServer

WORD = "harvest"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def page(server, cursor=None, **changes):
    """Return one page, which must be answered."""
    return server.value("search", search(WORD, **changes, **({} if cursor is None else {"page_cursor": cursor})))


def ids(packets):
    return [packet["record"]["record_id"] for packet in packets]


def pages(server, between=lambda: None, **changes):
    """Return all pages' packets; something may be done between one page and the next."""
    packets, cursor = [], None
    while True:
        value = page(server, cursor, **changes)
        packets += value["records"]
        cursor = value.get("next_page_cursor")
        if cursor is None:
            assert [packet["rank"] for packet in packets] == list(range(1, len(packets) + 1))
            return packets
        between()


def stocked(server, count):
    return [remember(server, f"{WORD} {'x ' * (n % 7)} number {n}") for n in range(count)]


def test_every_page_size_and_the_top_k(servers, sized):
    server, other = servers(2)
    known = stocked(server, 53)
    whole = pages(server, limit=50)
    assert sorted(ids(whole)) == sorted(known)
    turn = random.Random(7)
    for limit in random.sample(range(1, 50), sized(6, 49)):
        # Any page may come from any process.
        packets, cursor = [], None
        while packets == [] or cursor is not None:
            value = page(turn.choice([server, other]), cursor, limit=limit)
            packets += value["records"]
            cursor = value.get("next_page_cursor")
        assert packets == whole, limit
    for top in random.sample(range(1, 26), sized(5, 25)):
        few, many = (page(server, limit=each)["records"] for each in (top, 2 * top))
        assert many[:top] == few, top


def test_what_leaves_the_set_alone_leaves_every_page_good(place, servers, sized, told):
    server, other = servers(2)
    stocked(server, 12)
    whole = ids(pages(server, limit=50))
    commands = [("projections", "rebuild", "--all"), ("keys", "rotate"), ("projections", "invalidate", "lexical")]
    asked = 0
    driver = Driver(place, [f"{WORD} pending {n}" for n in range(sized(100, 2_000))]).start()
    driver.begin()

    def between():
        nonlocal asked
        words = commands[asked % len(commands)]
        done = place.ended(*words)
        assert done.returncode == 0, (words, done.stderr[-500:])
        other.value("capture", capture(f"{WORD} pending too"))
        asked += 1

    for _ in range(sized(1, 5)):
        assert ids(pages(server, between, limit=sized(4, 2))) == whole
    driver.join(120)
    assert driver.server.close() == 0
    place.audited()
    told(pages=asked, captured_beside=len(driver.acknowledged))


def test_what_changes_the_set_in_another_process_makes_the_page_stale(place, servers, sized, told):
    server, other = servers(2)
    known = stocked(server, 4)
    soon = int(time.time() * 1_000) + 600_000

    def admitted():
        known.append(remember(other, "another matter"))

    def forgotten():
        assert other.code("forget", forget_arguments(known.pop())) == "gate_failed"
        assert place.approve_all() == [0]

    def stale(cursor):
        code = server.code("search", search(WORD, limit=1, page_cursor=cursor))
        assert code == "STALE_PAGE"
        assert other.code("search", search(WORD, limit=1, page_cursor=cursor)) == "STALE_PAGE"

    old = []
    for _ in range(sized(1, 5)):
        for change in (admitted, forgotten):
            first = page(server, limit=1)["next_page_cursor"]
            second = page(server, first, limit=1)["next_page_cursor"]
            change()
            old += [first, second]
            for cursor in old:
                stale(cursor)
            assert sorted(ids(pages(server, limit=1))) == sorted(each for each in known if each in ids(pages(other)))
    assert soon > time.time() * 1_000
    told(old_cursors=len(old))


def test_an_expiry_between_pages(servers):
    server, other = servers(2)
    known = stocked(server, 3)
    expires = int(time.time() * 1_000) + 2_500
    brief = remember(
        other, f"{WORD} for a moment", retention={"derivative_rule": "make-ineligible", "expires_at": instant(expires)}
    )
    cursor = page(server, limit=1)["next_page_cursor"]
    seen = set(ids(page(server, limit=50)["records"]))
    if time.time() * 1_000 < expires:
        assert seen == {*known, brief}
    while time.time() * 1_000 <= expires:
        time.sleep(0.05)
    for each in (server, other):
        assert each.code("search", search(WORD, limit=1, page_cursor=cursor)) == "STALE_PAGE"
        assert sorted(ids(pages(each, limit=1))) == sorted(known)
        assert each.code("get", {"record_id": brief, "purpose_ref": "purpose:memory"}) == "NOT_FOUND"


def test_forged_foreign_and_old_cursors(place, servers, sized):
    server, other = servers(2)
    stocked(server, 5)
    cursor = page(server, limit=2)["next_page_cursor"]
    rest = ids(page(server, cursor)["records"])
    chance = random.Random(3)
    for at in random.sample(range(len(cursor)), sized(10, len(cursor))):
        letter = chance.choice([each for each in LETTERS if each != cursor[at]])
        forged = cursor[:at] + letter + cursor[at + 1 :]
        assert server.code("search", search(WORD, page_cursor=forged)) == "STALE_PAGE", at
    for query in ("harvests", "number", f"{WORD} "):
        assert server.code("search", search(query, page_cursor=cursor)) == "STALE_PAGE"
    assert ids(page(other, cursor)["records"]) == rest
    reborn = LineServer(place).handshake()
    assert ids(page(reborn, cursor)["records"]) == rest, "a cursor outlives the process that gave it"
    assert reborn.close() == 0


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_an_oversized_record(servers, where):
    [server] = servers(1)
    often = {"first": 30, "middle": 3, "last": 1}[where]
    small = [remember(server, f"{' '.join([WORD] * n)} {'x ' * 30}") for n in (2, 4)]
    made = capture(f"{' '.join([WORD] * often)} {'x ' * 30}", new_key("huge"))
    made["payload"]["components"].append(
        {"component_id": "component:2", "kind": "context", "text": 30_000 * "y", "citation_ids": ["c:1"]}
    )
    candidate_id = server.value("capture", made)["candidate_id"]
    answered = server.value("request_admission", {"candidate_id": candidate_id, "idempotency_key": new_key("admit")})
    huge = answered["outcome"]["record_id"]
    order = ids(page(server, max_packet_bytes=1 << 20)["records"])
    assert sorted(order) == sorted([*small, huge])
    at = order.index(huge)
    assert at == {"first": 0, "middle": 1, "last": 2}[where]
    packets, cursor, refused = [], None, 0
    begun = time.monotonic()
    while cursor is not None or not packets:
        assert time.monotonic() - begun < CALL_SECONDS
        more = {} if cursor is None else {"page_cursor": cursor}
        answered = server.envelope("search", search(WORD, max_packet_bytes=16_384, **more))
        if not answered["ok"]:
            assert answered["error"]["code"] == "PROJECTION_OVERSIZED"
            refused += 1
            answered = server.envelope("search", search(WORD, max_packet_bytes=65_536, limit=1, **more))
        value = answered["output"]["value"]
        packets += value["records"]
        cursor = value.get("next_page_cursor")
    assert (ids(packets), refused) == (order, 1)

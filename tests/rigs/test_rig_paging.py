"""Pages of one server while another process changes the store: whole, or STALE_PAGE, and never a wrong page."""

from __future__ import annotations

import random
import time
from typing import Any

from journal.clock import instant
from tests.rigs.captures import Driver, admit, capture, forget_arguments, remember, search
from tests.rigs.lineclient import LineServer
from tests.rigs.place import PURPOSE

WORD = "harvest"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def asked(cursor=None, word=WORD, **changes):
    """Return the arguments of a page."""
    return search(word, **changes, **({} if cursor is None else {"page_cursor": cursor}))


def page(server, cursor=None, **changes):
    """Return one page, which must be answered."""
    return server.value("search", asked(cursor, **changes))


def ids(packets):
    return [packet["record"]["record_id"] for packet in packets]


def pages(*servers, between=lambda: None, **changes):
    """Return all pages' packets, each page from any of the servers; something may be done between them."""
    packets: list[dict[str, Any]] = []
    cursor = None
    while True:
        value = page(random.choice(servers), cursor, **changes)
        packets += value["records"]
        cursor = value.get("next_page_cursor")
        if cursor is None:
            assert [packet["rank"] for packet in packets] == list(range(1, len(packets) + 1))
            return packets
        between()


def stocked(server, count):
    return [remember(server, f"{WORD} {'x ' * (n % 7)} number {n}") for n in range(count)]


def test_page_sizes_forged_and_foreign_cursors_and_oversized_records(place, servers, sized):
    server, other = servers(2)
    known = stocked(server, sized(20, 53))
    every_size(server, other, known, sized)
    forged_and_foreign(server, other, sized)
    for where, often in {"first": 30, "middle": 3, "last": 1}.items():
        oversized(server, where, often)

    cursor = page(server, limit=2)["next_page_cursor"]
    rest = ids(page(server, cursor)["records"])
    reborn = LineServer(place).handshake()
    assert ids(page(reborn, cursor)["records"]) == rest, "a cursor outlives the process that gave it"
    assert reborn.close() == 0


def every_size(server, other, known, sized):
    whole = pages(server, limit=50)
    assert sorted(ids(whole)) == sorted(known)
    for limit in random.sample(range(1, 50), sized(6, 49)):
        assert pages(server, other, limit=limit) == whole, limit
    for top in random.sample(range(1, 26), sized(5, 25)):
        few, many = (page(server, limit=each)["records"] for each in (top, 2 * top))
        assert many[:top] == few, top


def forged_and_foreign(server, other, sized):
    cursor = page(server, limit=2)["next_page_cursor"]
    for at in random.sample(range(len(cursor)), sized(10, len(cursor))):
        letter = random.choice([each for each in LETTERS if each != cursor[at]])
        forged = cursor[:at] + letter + cursor[at + 1 :]
        assert server.code("search", asked(forged)) == "STALE_PAGE", at
    for query in ("harvests", "number", f"{WORD} "):
        assert server.code("search", asked(cursor, query)) == "STALE_PAGE"
    assert page(other, cursor)["records"] == page(server, cursor)["records"]


def alone(made, name):
    """Let a capture have a source of its own, so that no other record stands beside it."""
    made["payload"]["citations"][0]["source_ref"] = f"source:{name}"
    return made


def oversized(server, where, often):
    """Page through three records, one of which is over the budget: it is named once, and nothing else is lost."""
    word = f"gleaning{where}"
    small = []
    for number in (2, 4):
        made = alone(capture(f"{' '.join([word] * number)} {'x ' * 30}"), f"{where}-{number}")
        small.append(admit(server, server.value("capture", made)["candidate_id"]))
    made = alone(capture(f"{' '.join([word] * often)} {'x ' * 30}"), where)
    made["payload"]["components"].append(
        {"component_id": "component:2", "kind": "context", "text": 30_000 * "y", "citation_ids": ["c:1"]}
    )
    huge = admit(server, server.value("capture", made)["candidate_id"])
    order = ids(page(server, word=word, max_packet_bytes=1 << 20)["records"])
    assert sorted(order) == sorted([*small, huge])
    assert order.index(huge) == {"first": 0, "middle": 1, "last": 2}[where]
    given: list[str] = []
    cursor, refused = None, 0
    while cursor is not None or not given:
        answered = server.envelope("search", asked(cursor, word, max_packet_bytes=16_384))
        if not answered["ok"]:
            assert answered["error"]["code"] == "PROJECTION_OVERSIZED"
            refused += 1
            answered = server.envelope("search", asked(cursor, word, max_packet_bytes=65_536, limit=1))
        value = answered["output"]["value"]
        assert value["records"]
        given += ids(value["records"])
        cursor = value.get("next_page_cursor")
    assert (given, refused) == (order, 1)


def test_what_leaves_the_set_alone_leaves_every_page_good(place, servers, sized, told):
    server, other = servers(2)
    stocked(server, 12)
    whole = ids(pages(server, limit=50))
    commands = [("projections", "rebuild", "--all"), ("keys", "rotate"), ("projections", "invalidate", "lexical")]
    done = 0
    driver = Driver(place, [f"{WORD} pending {n}" for n in range(sized(100, 2_000))]).start()
    driver.begin()

    def between():
        nonlocal done
        place.run(*commands[done % len(commands)])
        other.value("capture", capture(f"{WORD} pending too"))
        done += 1

    for _ in range(sized(1, 5)):
        assert ids(pages(server, other, between=between, limit=sized(4, 2))) == whole
    driver.join(120)
    assert driver.server.close() == 0
    place.audited()
    told(upkeep_between_pages=done, captured_beside=len(driver.acknowledged))


def test_what_changes_the_set_in_another_process_makes_every_page_stale(place, servers, sized, told):
    server, other = servers(2)
    known = stocked(server, 4)
    old: list[str] = []

    def two_pages():
        first = page(server, limit=1)["next_page_cursor"]
        old.extend([first, page(server, first, limit=1)["next_page_cursor"]])

    def all_stale():
        for cursor in old:
            for each in (server, other):
                assert each.code("search", asked(cursor, limit=1)) == "STALE_PAGE"
        assert sorted(ids(pages(server, other, limit=1))) == sorted(known)

    for number in range(sized(1, 5)):
        two_pages()
        known.append(remember(other, f"{WORD} one more {number}"))
        all_stale()
        two_pages()
        assert other.code("forget", forget_arguments(known.pop(0))) == "gate_failed"
        assert place.approve_all() == [0]
        all_stale()

    expires = int(time.time() * 1_000) + 2_000
    retention = {"derivative_rule": "make-ineligible", "expires_at": instant(expires)}
    brief = remember(other, f"{WORD} for a moment", retention=retention)
    two_pages()
    while time.time() * 1_000 <= expires:
        time.sleep(0.02)
    all_stale()
    for each in (server, other):
        assert each.code("get", {"record_id": brief, "purpose_ref": PURPOSE}) == "NOT_FOUND"
    told(old_cursors=len(old))

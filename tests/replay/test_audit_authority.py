"""Grants, epochs and opt-ins that were forged: events that could not follow, rows of no event, others' ledgers."""

from __future__ import annotations

import msgspec
import pytest

from journal.authority import AUTHORITY, GRANT_PREFIX, OPT_IN
from journal.events import EventType
from tests.replay.tampering import audited, change, findings, forge
from tests.tools.memory.world import NOW, SCOPE, World
from tools.host.capabilities import ALL_TOOLS, GET, SEARCH
from tools.memory.authority_orders import Orders

ONE = "principal:one"
GRANTED, ANOTHER, REVOKED, RAISED, DISABLED, ENABLED = range(1, 7)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    orders = Orders(made.engine(), SCOPE, "min", reason="a laptop was lost")
    orders.grant(ONE, [SEARCH], expires_at=NOW + 5_000)
    orders.grant(ONE, [GET])
    orders.revoke(ONE, [SEARCH], by_file=ALL_TOOLS)
    orders.raise_epoch()
    orders.opt(enabled=False)
    orders.opt(enabled=True)
    made.close()
    return made


def subjects(world):
    found: list[str | None] = []
    change(world, lambda opened: found.extend(header.subject for header in opened.headers()))
    return found


def edit_row(world, subject_id, place, value):
    def edit(opened):
        raw = msgspec.msgpack.decode(opened.rows(b"subject")[subject_id.encode()])
        raw[place] = value
        opened.put_row(b"subject", subject_id.encode(), msgspec.msgpack.encode(raw))

    change(world, edit)


def test_what_was_ordered_is_clean(world):
    assert audited(world).ok


@pytest.mark.parametrize(
    ("cursor", "fields"),
    [
        (REVOKED, {"type": EventType.GRANT, "from_state": 1, "to_state": 2}),  # a grant that revokes
        (REVOKED, {"from_state": 0}),  # a revocation of what was not granted, they say
        (REVOKED, {"from_state": 2}),
        (REVOKED, {"to_state": 1}),
        (REVOKED, {"subject": OPT_IN}),
        (REVOKED, {"subject": None}),
        (RAISED, {"subject": GRANT_PREFIX + 64 * "a"}),
        (RAISED, {"ledger_digest": None}),
        (DISABLED, {"to_state": 1}),
        (DISABLED, {"subject": f"{OPT_IN}s"}),
        (ENABLED, {"from_state": 1}),
        (ENABLED, {"type": EventType.TENANT_DISABLED, "from_state": 2, "to_state": 2}),
        (GRANTED, {"to_state": 2}),
        (GRANTED, {"ledger_digest": None}),
    ],
)
def test_an_event_that_could_not_follow_is_found_where_it_stands(world, cursor, fields):
    forge(world, cursor, **fields)
    found = findings(world)
    assert cursor in {place for _, place in found}
    assert {code for code, place in found if place == cursor} & {"ILLEGAL_TRANSITION", "JOURNAL_CORRUPT"}


@pytest.mark.parametrize(
    ("which", "place", "value"),
    [
        ("grant", 0, 1),  # it stands again
        ("grant", 3, GRANTED),  # its newest event is the grant
        (AUTHORITY, 2, 0),  # nothing was ever void
        (AUTHORITY, 2, RAISED),
        (AUTHORITY, 3, ENABLED - 1),  # nothing changed of late
        (OPT_IN, 0, 2),
    ],
)
def test_a_row_that_no_event_leads_to_is_found(world, which, place, value):
    edit_row(world, subjects(world)[0] if which == "grant" else which, place, value)
    assert {code for code, _ in findings(world)} == {"JOURNAL_CORRUPT"}


def test_a_row_of_a_grant_that_nobody_gave_is_found(world):
    row = msgspec.msgpack.encode([1, GRANTED, 0, GRANTED, None, None, None])
    change(world, lambda opened: opened.put_row(b"subject", (GRANT_PREFIX + 64 * "a").encode(), row))
    assert {code for code, _ in findings(world)} == {"JOURNAL_CORRUPT"}


def test_a_grant_of_which_another_is_said_is_found(world):
    """Both are sound, but the chain was forged so that one stands for the other: its ledger does not open for it."""
    one, other, *_ = subjects(world)
    assert one != other
    forge(world, ANOTHER, subject=one, from_state=1, to_state=1)
    assert ANOTHER in {place for _, place in findings(world)}


def test_a_sealed_ledger_that_is_about_another_grant_is_found(tmp_path, monkeypatch):
    world = World(tmp_path / "store")
    orders = Orders(world.engine(), SCOPE, "min")
    row = orders._row

    def astray(view, principal, tool):
        return row(view, principal, GET)

    monkeypatch.setattr(orders, "_row", astray)
    orders.grant(ONE, [SEARCH])
    world.close()
    assert findings(world) == [("UNAUTHORIZED", 1)]

"""What the journal says of authority: within the host file, to the very instant, for other processes, of one scope."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from journal.authority import AUTHORITY, GRANT_PREFIX
from journal.errors import AuthorizationExpired, AuthorizationRevoked, InvalidSchema, JournalCorrupt, Unauthorized
from journal.events import Actor, Draft, EventType
from journal.indexes import Table
from journal.store.lmdb import tables
from journal.store.lmdb.indexcheck import rebuild_indexes
from replay.asof import PastJournal
from tests.tools.memory.world import NOW, OTHER, PURPOSE, SCOPE, Caller, World, capture_arguments
from tools.host.capabilities import ALL_TOOLS, CAPTURE, GET, SAVE_MESSAGE, SEARCH
from tools.host.conversation import ConversationBinding
from tools.memory.authority_orders import Orders, known_grants
from tools.server.service import UnknownTool

ONE, TWO = "principal:one", "principal:two"


def orders(agent: Caller, scope: Any = SCOPE, **more: Any) -> Orders:
    return Orders(agent.engine, scope, "tests", **more)


def asked(agent: Caller) -> dict[str, Any]:
    return {"query": "하나", "purpose_ref": PURPOSE}


@pytest.fixture
def governed(world: World) -> Caller:
    """An agent whose tools are granted by events alone."""
    return world.caller(by_events=True)


# --- the host file and the events ------------------------------------------------------------------


def test_without_an_event_the_host_file_alone_grants(agent):
    assert agent.service.listed_tools() == ALL_TOOLS
    assert agent.code(SEARCH, asked(agent)) == "ok"
    assert agent.head == 0


def test_where_events_grant_nothing_is_granted_without_one(governed):
    assert governed.service.listed_tools() == ()
    with pytest.raises(UnknownTool):
        governed.call(SEARCH, asked(governed))
    with pytest.raises(Unauthorized):
        governed.engine.authority.permitted(governed.engine.binding, SEARCH, NOW)
    orders(governed).grant(ONE, [SEARCH, CAPTURE])
    assert governed.service.listed_tools() == (SEARCH, CAPTURE)
    assert governed.code(SEARCH, asked(governed)) == "ok"
    with pytest.raises(UnknownTool):
        governed.call(GET, {"record_id": "mem_" + 52 * "a", "purpose_ref": PURPOSE})


@pytest.mark.parametrize("by_events", [False, True])
def test_no_event_grants_what_the_host_file_does_not(world, by_events):
    agent = world.caller(by_events=by_events, granted=frozenset({GET}))
    orders(agent).grant(ONE, ALL_TOOLS)
    assert agent.service.listed_tools() == (GET,)
    asleep = world.caller(by_events=by_events, enabled=False)
    assert asleep.service.listed_tools() == ()


def test_what_is_revoked_is_gone_until_it_is_granted_again(agent):
    orders(agent).revoke(ONE, [SEARCH], by_file=ALL_TOOLS)
    assert agent.service.listed_tools() == tuple(tool for tool in ALL_TOOLS if tool != SEARCH)
    with pytest.raises(UnknownTool):
        agent.call(SEARCH, asked(agent))
    with pytest.raises(AuthorizationRevoked):
        agent.engine.authority.permitted(agent.engine.binding, SEARCH, NOW)
    orders(agent).grant(ONE, [SEARCH])
    assert agent.code(SEARCH, asked(agent)) == "ok"


def test_a_grant_ends_at_the_very_instant(governed, world):
    orders(governed).grant(ONE, [SEARCH], expires_at=NOW + 1_000)
    world.clock.set(NOW + 999)
    assert governed.code(SEARCH, asked(governed)) == "ok"
    world.clock.set(NOW + 1_000)
    assert governed.service.listed_tools() == ()
    with pytest.raises(UnknownTool):
        governed.call(SEARCH, asked(governed))
    with pytest.raises(AuthorizationExpired):
        governed.engine.authority.permitted(governed.engine.binding, SEARCH, NOW + 1_000)


@pytest.mark.parametrize(("tool", "arguments"), [
    (SEARCH, {"query": "하나", "purpose_ref": PURPOSE}),
    (CAPTURE, capture_arguments("하나")),
    (SAVE_MESSAGE, {"message": "하나", "role": "user"}),
])  # fmt: skip
def test_a_grant_that_ends_during_the_call_is_seen_before_its_effect(governed, world, monkeypatch, tool, arguments):
    orders(governed).grant(ONE, [tool], expires_at=NOW + 1_000)
    permitted = governed.engine.authority.permitted

    def late(*given: Any) -> int:
        epoch = permitted(*given)
        world.clock.set(NOW + 1_000)
        return epoch

    monkeypatch.setattr(governed.engine.authority, "permitted", late)
    assert governed.code(tool, arguments) == "AUTHORIZATION_EXPIRED"
    assert governed.head == 1


def test_an_end_that_has_come_is_no_end_of_a_grant(agent):
    for expires_at in (NOW, NOW - 1):
        with pytest.raises(InvalidSchema):
            orders(agent).grant(ONE, [SEARCH], expires_at=expires_at)
    assert agent.head == 0


def test_an_order_that_finds_everything_so_writes_nothing(agent):
    assert len(orders(agent).grant(ONE, [SEARCH, GET], expires_at=NOW + 5)) == 2
    assert orders(agent).grant(ONE, [SEARCH, GET], expires_at=NOW + 5) == []
    assert len(orders(agent).grant(ONE, [SEARCH])) == 1, "another end is another grant"
    assert len(orders(agent).revoke(ONE, [SEARCH])) == 1
    assert orders(agent).revoke(ONE, [SEARCH], by_file=ALL_TOOLS) == []
    assert orders(agent).revoke(TWO, [SEARCH]) == [], "nothing grants it"
    assert orders(agent).opt(enabled=True) is None
    assert orders(agent).opt(enabled=False) is not None
    assert orders(agent).opt(enabled=False) is None
    assert agent.head == 5


def test_a_tenant_that_opted_out_has_no_tools_at_all(agent):
    orders(agent).opt(enabled=False)
    assert agent.service.listed_tools() == ()
    orders(agent).opt(enabled=True)
    assert agent.service.listed_tools() == ALL_TOOLS


def test_only_what_takes_away_raises_the_epoch(agent):
    epoch = agent.engine.authority.epoch
    orders(agent).grant(ONE, [SEARCH])
    orders(agent).opt(enabled=False)
    assert epoch(SCOPE) == 2
    orders(agent).opt(enabled=True)
    assert epoch(SCOPE) == 2
    orders(agent).revoke(ONE, [SEARCH, GET], by_file=[GET])
    assert epoch(SCOPE) == 5
    orders(agent).raise_epoch()
    assert epoch(SCOPE) == 6


# --- scopes and processes --------------------------------------------------------------------------


def test_authority_is_of_one_scope(world, agent):
    other = world.caller(OTHER)
    orders(agent).revoke(ONE, ALL_TOOLS, by_file=ALL_TOOLS)
    orders(agent).opt(enabled=False)
    assert agent.service.listed_tools() == ()
    assert other.service.listed_tools() == ALL_TOOLS
    assert other.head == 0
    assert other.engine.authority.epoch(OTHER) == 0
    assert known_grants(world.journal, OTHER) == []


def test_the_same_grant_of_two_scopes_shares_no_id(world, agent):
    for scope in (SCOPE, OTHER):
        orders(agent, scope).grant(ONE, [SEARCH])
    subjects = [world.journal.store.read(scope, 0, 1)[0].header.subject for scope in (SCOPE, OTHER)]
    assert subjects[0] != subjects[1]


def test_a_conversation_elsewhere_is_granted_elsewhere(world):
    agent = world.caller(by_events=True, conversation=ConversationBinding.of(OTHER, ONE))
    orders(agent).grant(ONE, ALL_TOOLS)
    assert SAVE_MESSAGE not in agent.service.listed_tools()
    orders(agent, OTHER).grant(ONE, [SAVE_MESSAGE])
    assert agent.service.listed_tools() == (*ALL_TOOLS[:6], SAVE_MESSAGE)
    assert agent.code(SAVE_MESSAGE, {"message": "하나", "role": "user"}) == "ok"


def test_another_process_sees_it_at_its_next_call(world, agent):
    with world.second_process() as other:
        assert other.call(SEARCH, asked(agent))["ok"]
        orders(agent).raise_epoch()
        assert other.call(SEARCH, asked(agent))["ok"]
        orders(agent).opt(enabled=False)
        other.ask(SEARCH, asked(agent))
        with pytest.raises(AssertionError, match="died"):  # it refuses as the server does, outside of any envelope
            other.answer()


def captured_after(agent: Caller, cursor: int) -> list[int]:
    events = agent.engine.journal.store.read(SCOPE, cursor, 10_000)
    return [event.header.cursor for event in events if event.header.type == EventType.CAPTURE]


def test_no_capture_follows_its_revocation_among_many_at_once(world, agent):
    begun = threading.Barrier(5)

    def keep_capturing(number: int) -> set[str]:
        begun.wait()
        codes = set()
        for each in range(40):
            try:
                codes.add(agent.code(CAPTURE, capture_arguments(f"하나 {number} {each}")))
            except UnknownTool:
                return codes
        return codes | {"never refused"}

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(keep_capturing, number) for number in range(4)]
        begun.wait()
        world.journal.store.watch(SCOPE, 8, 30)
        (revoked,) = orders(agent).revoke(ONE, [CAPTURE], by_file=[CAPTURE])
        codes = set().union(*(each.result() for each in running))
    assert codes <= {"ok", "AUTHORIZATION_REVOKED"}
    assert captured_after(agent, revoked.header.cursor) == []
    assert captured_after(agent, 0) != []


def test_no_capture_of_another_process_follows_its_revocation(world, agent):
    with world.second_process() as other:
        for number in range(60):
            other.ask(CAPTURE, capture_arguments(f"둘 {number}"))
        world.journal.store.watch(SCOPE, 5, 30)
        (revoked,) = orders(agent).revoke(ONE, [CAPTURE], by_file=[CAPTURE])
    assert captured_after(agent, revoked.header.cursor) == []
    assert len(captured_after(agent, 0)) == revoked.header.cursor - 1


def test_what_is_undone_under_the_lock_is_not_remembered(world, governed):
    """The cursor of an event that was never committed is another event's later."""
    authority, binding = governed.engine.authority, governed.engine.binding

    def seen_and_undone(view: Any) -> list[Draft]:
        authority.standing(SCOPE, ONE, view)
        raise Unauthorized

    orders(governed).grant(ONE, [SEARCH])
    with pytest.raises(Unauthorized):
        world.journal.commit(SCOPE, seen_and_undone)
    assert authority._remembered == {}
    assert authority.listed(binding, NOW) == (SEARCH,)
    assert authority._remembered.keys() == {(SCOPE.tag, ONE)}
    orders(governed).revoke(ONE, [SEARCH])
    assert authority.listed(binding, NOW) == ()


# --- against a plain model -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("by_events", [False, True])
def test_a_random_history_is_what_a_plain_model_says(world, seed, by_events):
    source, now = random.Random(seed), NOW
    agents = {name: world.caller(principal=name, by_events=by_events) for name in (ONE, TWO)}
    granted: dict[tuple[str, str], int | None] = {}  # until when
    revoked: set[tuple[str, str]] = set()
    opted_out, epoch = False, 0
    tools = (SEARCH, GET, SAVE_MESSAGE)
    for _ in range(60):
        name, tool = source.choice([ONE, TWO]), source.choice(tools)
        order = orders(agents[ONE])
        match source.randrange(6):
            case 0 | 1:
                end = source.choice([None, now + source.randrange(1, 5_000)])
                order.grant(name, [tool], expires_at=end)
                granted[name, tool] = end
                revoked.discard((name, tool))
            case 2:
                done = order.revoke(name, [tool], by_file=() if by_events else ALL_TOOLS)
                assert bool(done) is ((name, tool) in granted or not (by_events or (name, tool) in revoked))
                if done:
                    granted.pop((name, tool), None)
                    revoked.add((name, tool))
                    epoch = done[-1].header.cursor
            case 3:
                wanted = source.random() < 0.7
                event = order.opt(enabled=wanted)
                assert (event is None) is (opted_out is not wanted)
                opted_out = not wanted
                epoch = event.header.cursor if event is not None and opted_out else epoch
            case 4:
                epoch = order.raise_epoch().header.cursor
            case 5:
                now += source.randrange(2_000)
                world.clock.set(now)
        for principal, agent in agents.items():
            for each in tools:
                key = (principal, each)
                end = granted.get(key)
                may = not opted_out and key not in revoked and (key in granted or not by_events)
                may = may and (key not in granted or end is None or now < end)
                assert (each in agent.service.listed_tools()) is may
            assert agent.engine.authority.epoch(SCOPE) == epoch


def test_a_rebuilt_index_and_a_past_say_the_same(world, agent):
    order = orders(agent)
    order.grant(ONE, [SEARCH, GET], expires_at=NOW + 9)
    order.revoke(ONE, [SEARCH])
    middle = agent.head
    order.opt(enabled=False)
    order.grant(ONE, [SEARCH])
    store = world.journal.store
    assert store.check_indexes(SCOPE, world.journal.keyring.located(SCOPE)) == []
    with store.view(SCOPE) as view:
        before = view.subjects()
    with store.environment.begin(write=True) as txn:
        rebuild_indexes(txn, store.environment.databases, store.sum_key, world.journal.keyring.located)
    with store.view(SCOPE) as view:
        assert view.subjects() == before
    assert agent.service.listed_tools() == ()
    past = PastJournal(world.journal, SCOPE, middle, NOW)
    with past.store.view(SCOPE) as then, store.view(SCOPE) as now:
        assert [row_of(view, AUTHORITY).decided for view in (then, now)] == [middle, middle + 1]
        assert then.subject("tenant_opt_in") is None
        grants = [name for name, _ in now.subjects() if name.startswith(GRANT_PREFIX)]
        assert sorted(row_of(then, name).state for name in grants) == [1, 2]
        assert [row_of(now, name).state for name in grants] == [1, 1]


def row_of(view, name):
    row = view.subject(name)
    assert row is not None
    return row


# --- what is forged --------------------------------------------------------------------------------


def test_a_ledger_of_another_grant_is_seen(world, agent):
    order = orders(agent)
    order.grant(ONE, [SEARCH])
    (event,) = world.journal.store.read(SCOPE, 0, 1)
    journal = world.journal
    event_id = journal.random_event_id(SCOPE)
    said = {"principal": TWO, "tool": SEARCH}
    forged = Draft(
        type=EventType.GRANT, event_id=event_id, actor=Actor("operator:tests"), subject=event.header.subject,
        from_state=1, to_state=1, ledger=journal.seal_ledger(SCOPE, event_id, event.header.subject, said),
    )  # fmt: skip
    journal.commit(SCOPE, lambda view: [forged])
    with pytest.raises(JournalCorrupt):
        agent.engine.authority.permitted(agent.engine.binding, SEARCH, NOW)
    assert agent.code(SEARCH, asked(agent)) == "JOURNAL_CORRUPT", "a fault grants nothing"


@pytest.mark.parametrize("what", ["grant", "epoch"])
def test_a_forged_row_is_found(world, agent, what):
    order = orders(agent)
    order.grant(ONE, [SEARCH])
    order.revoke(ONE, [SEARCH])
    store = world.journal.store
    with store.view(SCOPE) as view:
        names = [name for name, _ in view.subjects()]
    name = next(each for each in names if each.startswith(GRANT_PREFIX)) if what == "grant" else AUTHORITY
    with store.environment.begin(write=True) as txn:
        database, key = store.environment.databases[Table.SUBJECT.value], SCOPE.tag + name.encode()
        raw = bytearray(tables.get(txn, database, key) or b"")
        raw[1 if what == "grant" else 3] = 1  # the state: standing; of authority the epoch: the first event's
        txn.put(key, bytes(raw), db=database)
    found = store.check_indexes(SCOPE, world.journal.keyring.located(SCOPE))
    assert [(finding.table, finding.kind, finding.rows) for finding in found] == [("subject", "wrong", 1)]

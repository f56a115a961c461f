"""An approval counts for less than 300 s, through the real server: 299 s do, 300 and 301 do not. The clock is given."""

from __future__ import annotations

import anyio
import pytest
from mcp.client import Client
from mcp_types import ElicitResult, Implementation

from journal.errors import AuthorizationExpired, GateFailed
from journal.lifecycle import Operation, State
from tests.tools.memory.world import SCOPE, World, forgetting, withdrawal
from tools.host.capabilities import FORGET, WITHDRAW
from tools.host.sections import ConfirmationSection
from tools.memory import approval, maintenance
from tools.memory.maintenance import Order
from tools.memory.service import MemoryService
from tools.server.serve import Handlers, build_server

CLIENT = "believed-client"
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
TOOLS = pytest.mark.parametrize("tool", [WITHDRAW, FORGET])
AGES = pytest.mark.parametrize(("seconds", "counts"), [(299, True), (300, False), (301, False)])  # 300: it is over
DONE = {WITHDRAW: State.WITHDRAWN, FORGET: State.TOMBSTONED}
STILL = {WITHDRAW: State.PENDING, FORGET: State.ACCEPTED_CURRENT}
APPROVE = ElicitResult(action="accept", content={"decision": "approve"})


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


def target_of(agent, tool):
    """Capture something, admit it where it is to be forgotten, and return (candidate id, the call's arguments)."""
    candidate_id = agent.capture("To be put away.")
    if tool == WITHDRAW:
        return candidate_id, withdrawal(candidate_id)
    return candidate_id, forgetting(agent.admit(candidate_id)["record_id"])


def called(agent, era, tool, arguments, answer=None):
    """Make one call through the server, and return its document; ``answer`` answers a form."""

    async def form(_context, _params):
        assert answer is not None
        return answer()

    async def scenario():
        handlers = Handlers(MemoryService(agent.engine))
        shows = None if answer is None else form
        info = Implementation(name=CLIENT, version="1")
        server = build_server(handlers, "9.9")
        async with Client(server, mode=era, client_info=info, elicitation_callback=shows) as client:
            document = (await client.call_tool(tool, arguments)).structured_content
        handlers.close()
        return document

    return anyio.run(scenario)


def ends(agent):
    return [kind for kind, _ in agent.events() if kind in ("confirmation_approved", "confirmation_expired")]


@AGES
@TOOLS
@ERAS
def test_approved_at_the_console(world, era, tool, seconds, counts):
    agent = world.caller()
    candidate_id, arguments = target_of(agent, tool)
    assert called(agent, era, tool, arguments)["error"]["code"] == "gate_failed"
    (request,) = agent.requests()
    world.clock.advance(seconds=seconds)
    if counts:
        approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")
    else:
        with pytest.raises(GateFailed):
            approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")
    assert agent.state(candidate_id) is (DONE if counts else STILL)[tool]
    assert ends(agent) == ["confirmation_approved" if counts else "confirmation_expired"]
    document = called(agent, era, tool, arguments)
    assert document["ok"] is counts
    if counts:
        assert document["output"]["value"]["replayed"]
    else:  # the same call asks anew
        assert document["error"]["code"] == "gate_failed"
        assert [each.confirmation_id for each in agent.requests()] != [request.confirmation_id]


@AGES
@TOOLS
@ERAS
def test_approved_by_a_form(world, era, tool, seconds, counts):
    section = ConfirmationSection(channels=("elicitation",), trusted_clients=(CLIENT,), wait_seconds=60)
    agent = world.caller(confirmation=section)
    candidate_id, arguments = target_of(agent, tool)
    shown = []

    def answer():
        shown.append(agent.head)
        world.clock.advance(seconds=seconds)
        return APPROVE

    document = called(agent, era, tool, arguments, answer)
    assert len(shown) == 1
    assert document["ok"] is counts, document
    assert agent.state(candidate_id) is (DONE if counts else STILL)[tool]
    if counts:
        assert ends(agent) == ["confirmation_approved"]
    else:
        assert document["error"]["code"] == "gate_failed"
        assert "confirmation_approved" not in ends(agent)
        assert agent.requests() == []


@AGES
def test_a_supersede_is_the_operators_and_asks_nobody_but_its_authority_ends_alike(world, monkeypatch, seconds, counts):
    """No agent has it and no request waits for it: the order itself is the approval, and is looked at in the commit."""
    agent = world.caller()
    old, new = (agent.capture(text) for text in ("The old one.", "The new one."))
    for candidate_id in (old, new):
        agent.admit(candidate_id)
    commit = agent.engine.journal.commit

    def late(*given, **how):
        world.clock.advance(seconds=seconds)
        return commit(*given, **how)

    monkeypatch.setattr(agent.engine.journal, "commit", late)
    order = Order(operation=Operation.SUPERSEDE, candidate_id=old, successor_id=new)
    before = agent.head
    if counts:
        maintenance.carry_out(agent.engine, SCOPE, "operator", order)
    else:
        with pytest.raises(AuthorizationExpired):
            maintenance.carry_out(agent.engine, SCOPE, "operator", order)
    assert agent.head == before + counts
    assert agent.state(old) is (State.HISTORICAL if counts else State.ACCEPTED_CURRENT)

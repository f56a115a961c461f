"""Approval by a form that the official client shows, in both protocol eras, against the real server over stdio."""

from __future__ import annotations

import re

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp_types import ElicitResult, Implementation, InputRequiredResult

from tests.tools.cli.desk import command_line, environment, ready
from tests.tools.memory.world import capture_arguments, forgetting
from tools.host.capabilities import CAPTURE, FORGET, SEARCH
from tools.host.file import load_host_file

CLIENT = "believed-client"
MODES = ["legacy", "2026-07-28"]
APPROVE = ElicitResult(action="accept", content={"decision": "approve"})
DENY = ElicitResult(action="accept", content={"decision": "deny"})
UNDECIDED = {
    "decline": ElicitResult(action="decline"),
    "cancel": ElicitResult(action="cancel"),
    "something else": ElicitResult(action="accept", content={"decision": "APPROVE"}),
}


@pytest.fixture
def desk(tmp_path, capsys):
    made = ready(tmp_path, capsys, "--policy", "accept-asserted")
    _configure(made, 'channels = ["console"]', 'channels = ["console", "elicitation"]')
    _configure(made, "trusted_clients = []", f'trusted_clients = ["{CLIENT}"]')
    _configure(made, "notify = true", "notify = false")
    _wait(made, 20)
    return made


def _configure(desk, old, new):
    text = desk.host_file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    desk.host_file.write_text(text.replace(old, new), encoding="utf-8")


def _wait(desk, seconds):
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(re.sub(r"wait_seconds = \d+", f"wait_seconds = {seconds}", text), encoding="utf-8")


def _remembered(desk, *texts):
    with desk.agent() as agent:
        return [agent.remember(text) for text in texts]


class Person:
    """Answers forms, and keeps what they said."""

    def __init__(self, answer):
        self.answer = answer
        self.shown = []

    async def __call__(self, _context, params):
        self.shown.append(params)
        return await self.answer() if callable(self.answer) else self.answer


def _connected(desk, mode, person, scenario, name=CLIENT):
    command, *arguments = command_line("serve", "--config", str(desk.host_file))

    async def run():
        parameters = StdioServerParameters(command=command, args=arguments, env=environment())
        info = Implementation(name=name, version="1")
        async with Client(parameters, mode=mode, elicitation_callback=person, client_info=info) as client:
            return await scenario(client)

    return anyio.run(run)


def _call(desk, mode, person, tool, arguments, **how):
    """Make one call, and return its document."""

    async def scenario(client):
        return (await client.call_tool(tool, arguments)).structured_content

    return _connected(desk, mode, person, scenario, **how)


def _requests(desk):
    return desk.json("confirm", "list")


def _types(desk, record):
    """Return the types of a record's events, but for the steps of forms."""
    told = [chapter["type"] for chapter in desk.json("records", "history", record)]
    return [kind for kind in told if kind != "confirmation_form"]


def _forms(desk, record):
    """Return by whom, and what, each step of a form was; the client and the channel are the same in all of them."""
    steps = [each for each in desk.json("records", "history", record) if each["type"] == "confirmation_form"]
    assert all((step["from_state"], step["to_state"]) == ("open", "open") for step in steps)
    assert all((step["ledger"]["client"], step["ledger"]["channel"]) == (CLIENT, "elicitation") for step in steps)
    return [(step["actor"]["principal"], step["ledger"]["form"]) for step in steps]


SHOWN = ("engram:system", "shown")


@pytest.mark.parametrize("mode", MODES)
def test_approved_by_the_form(desk, mode):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    person = Person(APPROVE)
    document = _call(desk, mode, person, FORGET, forgetting(record))
    assert document["ok"], document
    assert document["output"]["value"]["receipt"]["to_state"] == "tombstoned"
    assert not document["output"]["value"]["replayed"]
    (form,) = person.shown
    for said in (FORGET, record, load_host_file(desk.host_file).host.principal, "open until"):
        assert said in form.message
    assert "ferry" not in form.message
    assert form.requested_schema["required"] == ["decision"]
    told = desk.json("records", "history", record)
    asked, shown, approved, tombstone = told[2:6]
    assert (shown["type"], shown["subject"]) == ("confirmation_form", asked["subject"])
    assert _forms(desk, record) == [SHOWN]
    assert asked["type"] == "confirmation_requested"
    assert (approved["type"], approved["actor"]["principal"]) == ("confirmation_approved", f"client:{CLIENT}")
    assert (approved["ledger"]["channel"], approved["ledger"]["operator"]) == ("elicitation", CLIENT)
    assert approved["ledger"]["operation_digest"] == asked["intent"] == tombstone["intent"]
    assert "channel: elicitation" in desk.ok("records", "history", record).out
    assert desk.json("audit")["ok"]


@pytest.mark.parametrize("mode", MODES)
def test_denied_by_the_form(desk, mode):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    document = _call(desk, mode, Person(DENY), FORGET, forgetting(record))
    assert document["error"]["code"] == "gate_failed"
    assert _requests(desk) == []
    told = desk.json("records", "history", record)
    assert _types(desk, record)[2:] == ["confirmation_requested", "confirmation_denied"]
    assert _forms(desk, record) == [SHOWN]
    assert told[-1]["ledger"] == {"channel": "elicitation", "operator": CLIENT}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", UNDECIDED)
def test_who_did_not_choose_leaves_the_request_open(desk, mode, answer):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    _wait(desk, 1)
    person = Person(UNDECIDED[answer])
    arguments = forgetting(record)
    document = _call(desk, mode, person, FORGET, arguments)
    assert document["error"]["code"] == "gate_failed"
    assert len(person.shown) == 1
    step = {"decline": "declined", "cancel": "cancelled", "something else": "unreadable"}[answer]
    assert _forms(desk, record) == [SHOWN, (f"client:{CLIENT}", step)]
    assert f"a form, {step}: client {CLIENT}" in desk.ok("records", "history", record).out
    assert desk.json("audit")["ok"]
    (request,) = _requests(desk)
    desk.ok("confirm", "approve", request["confirmation_id"])
    assert _types(desk, record)[2:5] == ["confirmation_requested", "confirmation_approved", "tombstone"]


@pytest.mark.parametrize("mode", MODES)
def test_a_form_that_is_answered_after_the_epoch_was_raised_approves_nothing(desk, mode):
    (record,) = _remembered(desk, "The ferry leaves at seven.")

    async def late():
        done = await anyio.to_thread.run_sync(lambda: desk.process("grants", "rotate"))
        assert done.code == 0, done
        return APPROVE

    document = _call(desk, mode, Person(late), FORGET, forgetting(record))
    assert document["error"]["code"] == "AUTHORIZATION_REVOKED"
    assert _types(desk, record)[2:] == ["confirmation_requested", "confirmation_expired"]
    assert desk.json("audit")["ok"]


def test_a_form_that_nobody_answers_in_time_is_taken_back_and_shown_again(desk):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    _wait(desk, 1)

    async def never():
        await anyio.sleep(60)

    arguments = forgetting(record)
    assert _call(desk, "legacy", Person(never), FORGET, arguments)["error"]["code"] == "gate_failed"
    assert _forms(desk, record) == [SHOWN, ("engram:system", "timed_out")]
    assert _call(desk, "legacy", Person(APPROVE), FORGET, arguments)["ok"]
    assert _forms(desk, record) == [SHOWN, ("engram:system", "timed_out"), SHOWN]
    assert desk.json("audit")["ok"]


def test_a_client_that_answers_with_an_error_has_answered_nothing(desk):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    _wait(desk, 1)

    async def failing():
        raise RuntimeError("the text of an exception")

    assert _call(desk, "legacy", Person(failing), FORGET, forgetting(record))["error"]["code"] == "gate_failed"
    assert _forms(desk, record) == [SHOWN, (f"client:{CLIENT}", "unanswered")]


@pytest.mark.parametrize("mode", MODES)
def test_a_form_is_shown_so_often_and_no_more(desk, mode):
    """Each time is an event, and no caller may fill the journal with them."""
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    _wait(desk, 0)
    arguments = forgetting(record)

    async def scenario(client):
        call = client.session.call_tool
        return [await call(FORGET, arguments, allow_input_required=True) for _ in range(10)]

    *_, last = _connected(desk, mode, Person(UNDECIDED["decline"]), scenario)
    assert not isinstance(last, InputRequiredResult)
    assert _forms(desk, record).count(SHOWN) == 8
    assert len(_requests(desk)) == 1
    assert desk.json("audit")["ok"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("first", "late"), [("approve", DENY), ("deny", APPROVE)])
def test_the_console_is_first(desk, mode, first, late):
    """What the form says afterwards changes nothing, and opens no other request."""
    (record,) = _remembered(desk, "The ferry leaves at seven.")

    async def decided_elsewhere():
        listed = await anyio.to_thread.run_sync(desk.process, "confirm", "list", "--json")
        (request,) = listed.json
        ended = await anyio.to_thread.run_sync(desk.process, "confirm", first, request["confirmation_id"])
        assert ended.code == 0, ended
        return late

    person = Person(decided_elsewhere)
    document = _call(desk, mode, person, FORGET, forgetting(record))
    assert document["ok"] is (first == "approve"), document
    assert len(person.shown) == 1
    assert _requests(desk) == []
    types = _types(desk, record)
    assert types.count("confirmation_requested") == 1
    assert ("tombstone" in types) is (first == "approve")


def test_a_form_that_is_no_longer_needed_is_taken_back(desk):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    taken_back = []

    async def decided_elsewhere():
        (request,) = (await anyio.to_thread.run_sync(desk.process, "confirm", "list", "--json")).json
        await anyio.to_thread.run_sync(desk.process, "confirm", "approve", request["confirmation_id"])
        try:
            await anyio.sleep(30)
        except anyio.get_cancelled_exc_class():
            taken_back.append(True)
            raise

    document = _call(desk, "legacy", Person(decided_elsewhere), FORGET, forgetting(record))
    assert document["ok"], document
    assert taken_back


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_goes_away_leaves_the_request_open(desk, mode):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    _wait(desk, 1)

    async def scenario(client):
        async with anyio.create_task_group() as beside:

            async def gone():
                beside.cancel_scope.cancel()
                await anyio.sleep(30)

            client_person.answer = gone
            beside.start_soon(client.call_tool, FORGET, forgetting(record))

    client_person = Person(None)
    _connected(desk, mode, client_person, scenario)
    assert len(client_person.shown) == 1
    assert len(_requests(desk)) == 1
    assert "tombstone" not in _types(desk, record)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_the_host_does_not_name_is_not_asked(desk, mode):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    _wait(desk, 0)
    person = Person(APPROVE)
    document = _call(desk, mode, person, FORGET, forgetting(record), name="another-client")
    assert document["error"]["code"] == "gate_failed"
    assert person.shown == []
    assert len(_requests(desk)) == 1


@pytest.mark.parametrize("mode", MODES)
def test_off_unless_the_host_says_so(tmp_path, capsys, mode):
    desk = ready(tmp_path, capsys, "--policy", "accept-asserted")
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    person = Person(APPROVE)
    assert _call(desk, mode, person, FORGET, forgetting(record))["error"]["code"] == "gate_failed"
    assert person.shown == []


@pytest.mark.parametrize("mode", MODES)
def test_without_the_console_a_client_that_shows_no_forms_is_refused(desk, mode):
    (record,) = _remembered(desk, "The ferry leaves at seven.")
    _configure(desk, '["console", "elicitation"]', '["elicitation"]')
    assert _call(desk, mode, None, FORGET, forgetting(record))["error"]["code"] == "gate_failed"
    assert _requests(desk) == []
    assert _call(desk, mode, Person(APPROVE), FORGET, forgetting(record))["ok"]


@pytest.mark.parametrize("mode", MODES)
def test_a_capture_that_the_host_wants_confirmed_and_reads_that_it_does_not(desk, mode):
    _configure(desk, "require = []", 'require = ["capture"]')
    person = Person(APPROVE)

    async def scenario(client):
        captured = await client.call_tool(CAPTURE, capture_arguments("The ferry leaves at seven."))
        found = await client.call_tool(SEARCH, {"query": "ferry", "purpose_ref": "purpose:work"})
        return captured.structured_content, found.structured_content

    captured, found = _connected(desk, mode, person, scenario)
    assert captured["output"]["value"]["status"] == "committed_pending"
    assert found["ok"]
    assert len(person.shown) == 1
    assert "ferry" not in person.shown[0].message


def test_an_answer_counts_for_its_own_request_alone(desk):
    """Since 2026-07-28 an answer comes with another call: one to another request has that request's own form shown."""
    first, second = _remembered(desk, "One.", "Two.")
    wanted, other = forgetting(first), forgetting(second)

    async def scenario(client):
        call = client.session.call_tool
        asked = await call(FORGET, wanted, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        again = await call(
            FORGET, other, allow_input_required=True, request_state=asked.request_state,
            input_responses={"confirmation": APPROVE},
        )  # fmt: skip
        assert isinstance(again, InputRequiredResult)
        assert again.request_state != asked.request_state
        bare = await call(FORGET, wanted, allow_input_required=True, input_responses={"confirmation": APPROVE})
        assert isinstance(bare, InputRequiredResult)
        made_up = await call(
            FORGET, wanted, allow_input_required=True, request_state="confirmation_" + 32 * "0",
            input_responses={"confirmation": APPROVE},
        )  # fmt: skip
        assert isinstance(made_up, InputRequiredResult)
        answered = {"request_state": asked.request_state, "input_responses": {"confirmation": APPROVE}}
        done = await call(FORGET, wanted, allow_input_required=True, **answered)
        assert done.structured_content["ok"]
        replayed = await call(FORGET, wanted, allow_input_required=True, **answered)
        assert replayed.structured_content["output"]["value"]["replayed"]
        return again.request_state

    left = _connected(desk, "2026-07-28", Person(APPROVE), scenario)
    assert [request["confirmation_id"] for request in _requests(desk)] == [left]
    assert _types(desk, first).count("confirmation_approved") == 1

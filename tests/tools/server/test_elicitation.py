"""Forms: who shows them, and which answers decide something."""

from __future__ import annotations

import pytest
from mcp_types import (
    CallToolRequestParams,
    ClientCapabilities,
    ElicitationCapability,
    ElicitResult,
    FormElicitationCapability,
    UrlElicitationCapability,
)

from tools.server.elicitation import FORM, AskingBetween, input_required, shows_forms
from tools.server.service import Form, FormAnswer, FormNeeded

REQUEST = "confirmation_" + 32 * "a"
ASKED = Form(REQUEST, "Approve it?")


@pytest.mark.parametrize(
    ("capabilities", "shows"),
    [
        (None, False),
        (ClientCapabilities(), False),
        (ClientCapabilities(elicitation=ElicitationCapability()), True),  # before there were two ways
        (ClientCapabilities(elicitation=ElicitationCapability(form=FormElicitationCapability())), True),
        (ClientCapabilities(elicitation=ElicitationCapability(url=UrlElicitationCapability())), False),
    ],
)
def test_who_shows_forms(capabilities, shows):
    assert shows_forms(capabilities) is shows


def _asking(answer, state=REQUEST):
    responses = None if answer is None else {"confirmation": answer}
    return AskingBetween(CallToolRequestParams(name="tool", input_responses=responses, request_state=state))


@pytest.mark.parametrize(
    ("action", "content", "answer"),
    [
        ("accept", {"decision": "approve"}, FormAnswer.APPROVED),
        ("accept", {"decision": "deny"}, FormAnswer.DENIED),
        ("accept", {"decision": "approve", "more": "x"}, FormAnswer.APPROVED),
        ("accept", {"decision": "Approve"}, FormAnswer.UNREADABLE),
        ("accept", {"decision": True}, FormAnswer.UNREADABLE),
        ("accept", {"decision": ["approve"]}, FormAnswer.UNREADABLE),
        ("accept", {}, FormAnswer.UNREADABLE),
        ("accept", None, FormAnswer.UNREADABLE),
        ("decline", {"decision": "approve"}, FormAnswer.DECLINED),
        ("cancel", {"decision": "approve"}, FormAnswer.CANCELLED),
    ],
)
def test_which_answers_decide(action, content, answer):
    asking = _asking(ElicitResult(action=action, content=content))
    assert asking.answers == REQUEST
    asking.ask(ASKED)
    assert asking.answer() is answer
    assert answer.decides is (answer in (FormAnswer.APPROVED, FormAnswer.DENIED))
    assert asking.answer() is None  # once


@pytest.mark.parametrize("state", [None, "", "confirmation_" + 32 * "b", REQUEST.upper()])
def test_an_answer_to_something_else_has_the_form_shown(state):
    asking = _asking(ElicitResult(action="accept", content={"decision": "approve"}), state)
    with pytest.raises(FormNeeded) as needed:
        asking.ask(ASKED)
    assert needed.value.form is ASKED
    assert asking.answer() is None


def test_a_state_without_an_answer_is_no_answer():
    asking = _asking(None)
    assert asking.answers is None
    with pytest.raises(FormNeeded):
        asking.ask(ASKED)


def test_an_answer_serves_once():
    asking = _asking(ElicitResult(action="accept", content={"decision": "approve"}))
    asking.ask(ASKED)
    with pytest.raises(FormNeeded):
        asking.ask(ASKED)


def test_the_form_is_plain():
    """Top-level properties of primitive types alone, which every client renders; and no default."""
    shown = input_required(ASKED).model_dump(by_alias=True, exclude_none=True)
    assert shown["requestState"] == REQUEST
    params = shown["inputRequests"]["confirmation"]["params"]
    assert params["message"] == ASKED.message
    assert params["requestedSchema"] == FORM
    assert set(FORM["properties"]["decision"]) == {"type", "title", "description", "enum"}

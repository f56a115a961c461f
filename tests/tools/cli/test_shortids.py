"""The beginning of an id stands for the id, where no other one begins so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from journal.store.port import View
from tests.tools.cli.talking import say
from tests.tools.memory.world import forgetting
from tools.cli.failures import Refused
from tools.cli.shortids import CANDIDATE, CONFIRMATION, RECORD, shortened, whole
from tools.host.capabilities import FORGET


def view(*ids: str, records: tuple[str, ...] = ()) -> View:
    """Return a view of a scope with these subjects."""
    rows = [(name, SimpleNamespace(record_id=None)) for name in ids]
    rows += [(f"candidate_of_{name}", SimpleNamespace(record_id=name)) for name in records]
    return cast("View", SimpleNamespace(subjects=lambda: rows))


FIRST, SECOND = "candidate_" + "a" * 64, "candidate_" + "a" * 11 + "b" * 53
RECORD_ID = "mem_" + "c" * 52


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (FIRST, FIRST),
        (FIRST[:-1], FIRST),
        (SECOND[:22], SECOND),
        (SECOND[:22] + "…", SECOND),
        (RECORD_ID[:8], RECORD_ID),
        (SECOND.removeprefix("candidate_")[:12], SECOND),
        (SECOND.removeprefix("candidate_")[:12] + "…", SECOND),
        (RECORD_ID.removeprefix("mem_"), RECORD_ID),
        ("cccc", RECORD_ID),
        ("ffff", "ffff"),
        ("words", "words"),
        ("candidate_ffff", "candidate_ffff"),
        ("confirmation_0", "confirmation_0"),  # no kind of this command
    ],
)
def test_what_is_meant(given, meant):
    assert whole(view(FIRST, SECOND, "confirmation_00", records=(RECORD_ID,)), given, CANDIDATE, RECORD) == meant


@pytest.mark.parametrize("given", ["candidate_", "candidate_aaa", "mem_ccc", "aaa", "", "…", "candidate_aaa…"])
def test_a_beginning_that_is_too_short_is_said_to_be_so(given):
    with pytest.raises(Refused, match="too short: give at least 4 characters"):
        whole(view(FIRST, SECOND, records=(RECORD_ID,)), given, CANDIDATE, RECORD)


def test_a_bare_beginning_that_several_have_is_refused():
    with pytest.raises(Refused, match=r"2 ids begin so: candidate_a.*, candidate_a"):
        whole(view(FIRST, SECOND), "aaaaa", CANDIDATE, RECORD)
    with pytest.raises(Refused, match=r"2 ids begin so: candidate_cccc.*, mem_cccc"):
        whole(view("candidate_" + "c" * 64, records=(RECORD_ID,)), "cccc", CANDIDATE, RECORD)


def test_an_ambiguous_one_is_refused_with_those_that_begin_so():
    with pytest.raises(Refused) as refused:
        whole(view(FIRST, SECOND), FIRST[:15], CANDIDATE)
    assert FIRST in str(refused.value)
    assert SECOND in str(refused.value)
    many = [f"candidate_aa{number:062}" for number in range(9)]
    with pytest.raises(Refused, match=r"9 ids begin so: .* and 4 more"):
        whole(view(*many), "candidate_aa00", CANDIDATE)


def test_an_id_that_is_the_beginning_of_another_is_itself():
    assert whole(view(FIRST, FIRST + "0"), FIRST, CANDIDATE) == FIRST


def test_the_shown_beginning_can_be_typed():
    assert shortened(FIRST) == "candidate_aaaaaaaaaa…"
    assert whole(view(FIRST, "candidate_" + "b" * 64), shortened(FIRST), CANDIDATE) == FIRST
    assert shortened("short") == "short"
    assert whole(view("confirmation_" + "0" * 32), "confirmation_0000", CONFIRMATION) == "confirmation_" + "0" * 32


def test_a_bare_beginning_is_taken_by_commands_and_a_short_one_is_explained(desk):
    (message,) = say(desk, "one")
    digits = message.removeprefix("message_")
    assert desk.json("messages", "show", digits[:8])["id"] == message
    assert desk.json("messages", "pin", digits)["id"] == message
    for short in (message[:11], digits[:3]):
        ended = desk.run("messages", "show", short)
        assert (ended.code, ended.out) == (1, "")
        assert "too short: give at least 4 characters of it after message_" in ended.err


def test_every_command_that_takes_an_id_takes_its_beginning(open_desk):
    accepted, rejected = open_desk.captured("One.", "Two.")
    assert open_desk.json("candidates", "show", accepted[:14])["candidate_id"] == accepted
    record = open_desk.json("candidates", "accept", accepted[:14])["record_id"]
    assert open_desk.json("candidates", "reject", rejected[:14])["candidate_id"] == rejected
    assert open_desk.json("records", "show", record[:12])["record_id"] == record
    assert open_desk.json("records", "history", record[:12]) == open_desk.json("records", "history", accepted)
    with open_desk.agent() as agent:
        assert agent.code(FORGET, forgetting(record)) == "gate_failed"
        assert agent.code(FORGET, forgetting(agent.remember("Three."))) == "gate_failed"
    first, second = [request["confirmation_id"] for request in open_desk.json("confirm", "list")]
    assert open_desk.json("confirm", "approve", first[:25])["confirmation_id"] == first
    assert open_desk.json("confirm", "deny", second[:25])["confirmation_id"] == second

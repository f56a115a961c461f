"""A day of a team over HTTP: every denial right, and nothing of one scope in another's answers, counts or log."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.team.cast import ANNA, BEN, DORA, EMIL, HOST_PRINCIPAL, MARKERS, PLACES, TEAM
from tests.team.day import Day, lived, printed
from tests.team.model import foreign_markers
from tools.host.capabilities import ALL_TOOLS

MEMORY = Path("/dev/shm")  # noqa: S108 - the day makes a directory of its own there
CALLS = int(os.environ.get("ENGRAM_TEAM_CALLS", "2000"))
SEED = int(os.environ.get("ENGRAM_TEAM_SEED", "1"))


@pytest.fixture(scope="module")
def day() -> Iterator[Day]:
    """The day, lived once. It is told by what it left, and no test changes that."""
    with tempfile.TemporaryDirectory(prefix="engram-team-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as made:
        yield lived(Path(made), CALLS, SEED)


def test_every_answer_is_the_one_that_the_contract_gives(day):
    assert day.wrong == []
    assert len(day.answers) >= CALLS
    codes = day.verdicts()
    for code in (
        "ok", "-32602", "-32603", "INVALID_SCHEMA", "NOT_FOUND", "DIGEST_CONFLICT", "gate_failed", "ILLEGAL_TRANSITION",
    ):  # fmt: skip
        assert codes[code] > CALLS // 400, (code, codes)


def test_each_one_sees_the_tools_that_are_granted_and_no_other(day):
    assert day.listed == {person.name: sorted(person.listed) for person in TEAM}


def test_nothing_of_another_scope_is_in_any_answer(day):
    hidden = {place: day.model.ids_of(place) for place in PLACES}
    for answer in day.answers:
        place = answer.person.place
        shown = [word for word in foreign_markers(place) if word in answer.text]
        shown += [name for other in PLACES if other != place for name in hidden[other] if name in answer.text]
        assert shown == [], (answer.person.name, answer.tool)


def test_a_conversation_is_one_principals_alone(day):
    for answer in day.answers:
        others = [
            said.message_id
            for said in day.model.said
            if said.principal != answer.person.name and said.message_id in answer.text
        ]
        assert others == [], (answer.person.name, answer.tool)


def test_the_log_holds_no_word_no_id_and_no_token(day):
    text = str(day.log)
    assert [word for word in MARKERS.values() if word in text] == []
    assert "day-key-of-lane" not in text
    assert [secret for secret in day.secrets if secret in text or secret.split(".")[1] in text] == []
    assert [name for place in PLACES for name in day.model.ids_of(place) if name in text] == []
    assert {line["event"] for line in day.log if line.get("level") == "warning"} == set()
    assert day.exit_code == 0


def test_who_is_not_of_the_team_is_not_let_in(day):
    assert day.statuses == {
        "no token": 401, "another tenant's": 403, "nobody's": 403, "another issuer's": 401,
    }  # fmt: skip


def test_the_figures_of_each_scope_are_the_models(day):
    figures = {(each["tenant_id"], each["workspace_id"]): each for each in printed(day, "stats", "--all")["scopes"]}
    for place in PLACES:
        wanted = day.model.counts(place)
        if not any(map(any, (counts.values() for counts in wanted.values()))):
            assert place not in figures
            continue
        said = figures[place]
        for name in ("candidates", "records", "messages"):
            assert {state: n for state, n in said[name].items() if n} == dict(wanted[name]), (place, name)
        assert said["confirmations"].get("open", 0) == wanted["open"]["open"], place


def test_what_waited_for_a_person_was_decided_by_one(day):
    assert day.waited > 20
    scopes = printed(day, "stats", "--all")["scopes"]
    decided = {(each["tenant_id"], each["workspace_id"]): each["confirmations"] for each in scopes}
    assert [decided[person.place]["approved"] for person in (ANNA, DORA, EMIL)] == [3, 2, 1]  # one of each tool
    assert min(decided[person.place]["denied"] for person in (ANNA, DORA, EMIL)) > 0


def test_the_audit_finds_nothing_and_explains_each_event(day):
    report = printed(day, "audit", "--authority")
    assert report["ok"]
    granted = {person.name: set(person.granted) for person in TEAM} | {HOST_PRINCIPAL: set(ALL_TOOLS)}
    homes = {person.name: person.place for person in TEAM} | {HOST_PRINCIPAL: BEN.place}
    heads = {(each["tenant_id"], each["workspace_id"]): each["events"] for each in report["scopes"]}
    for scope in report["authority"]:
        place = scope["tenant_id"], scope["workspace_id"]
        assert len(scope["events"]) == heads[place]
        for event in scope["events"]:
            assert event["amiss"] == [], event
            if event["hand"] != "agent":
                assert event["principal"].startswith(("operator:", "engram:")), event
                continue
            assert event["operation"] in granted[event["principal"]], event
            assert homes[event["principal"]] == place, event
            assert event["basis"] == "host_file"
            if event["type"] in ("withdraw", "tombstone", "message_erased"):
                assert event["confirmation"]["approved_by"].startswith("operator:")
                assert event["confirmation"]["channel"] == "console"
            if event["type"] in ("accept", "withdraw", "tombstone"):
                assert event["authorization_receipt_digest"].startswith("sha256:")

"""A day of a team over HTTP: every denial right, and nothing of one scope in another's answers, counts or log."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs import again, number_of, repeatable, seed
from tests.team.answers import Day, printed
from tests.team.cast import ANNA, BEN, CLEO, DORA, EMIL, HOST_PRINCIPAL, MARKERS, PLACES, TEAM
from tests.team.day import lived
from tests.team.model import foreign_markers
from tools.host.capabilities import ALL_TOOLS

MEMORY = Path("/dev/shm")  # noqa: S108 - the day makes a directory of its own there
CALLS = int(os.environ.get("ENGRAM_TEAM_CALLS", "2000"))
pytestmark = pytest.mark.timeout(1_800 if CALLS > 2_000 else 600)  # whoever comes first lives the day
SEED = seed("1")


@pytest.fixture(scope="module", params=["as the host file grants", "as grants come and go"])
def day(request: pytest.FixtureRequest) -> Iterator[Day]:
    """The day, lived once. It is told by what it left, and no test changes that."""
    by_events = request.param == "as grants come and go"
    with tempfile.TemporaryDirectory(prefix="engram-team-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as made:
        yield lived(Path(made), CALLS // 4 if by_events else CALLS, number_of(SEED), by_events=by_events)


def test_every_answer_is_the_one_that_the_contract_gives(day, tell):
    codes = ", ".join(f"{code} {count:,}" for code, count in sorted(day.verdicts().items()))
    tell(f"{len(day.answers):,} answers, {len(day.wrong)} of them wrong: {codes}\n{again('team', SEED, CALLS=CALLS)}")
    with repeatable("team", SEED, CALLS=CALLS):
        assert day.wrong == []
    assert len(day.answers) >= day.calls
    codes = day.verdicts()
    for code in (
        "ok", "-32602", "-32603", "INVALID_SCHEMA", "NOT_FOUND", "DIGEST_CONFLICT", "gate_failed", "ILLEGAL_TRANSITION",
    ):  # fmt: skip
        assert codes[code] > 0, codes


def test_each_one_sees_the_tools_that_are_granted_and_no_other(day):
    assert day.listed == {person.name: day.model.listed(person) for person in TEAM}


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
        # What is void stays open until it is asked for again or its time is over.
        waits = wanted["open"]["open"]
        assert waits <= said["confirmations"].get("open", 0) <= waits + day.void[place], place
        if day.by_events:
            people = [person for person in TEAM if person.place == place]
            revoked = sum(person.name == name for person in people for name, _ in day.model.taken)
            standing = sum(len(person.listed) for person in people) - revoked
            assert said["grants"] == {"standing": standing, "revoked": revoked}


def test_what_waited_for_a_person_was_decided_by_one(day):
    assert day.waited + day.void.total() >= 10
    assert day.by_events == bool(day.void), "what waited was void where the epoch was raised, and nowhere else"
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
            is_granted = day.by_events and event["principal"] != HOST_PRINCIPAL
            assert event["basis"] == ("grant" if is_granted else "host_file"), event
            assert not is_granted or int(event["grant_cursor"]) < int(event["cursor"])
            if event["type"] in ("withdraw", "tombstone", "message_erased"):
                assert event["confirmation"]["approved_by"].startswith("operator:")
                assert event["confirmation"]["channel"] == "console"
            if event["type"] in ("accept", "withdraw", "tombstone"):
                assert event["authorization_receipt_digest"].startswith("sha256:")


def test_authority_that_changed_meanwhile_was_seen(day):
    codes = day.verdicts()
    if not day.by_events:
        assert (day.unsteady, codes["AUTHORIZATION_REVOKED"]) == (0, 0)
        return
    assert day.unsteady > 0
    scopes = printed(day, "stats", "--all")["scopes"]
    events = {(each["tenant_id"], each["workspace_id"]): each["events"] for each in scopes}
    for place in (CLEO.place, DORA.place, EMIL.place):
        kinds = events[place]["by_type"]
        assert kinds["grant"] > 1, place
        assert kinds.get("grant_revoked", 0) + kinds.get("epoch", 0) + kinds.get("tenant_disabled", 0) > 0, place

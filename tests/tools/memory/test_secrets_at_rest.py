"""A candidate that holds a secret is rejected under every policy, and no file and no log line ever holds the secret."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from journal.lifecycle import State
from tests.tools.host.planted import Maker, connection_strings, private_keys, vendor_tokens
from tests.tools.memory.world import (
    SCOPE,
    Caller,
    World,
    capture_arguments,
    changed,
    key,
)
from tools.host import confirmation
from tools.host.capabilities import CAPTURE, REQUEST_ADMISSION
from tools.host.policies.port import PolicyRequest
from tools.host.sections import ConfirmationSection


def secrets() -> dict[str, tuple[str, str]]:
    """Return planted texts by kind, each with the part of it that nobody may find again."""
    make = Maker(11)
    pem = private_keys(make)["pkcs8"]
    token = vendor_tokens(make)["github classic"]
    word = make.draw(24)
    connection = connection_strings(make)["redis"]
    return {
        "private key": (f"The deploy key is\n{pem}\nand that is it.", pem.splitlines()[1]),
        "token": (f"CI uses {token} to push.", token),
        "password": (f"DB_PASSWORD={word}", word),
        "connection string": (f"The cache is at {connection} today.", connection.split(":")[2].split("@")[0]),
    }


PLACES: dict[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "text": lambda document, text: changed(document, "payload.components.0.text", text),
    "locator": lambda document, text: changed(document, "payload.citations.0.locator.value", text[:500]),
    "source": lambda document, text: changed(document, "payload.citations.0.source_ref", text[:500]),
    "evidence": lambda document, text: changed(document, "evidence.evidence_ref", text[:500]),
    "attestation": lambda document, text: changed(document, "evidence.attestation", text),
}


def assert_nowhere(world: World, *needles: str) -> None:
    """Check every byte of every file of the store, in the encodings in which a text might stand there."""
    wanted = [
        form
        for needle in needles
        for form in (needle.encode(), needle.encode("utf-16-le"), needle.encode().hex().encode())
    ]
    files = [file for file in world.path.rglob("*") if file.is_file()]
    assert len(files) > 3
    for file in files:
        content = file.read_bytes()
        assert not any(form in content for form in wanted), file.name


def admission(candidate_id: str) -> dict[str, Any]:
    return {"candidate_id": candidate_id, "idempotency_key": key()}


@pytest.mark.parametrize("kind", secrets())
def test_a_secret_is_rejected_and_is_nowhere(world, agent, kind, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    text, needle = secrets()[kind]
    assert needle in text
    candidate_id = agent.value(CAPTURE, capture_arguments(text))["candidate_id"]
    assert_nowhere(world, needle)
    agent.found("deploy key cache CI password")
    outcome = agent.value(REQUEST_ADMISSION, admission(candidate_id))["outcome"]
    assert outcome["status"] == "rejected"
    assert "record_id" not in outcome
    assert agent.state(candidate_id) is State.REJECTED
    assert world.journal.key_is_destroyed(SCOPE, candidate_id)
    assert_nowhere(world, needle)
    world.close()
    assert_nowhere(world, needle)
    world.restart()
    written = capfd.readouterr()
    assert needle not in written.out + written.err + caplog.text


@pytest.mark.parametrize("place", PLACES)
def test_every_place_of_a_candidate_is_screened(agent, place):
    text, _ = secrets()["token"]
    arguments = PLACES[place](capture_arguments("harmless"), text)
    candidate_id = agent.value(CAPTURE, arguments)["candidate_id"]
    assert agent.admit(candidate_id)["status"] == "rejected"


class Failing:
    """A policy that must not be asked."""

    policy_id, policy_version = "failing", "1"

    def decide(self, request: PolicyRequest) -> Any:
        raise AssertionError("a secret is no question to a policy")


def test_the_screen_comes_before_every_policy(world):
    text, _ = secrets()["connection string"]
    for agent in (world.caller(policy="adjudicate"), world.caller(policy_port=Failing())):
        assert agent.admit(agent.capture(text))["status"] == "rejected"


def test_the_reason_is_in_the_hosts_view_without_a_byte_of_the_secret(world, agent):
    text, needle = secrets()["token"]
    outcome = agent.admit(agent.capture(text))
    with world.journal.store.view(SCOPE) as view:
        event = view.event(int(outcome["cursor"]))
        assert event is not None
        ledger = world.journal.ledger(view, event.header)
    assert ledger["reason"].startswith("secret-screen:")
    assert needle not in repr(ledger)
    assert ledger["decision"]["decision"] == "reject"


def test_a_refused_call_logs_nothing_of_its_arguments(agent, capfd):
    text, needle = secrets()["password"]
    used = "an-idempotency-key-" + needle
    agent.code(CAPTURE, {**capture_arguments(text, used), "extra": text})
    agent.code(CAPTURE, capture_arguments(text, used, retention={"derivative_rule": "retain"}))
    agent.value(CAPTURE, capture_arguments(text, used))
    agent.code(CAPTURE, capture_arguments("another", used))
    agent.code("engram_memory_search", {"query": text, "purpose_ref": "purpose:work", "page_cursor": needle})
    written = capfd.readouterr()
    assert "refused" in written.out + written.err, "there is a log to look into"
    assert needle not in written.out + written.err


def test_a_secret_in_a_denied_or_open_request_is_nowhere(world: World):
    text, needle = secrets()["private key"]
    agent = world.caller(confirmation=ConfirmationSection(wait_seconds=0, require=("capture",)))
    assert agent.code(CAPTURE, capture_arguments(text)) == "gate_failed"
    assert_nowhere(world, needle)
    confirmation.deny(agent.engine, SCOPE, agent.requests()[0].confirmation_id, "operator")
    assert_nowhere(world, needle)


def test_a_key_that_sealed_a_secret_opens_nothing_any_more(world, agent: Caller):
    text, needle = secrets()["token"]
    candidate_id = agent.capture(text)
    payload = world.journal.payload(SCOPE, candidate_id)
    assert payload is not None
    assert needle in repr(payload)
    agent.admit(candidate_id)
    assert world.journal.payload(SCOPE, candidate_id) is None


def test_the_search_for_secrets_finds_one(world):
    (world.path / "planted").write_bytes(b"\0needle\0")
    with pytest.raises(AssertionError):
        assert_nowhere(world, "needle")

"""The admission policy port: the built-in policies, and every way in which an answer can be wrong."""

from typing import Any

import msgspec
import pytest

from journal.clock import instant
from journal.digests import receipt_digest, sealed_receipt
from journal.errors import InvalidDigest, PolicyStale, PolicyUnavailable, StoreUnavailable
from projections.address import address_of
from tools.host.admission import Admission
from tools.host.policies.builtin import policy_named, policy_of
from tools.host.policies.port import PolicyAnswer, PolicyRequest, answer, ask, check_answer, parse_answer
from tools.host.sections import POLICIES

NOW = 1_755_350_096_789


class Still:
    """A clock that stands."""

    def __init__(self, now: int = NOW) -> None:
        self._now = now

    def now(self) -> int:
        return self._now


def request(policy_id: str = "adjudicate", version: str = "1", deadline: int = NOW + 30_000) -> PolicyRequest:
    return PolicyRequest(
        policy_id=policy_id,
        policy_version=version,
        record_digest="sha256:" + "a" * 64,
        payload_digest="sha256:" + "b" * 64,
        candidate_envelope_ref="candidate_" + "c" * 64,
        evidence_digest="sha256:" + "d" * 64,
        evidence_ref="evidence:one",
        deadline=instant(deadline),
    )


def changed(**changes: Any) -> PolicyAnswer:
    """An answer with other fields, sealed again, so that each check is met for its own reason."""
    fields = msgspec.to_builtins(answer(request(), "accept", NOW))
    fields.update(changes)
    if "receipt_digest" not in changes:
        fields = sealed_receipt("decision", fields)
    return msgspec.convert(fields, PolicyAnswer)


@pytest.mark.parametrize(("name", "decision"), [("adjudicate", "adjudication_required"), ("accept-asserted", "accept")])
def test_the_built_in_policies_answer_for_themselves(name, decision):
    policy = policy_named(name, Still())
    answered = ask(policy, request(policy.policy_id, policy.policy_version), Still())
    assert answered.decision == decision
    assert answered.issued_at == instant(NOW)
    fields = msgspec.to_builtins(answered)
    assert set(fields) == {
        "policy_id", "policy_version", "record_digest", "decision", "issued_at", "receipt_digest",
    }  # fmt: skip
    assert answered.receipt_digest == receipt_digest("decision", fields)


def test_every_policy_that_a_host_file_may_name_exists():
    address = address_of("https://policy.example/")
    for name in POLICIES:
        said = Admission(policy=name, command=("true",), address=address, policy_id=name, policy_version="1")
        assert policy_of(said, Still()).policy_id == name


@pytest.mark.parametrize("age", [0, 1, 300_000])
def test_a_current_answer_is_taken(age):
    check_answer(request(deadline=NOW + 400_000), answer(request(), "reject", NOW), NOW + age)


@pytest.mark.parametrize(
    ("answered", "error"),
    [
        (changed(policy_version="2"), PolicyStale),
        (changed(policy_id="accept-asserted"), PolicyStale),
        (changed(issued_at=instant(NOW + 1)), PolicyStale),
        (changed(issued_at=instant(NOW - 300_001)), PolicyStale),
        (changed(issued_at="2026-02-30T00:00:00.000Z"), PolicyUnavailable),
        (changed(issued_at="yesterday"), PolicyUnavailable),
        (changed(record_digest="sha256:" + "e" * 64), InvalidDigest),
        (changed(receipt_digest="sha256:" + "e" * 64), InvalidDigest),
    ],
)
def test_an_answer_that_is_not_current_or_about_something_else(answered, error):
    with pytest.raises(error):
        check_answer(request(), answered, NOW)


def test_an_answer_after_the_deadline_is_none():
    with pytest.raises(PolicyUnavailable):
        check_answer(request(deadline=NOW - 1), answer(request(), "accept", NOW), NOW)


@pytest.mark.parametrize(
    "document",
    [
        {**msgspec.to_builtins(changed()), "seventh": 1},
        {k: v for k, v in msgspec.to_builtins(changed()).items() if k != "decision"},
        {**msgspec.to_builtins(changed()), "decision": "maybe"},
        {**msgspec.to_builtins(changed()), "issued_at": None},
        [], None, "accept",
    ],
)  # fmt: skip
def test_an_answer_without_exactly_six_fields_is_none(document):
    with pytest.raises(PolicyUnavailable):
        parse_answer(document)


def test_an_answer_from_outside_is_read():
    assert parse_answer(msgspec.to_builtins(changed())) == changed()


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ValueError("x"), "the policy failed: ValueError"),
        (OSError(), "the policy failed: OSError"),
        (StoreUnavailable("x"), "the policy failed: StoreUnavailable"),
        (PolicyUnavailable("the policy's program: exit code 2"), "the policy's program: exit code 2"),
    ],
)
def test_a_policy_that_throws_is_unavailable(raised, said):
    class Throwing:
        policy_id = "adjudicate"
        policy_version = "1"

        def decide(self, _request: PolicyRequest) -> PolicyAnswer:
            raise raised

    with pytest.raises(PolicyUnavailable) as caught:
        ask(Throwing(), request(), Still())
    assert caught.value.detail == said

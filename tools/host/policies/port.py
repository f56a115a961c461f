"""The admission policy port: what a policy is asked, what it may answer, and what is checked of the answer.

A policy sees no content: digests and references only. Its answer is a receipt of kind ``decision``: five fields, and
the digest over them. The engine never takes an answer's word for what it is about.
"""

from __future__ import annotations

import json
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from journal import limits
from journal.clock import Clock, instant, parse_instant
from journal.digests import receipt_digest, sealed_receipt
from journal.errors import InvalidDigest, PolicyStale, PolicyUnavailable

Decision = Literal["accept", "reject", "adjudication_required"]


class PolicyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy is asked about one candidate."""

    policy_id: str
    policy_version: str
    record_digest: str
    payload_digest: str
    candidate_envelope_ref: str
    evidence_digest: str
    evidence_ref: str
    deadline: str  # instant; an answer after it is none


class PolicyAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a policy answers: exactly these six fields."""

    policy_id: str
    policy_version: str
    record_digest: str
    decision: Decision
    issued_at: str  # instant
    receipt_digest: str  # of kind "decision", over the other five


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What can be told of a candidate without a word of its content: for policies of the host's own process alone."""

    kinds: tuple[str, ...]  # of its components
    source_schemes: tuple[str, ...]  # of its citations: what stands before the first colon, in lower case
    size_bytes: int  # of the effective payload's canonical form
    principal: str  # who captured it
    trust_class: str
    verification: str  # what the host's verifier found
    families: tuple[str, ...]  # the assertion families that it opted into


class Policy(Protocol):
    """An admission policy: in this process, behind a command, or behind HTTP."""

    @property
    def policy_id(self) -> str:
        """The policy's name."""
        ...

    @property
    def policy_version(self) -> str:
        """The version in force; candidates older than it are decided under it all the same."""
        ...

    def decide(self, request: PolicyRequest) -> PolicyAnswer:
        """Return the decision on one candidate; whatever is raised means that there is none."""
        ...


class Explained(Policy, Protocol):
    """A policy that has its say about one candidate, and a reason for the host's eyes."""

    reason: str


@runtime_checkable
class Informed(Protocol):
    """A policy of the host's own process that decides by what can be told of a candidate."""

    def about(self, facts: Facts) -> Explained:
        """Return the policy for one candidate."""
        ...


def answer(request: PolicyRequest, decision: Decision, now: int) -> PolicyAnswer:
    """Return a sealed answer to a request; ``now`` is epoch milliseconds."""
    fields = {
        "policy_id": request.policy_id,
        "policy_version": request.policy_version,
        "record_digest": request.record_digest,
        "decision": decision,
        "issued_at": instant(now),
    }
    return msgspec.convert(sealed_receipt("decision", fields), PolicyAnswer)


def parse_answer(document: Any) -> PolicyAnswer:
    """Return the answer that an adapter received as a JSON value.

    Raises:
        PolicyUnavailable: it does not have exactly the six fields, or one of them is of the wrong form.
    """
    try:
        return msgspec.convert(document, PolicyAnswer)
    except msgspec.ValidationError:
        raise PolicyUnavailable("the policy's answer does not have the six fields") from None


def read_answer(received: bytes) -> PolicyAnswer:
    """Return the answer that an adapter received as bytes: one JSON object, no name in it twice.

    Raises:
        PolicyUnavailable: as ``parse_answer``, or it is no JSON.
    """
    try:
        document = json.loads(received, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise PolicyUnavailable("the policy's answer is no JSON object") from None
    return parse_answer(document)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name stands twice")
    return document


def check_answer(request: PolicyRequest, answer: PolicyAnswer, now: int) -> None:
    """Refuse an answer that is not current or not about this request; ``now`` is epoch milliseconds.

    Raises:
        PolicyStale: another policy or version, an answer from the future, or one older than 300 s.
        PolicyUnavailable: its time cannot be read, or it came after the deadline.
        InvalidDigest: another record, or a receipt digest that is not the answer's own.
    """
    if (answer.policy_id, answer.policy_version) != (request.policy_id, request.policy_version):
        raise PolicyStale("the answer is another policy's or version's")
    try:
        age = now - parse_instant(answer.issued_at)
    except ValueError:
        raise PolicyUnavailable("the answer's instant is not canonical") from None
    if not 0 <= age <= limits.POLICY_AGE_MAX_SECONDS * 1000:
        raise PolicyStale(f"the answer is {age} ms old")
    if answer.record_digest != request.record_digest:
        raise InvalidDigest("the answer is about another record")
    if answer.receipt_digest != receipt_digest("decision", msgspec.to_builtins(answer)):
        raise InvalidDigest("the answer's receipt digest is not its own")
    if now > parse_instant(request.deadline):
        raise PolicyUnavailable("the answer came after the deadline")


def ask(policy: Policy, request: PolicyRequest, clock: Clock) -> PolicyAnswer:
    """Ask a policy and check its answer, taken apart and read anew: one in this process is trusted no more than others.

    Raises:
        PolicyUnavailable: it could not be reached, raised, or answered too late. The adapters' own words are passed on.
        PolicyStale, InvalidDigest: as ``check_answer``.
    """
    try:
        answered = parse_answer(msgspec.to_builtins(policy.decide(request)))
    except PolicyUnavailable:
        raise
    except Exception as error:  # whatever a policy raises: there is no decision
        raise PolicyUnavailable(f"the policy failed: {type(error).__name__}") from error
    check_answer(request, answered, clock.now())
    return answered


def consult(policy: Policy, request: PolicyRequest, facts: Facts, clock: Clock) -> tuple[PolicyAnswer, str | None]:
    """Ask a policy about one candidate; return its answer, checked, and its reason where it is one that gives any.

    Raises:
        PolicyUnavailable, PolicyStale, InvalidDigest: as ``ask``.
    """
    if not isinstance(policy, Informed):
        return ask(policy, request, clock), None
    asked = policy.about(facts)
    return ask(asked, request, clock), asked.reason

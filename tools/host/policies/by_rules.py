"""The policy ``rules``: the first rule of the host's whose conditions all hold decides; where none does, a person.

A rule sees what can be told of a candidate without a word of it. A condition that is left out always holds; one that
names a list holds where everything that the candidate brings is on it, so that nothing else slips through beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from journal.clock import Clock
from journal.digests import digest
from tools.host.policies.port import Decision, Facts, PolicyAnswer, PolicyRequest, answer

RuleDecision = Literal["accept", "reject", "adjudicate"]
_DECISION: Final[dict[RuleDecision, Decision]] = {
    "accept": "accept",
    "reject": "reject",
    "adjudicate": "adjudication_required",
}
NO_RULE: Final = "no rule"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. None: no condition."""

    decision: RuleDecision
    kinds: tuple[str, ...] | None = None  # every component's kind is one of these
    source_schemes: tuple[str, ...] | None = None  # every citation's source_ref begins with one of these and a colon
    max_bytes: int | None = None  # of the payload's canonical form
    principals: tuple[str, ...] | None = None  # who captured it is one of these
    trust_classes: tuple[str, ...] | None = None  # its trust class is one of these
    verification: tuple[str, ...] | None = None  # what the host's verifier found is one of these
    families: tuple[str, ...] | None = None  # it opted into a family, and every one is one of these

    def holds(self, facts: Facts) -> bool:
        """Whether every condition holds for a candidate."""
        return (
            _within(facts.kinds, self.kinds)
            and _within(facts.source_schemes, self.source_schemes)
            and (self.max_bytes is None or facts.size_bytes <= self.max_bytes)
            and _within((facts.principal,), self.principals)
            and _within((facts.trust_class,), self.trust_classes)
            and _within((facts.verification,), self.verification)
            and _within(facts.families, self.families)
        )


def _within(found: Sequence[str], allowed: tuple[str, ...] | None) -> bool:
    return allowed is None or (bool(found) and set(found) <= set(allowed))


class Rules:
    """Decides by rules. Asked without knowing anything of the candidate, it leaves it to a person."""

    def __init__(self, rules: Sequence[Rule], clock: Clock) -> None:
        self.policy_id = "rules"
        self.policy_version = version_of(rules)
        self._rules = tuple(rules)
        self._clock = clock

    def about(self, facts: Facts) -> Judged:
        """Return the policy for one candidate."""
        for number, rule in enumerate(self._rules, 1):
            if rule.holds(facts):
                return Judged(self, _DECISION[rule.decision], f"rule {number}", self._clock)
        return Judged(self, "adjudication_required", NO_RULE, self._clock)

    def decide(self, request: PolicyRequest) -> PolicyAnswer:
        """Leave it to a person."""
        return answer(request, "adjudication_required", self._clock.now())


class Judged:
    """What the rules say of one candidate."""

    def __init__(self, rules: Rules, decision: Decision, reason: str, clock: Clock) -> None:
        self.policy_id = rules.policy_id
        self.policy_version = rules.policy_version
        self.reason = reason
        self._decision = decision
        self._clock = clock

    def decide(self, request: PolicyRequest) -> PolicyAnswer:
        """Return the decision."""
        return answer(request, self._decision, self._clock.now())


def version_of(rules: Sequence[Rule]) -> str:
    """Return the version of rules: the digest of what they say. The same rules in another file are the same version."""
    return digest(b"engram/rules/v1\0", [msgspec.to_builtins(rule) for rule in rules])

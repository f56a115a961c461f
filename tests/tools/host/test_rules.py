"""Rules of admission: the first whose conditions all hold decides, and their digest is the version."""

import itertools
from typing import Any

import msgspec
import pytest

from journal.clock import instant
from tools.host.policies.by_rules import NO_RULE, Rule, Rules, version_of
from tools.host.policies.port import Facts, PolicyRequest, consult

NOW = 1_755_350_096_789
FACTS = Facts(
    kinds=("context", "decision"), source_schemes=("file",), size_bytes=500, principal="anna", trust_class="earned",
    verification="matched", families=(),
)  # fmt: skip


class Still:
    def now(self) -> int:
        return NOW


def said(rules: list[Rule], facts: Facts = FACTS) -> tuple[str, str | None]:
    policy = Rules(rules, Still())
    request = PolicyRequest(
        policy_id=policy.policy_id, policy_version=policy.policy_version, record_digest="sha256:" + "a" * 64,
        payload_digest="sha256:" + "b" * 64, candidate_envelope_ref="candidate_" + "c" * 64,
        evidence_digest="sha256:" + "d" * 64, evidence_ref="evidence:one", deadline=instant(NOW + 1_000),
    )  # fmt: skip
    answered, reason = consult(policy, request, facts, Still())
    return answered.decision, reason


# condition -> (a value under which it holds, one under which it does not)
CONDITIONS: dict[str, tuple[Any, Any]] = {
    "kinds": (("context", "decision"), ("decision",)),
    "source_schemes": (("file", "git"), ("git",)),
    "max_bytes": (500, 499),
    "principals": (("anna",), ("Anna", "민수")),
    "trust_classes": (("earned", "signed"), ("asserted",)),
    "verification": (("matched",), ("mismatched",)),
}


def test_a_rule_without_conditions_always_holds():
    assert said([Rule(decision="accept")]) == ("accept", "rule 1")


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_condition_holds_or_not(name):
    holds, fails = CONDITIONS[name]
    assert said([Rule(decision="accept", **{name: holds})]) == ("accept", "rule 1")
    assert said([Rule(decision="accept", **{name: fails})]) == ("adjudication_required", NO_RULE)


@pytest.mark.parametrize("failing", CONDITIONS)
def test_all_conditions_of_a_rule_must_hold(failing):
    conditions = {name: values[name == failing] for name, values in CONDITIONS.items()}
    assert said([Rule(decision="accept", **conditions)])[1] == NO_RULE


def test_one_thing_that_is_not_on_the_list_is_enough():
    mixed = msgspec.structs.replace(FACTS, source_schemes=("file", "https"))
    assert said([Rule(decision="accept", source_schemes=("file",))], mixed)[1] == NO_RULE
    nothing = msgspec.structs.replace(FACTS, source_schemes=("", "file"))
    assert said([Rule(decision="accept", source_schemes=("file",))], nothing)[1] == NO_RULE


def test_a_family_is_a_condition_of_those_that_opted_in():
    rule = Rule(decision="accept", families=("assertion-family:binary-status",))
    assert said([rule])[1] == NO_RULE
    assert said([rule], msgspec.structs.replace(FACTS, families=rule.families)) == ("accept", "rule 1")


def test_the_first_rule_that_holds_decides():
    for decisions in itertools.permutations(("accept", "reject", "adjudicate")):
        rules = [msgspec.convert({"decision": decision}, Rule) for decision in decisions]
        expected = {"adjudicate": "adjudication_required"}.get(decisions[0], decisions[0])
        assert said(rules) == (expected, "rule 1")
    assert said([Rule(decision="accept", max_bytes=1), Rule(decision="reject")]) == ("reject", "rule 2")


def test_no_rule_leaves_it_to_a_person():
    assert said([]) == ("adjudication_required", NO_RULE)


def test_the_version_is_what_the_rules_say():
    one, other = Rule(decision="accept", max_bytes=1), Rule(decision="reject")
    versions = {version_of(rules) for rules in ([], [one], [other], [one, other], [other, one])}
    assert len(versions) == 5
    assert version_of([one]) == version_of([Rule(max_bytes=1, decision="accept")])
    assert Rules([one], Still()).policy_version == version_of([one])

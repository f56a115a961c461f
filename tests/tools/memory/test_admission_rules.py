"""Rules over real candidates: what is told of each, and what becomes of it."""

from __future__ import annotations

import pytest

from tests.tools.memory.test_admission import decision_of
from tests.tools.memory.world import citation, component
from tools.host.policies.by_rules import NO_RULE, Rule, Rules, version_of


def ruled(world, *rules: Rule):
    return world.caller(policy_port=Rules(rules, world.clock))


def cited(*refs: str) -> dict[str, list]:
    """Return a payload's components and citations, one citation a source."""
    names = [f"citation:{number}" for number, _ in enumerate(refs, 1)]
    return {
        "components": [component("component:1", "text", cited=tuple(names))],
        "citations": [citation(name, source_ref=ref) for name, ref in zip(names, refs, strict=True)],
    }


@pytest.mark.parametrize(
    ("refs", "status"),
    [
        (("file:project/a.py",), "accepted"),
        (("FILE:project/a.py", "git:1234"), "accepted"),
        (("file:project/a.py", "https://example.org/"), "pending_adjudication"),
        (("minutes",), "pending_adjudication"),
        (("file",), "pending_adjudication"),
    ],
)
def test_by_source_scheme(world, refs, status):
    agent = ruled(world, Rule(decision="accept", source_schemes=("file", "git")))
    assert agent.admit(agent.capture("text", **cited(*refs)))["status"] == status


def test_by_kind(world):
    agent = ruled(world, Rule(decision="accept", kinds=("decision",)), Rule(decision="reject"))
    assert agent.admit(agent.capture("a"))["status"] == "accepted"
    more = [component("component:1", "b"), component("component:2", "c", "context")]
    assert agent.admit(agent.capture(components=more))["status"] == "rejected"


def test_by_size(world):
    agent = ruled(world, Rule(decision="accept", max_bytes=2_000))
    assert agent.admit(agent.capture("short"))["status"] == "accepted"
    assert agent.admit(agent.capture("가" * 700))["status"] == "pending_adjudication"


def test_by_who_captured_it_whoever_asks_for_admission(world):
    rule = Rule(decision="accept", principals=("principal:one",))
    candidate_id = world.caller().capture("one's")
    asking = world.caller(policy_port=Rules([rule], world.clock), principal="principal:two")
    assert asking.admit(candidate_id)["status"] == "accepted"
    assert asking.admit(asking.capture("two's"))["status"] == "pending_adjudication"


def test_by_trust_class_and_family(world):
    agent = ruled(
        world,
        Rule(decision="reject", trust_classes=("earned", "signed")),
        Rule(decision="accept", families=("assertion-family:binary-status",), verification=("none",)),
    )
    family = {"reconciliation": {"family_refs": ["assertion-family:binary-status"]}}
    assert agent.admit(agent.capture("a|b|active", **family))["status"] == "accepted"
    assert agent.admit(agent.capture("a|c|active"))["status"] == "pending_adjudication"


def test_the_ledger_names_rule_and_version(world):
    rules = (Rule(decision="reject", max_bytes=1), Rule(decision="accept", kinds=("decision",)))
    agent = ruled(world, *rules)
    accepted = agent.capture("a")
    agent.admit(accepted)
    ledger = decision_of(agent, accepted)
    assert ledger["reason"] == "rule 2"
    assert (ledger["decision"]["policy_id"], ledger["decision"]["policy_version"]) == ("rules", version_of(rules))
    waiting = agent.capture(components=[component("component:1", "b", "context")])
    agent.admit(waiting)
    assert decision_of(agent, waiting)["reason"] == NO_RULE


def test_a_secret_is_rejected_whatever_the_rules_say(world):
    agent = ruled(world, Rule(decision="accept"))
    assert agent.admit(agent.capture("aws_access_key_id=" + "AKIA" + "Q3EGRI4NLPJX7T2K"))["status"] == "rejected"

"""Trust is given at capture, by the host's verifier alone; a mismatch is for the host's eyes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from journal.canonical import canonical_bytes
from journal.digests import receipt_digest
from tests.tools.memory.world import NOW, SCOPE, Caller, World, capture_arguments, citation, key
from tools.host.capabilities import CAPTURE
from tools.host.policies.by_rules import Rule, Rules
from tools.host.verifiers.files import FileVerifier
from tools.host.verifiers.port import Verified, earned_trust
from tools.memory.records import asserted_trust

TEXT = "The build runs at half past two.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.md").write_text(TEXT)
    return folder


def sha(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def arguments(said: str = TEXT) -> dict[str, Any]:
    cited = citation(
        "citation:1", source_ref="file:project/a.md", locator={"scheme": "line", "value": "1"}, content_digest=sha(said)
    )
    made = capture_arguments("It was decided so.", citations=[cited])
    made["evidence"] |= {"evidence_ref": "file:project/a.md", "evidence_digest": sha(said)}
    return made


def verifying(world: World, root: Path, *, epoch: int = 0, **how: Any) -> Caller:
    agent = world.caller(**how)
    agent.engine.verifier = FileVerifier([root], epoch)
    return agent


def sealed(world: World, candidate_id: str) -> dict[str, Any]:
    """Return what the capture's content part holds."""
    with world.journal.store.view(SCOPE) as view:
        subject = view.subject(candidate_id)
        assert subject is not None
        event = view.event(subject.born)
        assert event is not None
        content = world.journal.content(view, event.header)
    assert content is not None
    return content


def test_what_matches_is_earned(world, root):
    agent = verifying(world, root, epoch=3)
    candidate_id = agent.value(CAPTURE, arguments())["candidate_id"]
    record_id = agent.admit(candidate_id)["record_id"]
    trust = agent.get(record_id)["output"]["value"]["record"]["trust"]
    assert trust == {
        "class": "earned", "evidence_digest": sha(TEXT), "verifier_id": "engine:files", "verifier_version": "1",
        "issued_at": "2025-08-16T13:14:56.789Z", "revocation_epoch": "3", "receipt_digest": trust["receipt_digest"],
    }  # fmt: skip
    assert trust["receipt_digest"] == receipt_digest("trust", trust)
    assert sealed(world, candidate_id)["verification"]["result"] == "matched"


def test_a_mismatch_is_asserted_and_the_agent_learns_nothing_of_it(world, root):
    agent = verifying(world, root)
    candidate_id = agent.value(CAPTURE, arguments("other\n"))["candidate_id"]
    document = agent.get(agent.admit(candidate_id)["record_id"])
    trust = document["output"]["value"]["record"]["trust"]
    assert (trust["class"], trust["verifier_id"]) == ("asserted", "engine:asserted")
    assert "mismatch" not in str(document)
    assert "verification" not in str(document)
    assert sealed(world, candidate_id)["verification"] == {
        "result": "mismatched", "verifier_id": "engine:files", "verifier_version": "1",
        "checked_at": "2025-08-16T13:14:56.789Z",
        "findings": [
            {"citation_id": "citation:1", "result": "mismatched", "reason": "its bytes are others"},
            {"result": "mismatched", "reason": "its bytes are others"},
        ],
    }  # fmt: skip


def test_without_a_verifier_everything_is_asserted(world):
    candidate_id = world.caller().value(CAPTURE, arguments())["candidate_id"]
    content = sealed(world, candidate_id)
    assert content["trust"]["class"] == "asserted"
    assert "verification" not in content


def test_trust_is_fixed_with_the_record_whatever_becomes_of_the_file(world, root):
    agent = verifying(world, root)
    sent = arguments()
    first = agent.value(CAPTURE, sent)
    (root / "a.md").write_text("changed\n")
    assert agent.value(CAPTURE, sent)["status"] == "duplicate_exact"
    record = agent.get(agent.admit(first["candidate_id"])["record_id"])["output"]["value"]["record"]
    assert record["trust"]["class"] == "earned"


def test_a_caller_cannot_name_its_own_trust(world, root):
    agent = verifying(world, root)
    for place in ("payload", "evidence"):
        made = arguments("other\n")
        made[place]["trust"] = {"class": "signed"}
        assert agent.code(CAPTURE, made) == "INVALID_SCHEMA"
    made = {**arguments(), "trust": {"class": "signed"}}
    assert agent.code(CAPTURE, made) == "INVALID_SCHEMA"


@pytest.mark.parametrize(("said", "status"), [(TEXT, "accepted"), ("other\n", "rejected")])
def test_rules_know_what_was_found(world, root, said, status):
    rules = [Rule(decision="reject", verification=("mismatched",)), Rule(decision="accept", trust_classes=("earned",))]
    agent = verifying(world, root, policy_port=Rules(rules, world.clock))
    assert agent.admit(agent.value(CAPTURE, arguments(said))["candidate_id"])["status"] == status
    assert agent.admit(agent.capture("Nothing is cited."))["status"] == "pending_adjudication"


def test_trust_of_an_older_epoch_admits_nothing_any_more(world, root):
    rules = Rules([Rule(decision="accept", trust_classes=("earned",), verification=("matched",))], world.clock)
    before = verifying(world, root, epoch=1, policy_port=rules)
    first, second = (before.value(CAPTURE, arguments())["candidate_id"] for _ in range(2))
    assert before.admit(first)["status"] == "accepted"
    after = verifying(world, root, epoch=2, policy_port=rules)
    assert after.admit(second)["status"] == "pending_adjudication"
    assert after.admit(after.value(CAPTURE, arguments())["candidate_id"])["status"] == "accepted"


def test_trust_that_is_earned_is_never_longer_than_what_is_asserted():
    """The room that a record takes in an answer is reckoned with the latter."""
    verified = Verified(trust_class="earned", findings=())
    matched = type("Matched", (), {"result": "matched", "trust_class": verified.trust_class})()
    earned = earned_trust(FileVerifier([], 99_999), matched, sha(""), NOW)
    assert len(canonical_bytes(earned)) <= len(canonical_bytes(asserted_trust(sha(""), NOW)))


def test_what_was_found_goes_with_the_content(world, root):
    agent = verifying(world, root)
    candidate_id = agent.value(CAPTURE, {**arguments("other\n"), "idempotency_key": key()})["candidate_id"]
    agent.withdraw(candidate_id)
    assert world.journal.payload(SCOPE, candidate_id) is None

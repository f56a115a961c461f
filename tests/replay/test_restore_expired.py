"""A record that expired and was destroyed after a backup stays so, also where the backup knows it as a candidate."""

from __future__ import annotations

import pytest

from journal.clock import instant
from journal.lifecycle import State
from replay.audit import audit_scope
from tests.replay.restores import Safe, reopened
from tests.tools.memory.world import NOW, SCOPE
from tools.memory.erasure import finish_erasures
from tools.memory.expiry import expire_records

HOUR_MILLISECONDS = 3_600_000
WORD = "persimmon"


@pytest.fixture
def safe(tmp_path):
    made = Safe(tmp_path)
    yield made
    made.world.close()


@pytest.mark.parametrize("is_admitted_first", [False, True])
def test_what_expired_and_was_destroyed_since_stays_so(safe, is_admitted_first):
    agent = safe.world.caller(destroy_expired=True)
    expires_at = instant(NOW + HOUR_MILLISECONDS)
    retention = {"derivative_rule": "make-ineligible", "expires_at": expires_at}
    candidate_id = agent.capture(f"a {WORD}", retention=retention)
    kept = agent.remember("a medlar")
    if is_admitted_first:
        agent.admit(candidate_id)
    safe.backup()
    safe.keys()
    if not is_admitted_first:
        agent.admit(candidate_id)
    safe.world.clock.advance(milliseconds=HOUR_MILLISECONDS)
    expire_records(agent.engine, SCOPE)
    assert finish_erasures(agent.engine, SCOPE)
    assert agent.state(candidate_id) is State.TOMBSTONED
    restored = safe.restore(ledgers=[safe.backup("ledger", ledger=True)])
    assert (restored.keys_destroyed, restored.ended_again, restored.lost) == (1, 1, 0)
    with reopened(safe.place / "restored", safe.world.clock) as world:
        again = world.caller()
        assert again.state(candidate_id) is State.TOMBSTONED
        assert world.journal.key_is_destroyed(SCOPE, candidate_id)
        assert again.found("medlar") == [kept]
        assert again.found(WORD) == []
        assert finish_erasures(again.engine, SCOPE)
        assert not audit_scope(world.journal, SCOPE).findings

"""Kept answers about records that have expired since, and whose content may be destroyed by now."""

from __future__ import annotations

from dataclasses import replace

from journal.clock import instant
from tests.tools.memory.keeping import checked, kept_get, kept_search
from tests.tools.memory.world import NOW, SCOPE
from tools.memory.erasure import finish_erasures
from tools.memory.expiry import expire_records
from tools.memory.receipt_check import Verdict

HOUR_MILLISECONDS = 3_600_000


def test_an_expiry_alters_no_kept_answer_and_a_destruction_is_named(world):
    agent = world.caller()
    retention = {"derivative_rule": "make-ineligible", "expires_at": instant(NOW + HOUR_MILLISECONDS)}
    expired = agent.remember("barley of the harvest", retention=retention)
    kept = agent.remember("barley of the granary")
    before = [kept_search(agent, "barley"), kept_get(agent, expired), kept_get(agent, kept)]
    world.clock.advance(milliseconds=HOUR_MILLISECONDS)
    between = [kept_search(agent, "barley")]  # its time has passed, and no event says so yet
    expire_records(agent.engine, SCOPE)
    after = [kept_search(agent, "barley"), kept_get(agent, kept)]
    assert {each.verdict for each in checked(world, [*before, *between, *after])} == {Verdict.DERIVED}

    agent.engine.binding = replace(agent.engine.binding, destroy_expired=True)
    expire_records(agent.engine, SCOPE)
    assert finish_erasures(agent.engine, SCOPE)
    search, gone, still, *rest = checked(world, [*before, *between, *after])
    assert search.verdict is Verdict.ORDER_UNDERIVABLE
    assert list(search.erased) == [expired]
    assert gone.verdict is not Verdict.ALTERED
    assert list(gone.erased) == [expired]
    assert still.verdict is Verdict.DERIVED
    assert not {each.verdict for each in rest} & {Verdict.ALTERED, Verdict.UNVERIFIABLE}
    assert rest[-2].verdict is rest[-1].verdict is Verdict.DERIVED

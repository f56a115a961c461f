"""Answers of before and after the epoch was raised: each is derived again under the epoch of then."""

from __future__ import annotations

import pytest

from tests.tools.memory.keeping import checked, kept_get, kept_search, value_of
from tests.tools.memory.world import SCOPE
from tools.host.capabilities import ALL_TOOLS, GET
from tools.memory.authority_orders import Orders
from tools.memory.receipt_check import Verdict


@pytest.mark.parametrize("by_events", [False, True])
def test_answers_are_derived_whatever_was_revoked_since(world, by_events):
    agent = world.caller(by_events=by_events)
    orders = Orders(agent.engine, SCOPE, "tests")
    orders.grant("principal:one", ALL_TOOLS)
    record_id = agent.remember("harvest of 하나")
    documents = []
    for step in (lambda: None, orders.raise_epoch, lambda: orders.revoke("principal:two", [GET], by_file=[GET])):
        step()
        documents += [kept_search(agent, "harvest"), kept_get(agent, record_id)]
    orders.revoke("principal:one", ALL_TOOLS)
    orders.opt(enabled=False)
    receipts = [value_of(each).get("rank_receipt") or value_of(each)["read_receipt"] for each in documents]
    assert len({each["authorization_receipt_digest"] for each in receipts}) == len(documents)
    assert {each.verdict for each in checked(world, documents)} == {Verdict.DERIVED}

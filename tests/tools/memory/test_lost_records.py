"""A record whose key is lost: the others are folded, nothing passes for whole, and forgetting it mends the scope."""

from __future__ import annotations

import shutil

import pytest

from journal import layout
from tests.tools.memory.world import PURPOSE, SCOPE
from tools.host.capabilities import GET, SEARCH
from tools.memory.erasure import finish_erasures


@pytest.fixture
def lost(agent, monkeypatch):
    """A record whose key cannot be had any more, beside one whose key can; the projections are gone."""
    kept, gone = agent.remember("the kept one has a brown door"), agent.remember("the lost one has a green roof")
    assert agent.found("green roof") == [gone]
    engine = agent.engine
    with engine.journal.store.view(SCOPE) as view:
        doomed = view.subject(view.candidate_of(gone)).key_id
    opened = engine.journal.keyring.open
    monkeypatch.setattr(
        engine.journal.keyring, "open", lambda scope, key, slot: None if key == doomed else opened(scope, key, slot)
    )
    engine.projections(SCOPE).close()
    engine._projections.clear()
    shutil.rmtree(engine.journal.path / layout.PROJECTIONS / SCOPE.tag.hex())
    return kept, gone


def test_no_search_passes_for_whole(agent, lost):
    assert agent.code(SEARCH, {"query": "brown door", "purpose_ref": PURPOSE}) == "BLOB_MISSING"


def test_the_others_can_be_got(agent, lost):
    kept, gone = lost
    assert agent.value(GET, {"record_id": kept, "purpose_ref": PURPOSE})["record"]["record_id"] == kept
    assert agent.code(GET, {"record_id": gone, "purpose_ref": PURPOSE}) == "BLOB_MISSING"


def test_the_erasure_of_another_is_not_held_up(agent, lost):
    kept, _ = lost
    agent.forget(kept)
    assert finish_erasures(agent.engine, SCOPE)


def test_forgetting_it_mends_the_scope(agent, lost):
    kept, gone = lost
    agent.forget(gone)
    assert agent.found("brown door") == [kept]
    assert agent.found("green roof") == []

"""Receipts outlive a rotation, a rebuild, a restart; a copy that cannot be written derives them too; so do pages."""

from __future__ import annotations

import shutil

import pytest

from journal.clock import instant
from journal.events import Actor, Draft, EventType
from journal.lifecycle import Operation
from journal.log import Journal
from projections.aside import is_held_aside
from replay.rebuild import invalidate, rebuild
from tests.tools.memory.keeping import Changing, Document, check, checked, kept_get, kept_search, shown, value_of
from tests.tools.memory.world import NOW, ROOT_KEY, SCOPE, binding
from tools.memory.receipt_check import ReceiptVerifier, Verdict


@pytest.fixture
def changing(world):
    made = Changing(world, 5)
    for _ in range(60):
        made.happen()
    return made


@pytest.fixture
def documents(changing):
    made = [changing.search() for _ in range(6)]
    made += [kept_get(changing.agent, record_id) for record_id in shown(kept_search(changing.agent, "harvest"))]
    changing.happen()
    return made


def _all_derived(found):
    return {each.verdict for each in found} == {Verdict.DERIVED}


def test_after_a_rotation_of_keys(world, documents):
    world.journal.rotate_keys(SCOPE, Actor("operator:tests"))
    assert _all_derived(checked(world, documents))


def test_after_a_restart(world, documents):
    world.restart()
    assert _all_derived(checked(world, documents))


def test_after_a_rebuild_and_an_invalidation(world, changing, documents):
    projections = changing.agent.engine.projections(SCOPE)
    for name in ("current", "lexical"):
        rebuild(projections, name)
    invalidate(projections, ["current", "lexical"])
    documents.append(changing.search())
    assert _all_derived(checked(world, documents))


def test_without_any_projection_on_disk(world, documents):
    world.close()
    shutil.rmtree(world.path / "projections")
    world.journal = world._opened()
    assert _all_derived(checked(world, documents))


def test_from_a_copy_that_cannot_be_written(world, documents, directory):
    gone = shown(documents[0])[0]
    world.caller().forget(gone)
    world.close()
    copy = directory / "copy"
    shutil.copytree(world.path, copy)
    for path in [*copy.rglob("*"), copy]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        journal = Journal.open(copy, ROOT_KEY, clock=world.clock, readonly=True)
        with ReceiptVerifier(journal, binding(SCOPE)) as verifier:
            found = verifier.verify_all(documents)
        journal.close()
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o700)
        world.journal = world._opened()
    assert found[0].verdict is Verdict.ORDER_UNDERIVABLE
    assert {each.verdict for each in found} == {Verdict.DERIVED, Verdict.ORDER_UNDERIVABLE}


def test_the_verifier_goes_back_and_on_with_a_journal_that_grows(world, changing, documents):
    with ReceiptVerifier(world.journal, binding(SCOPE)) as verifier:
        assert verifier.verify(documents[-1]).verdict is Verdict.DERIVED
        changing.capture()
        later = kept_search(changing.agent, "harvest barley wheat")
        assert verifier.verify(later).verdict is Verdict.DERIVED
        assert verifier.verify(documents[0]).verdict is Verdict.DERIVED


def test_an_invalidation_while_the_verifier_stands(world, agent):
    agent.remember("harvest one")
    first = kept_search(agent, "harvest")
    with ReceiptVerifier(world.journal, binding(SCOPE)) as verifier:
        assert verifier.verify(first).verdict is Verdict.DERIVED
        event_id = world.journal.random_event_id(SCOPE)
        draft = Draft(type=EventType.PROJECTION_INVALIDATED, event_id=event_id, actor=Actor("operator:tests"))
        world.journal.commit(SCOPE, lambda _: [draft])
        agent.remember("harvest two")
        assert verifier.verify(kept_search(agent, "harvest")).verdict is Verdict.DERIVED


# --- pages --------------------------------------------------------------------------------------


def _chain(agent, world, query, **more):
    """Return all pages of a search, with the clock going on and a pending candidate between two of them."""
    pages: list[Document] = []
    cursor = None
    while not pages or cursor:
        pages.append(kept_search(agent, query, **more, **({"page_cursor": cursor} if cursor else {})))
        cursor = value_of(pages[-1]).get("next_page_cursor")
        agent.capture("harvest, but pending")
        world.clock.advance(milliseconds=7)
    return pages


def test_a_chain_of_pages(world, agent):
    for number in range(9):
        agent.remember("harvest " + "barley " * number)
    pages = _chain(agent, world, "harvest", limit=2)
    assert [len(shown(page)) for page in pages] == [2, 2, 2, 2, 1]
    assert len({value_of(page)["rank_receipt"]["system_as_of"] for page in pages}) == 5
    assert _all_derived(checked(world, pages))
    gone = shown(pages[2])[0]
    agent.forget(gone)
    found = checked(world, pages)
    assert {(each.verdict, tuple(each.erased)) for each in found} == {(Verdict.ORDER_UNDERIVABLE, (gone,))}
    assert [each.verified for each in found] == [2, 2, 1, 2, 1]


def test_a_page_under_a_byte_budget(world, agent):
    for number in range(9):
        agent.remember("harvest " + "barley " * number * 20)
    pages = _chain(agent, world, "harvest", limit=50, max_packet_bytes=8_192)
    assert len(pages) > 2
    assert _all_derived(checked(world, pages))


def test_pages_of_different_sizes(world, agent):
    for number in range(9):
        agent.remember("harvest " + "barley " * number)
    first = kept_search(agent, "harvest", limit=4)
    cursor = value_of(first)["next_page_cursor"]
    rest = [kept_search(agent, "harvest", limit=limit, page_cursor=cursor) for limit in (1, 3, 50)]
    assert _all_derived(checked(world, [first, *rest]))


# --- the clock ----------------------------------------------------------------------------------


def test_at_the_bounds_of_validity_and_expiry(world, agent):
    expires_at = {"derivative_rule": "make-ineligible", "expires_at": instant(NOW + 100)}
    short = agent.remember("harvest until noon", retention=expires_at)
    closed = agent.remember("harvest in a window", valid_time={"t": NOW + 50, "t_end": NOW + 100})
    documents = []
    for now, expected in [(49, {short}), (50, {short, closed}), (99, {short, closed}), (100, {closed}), (101, set())]:
        world.clock.set(NOW + now)
        documents.append(kept_search(agent, "harvest"))
        assert set(shown(documents[-1])) == expected
    assert _all_derived(checked(world, documents))


def test_what_did_not_count_then_touches_nothing(world, agent):
    kept = agent.remember("harvest kept")
    candidate = agent.capture("harvest disputed")
    record_id = agent.admit(candidate)["record_id"]
    before = kept_search(agent, "harvest")
    agent.transit(candidate, Operation.DISPUTE)
    after = kept_search(agent, "harvest")
    assert shown(after) == [kept]
    agent.forget(record_id)
    one, other = checked(world, [before, after])
    assert (one.verdict, one.erased) == (Verdict.ORDER_UNDERIVABLE, [record_id])
    assert (other.verdict, other.erased) == (Verdict.DERIVED, [])


def test_only_what_counted_then_is_named(world, agent):
    agent.remember("harvest kept")
    disputed = agent.capture("harvest disputed")
    records = [agent.admit(disputed)["record_id"], agent.remember("harvest gone")]
    agent.transit(disputed, Operation.DISPUTE)
    document = kept_search(agent, "harvest")
    for record_id in records:
        agent.forget(record_id)
    assert check(world, document).erased == records[1:]


def test_an_answer_from_beyond_the_head(world, agent, directory):
    agent.remember("harvest one")
    world.close()
    shutil.copytree(world.path, directory / "before")
    world.journal = world._opened()
    agent = world.caller()
    agent.remember("harvest two")
    document = kept_search(agent, "harvest")
    assert check(world, document).verdict is Verdict.DERIVED
    journal = Journal.open(directory / "before", ROOT_KEY, clock=world.clock, readonly=True)
    with ReceiptVerifier(journal, binding(SCOPE)) as verifier:
        found = verifier.verify(document)
    journal.close()
    assert found.verdict is Verdict.UNVERIFIABLE
    assert "ends at cursor 2" in (found.reason or "")


def test_a_lost_record_leaves_nothing_to_say(world, agent):
    agent.remember("harvest one")
    document = kept_search(agent, "harvest")
    with world.journal.store.view(SCOPE) as view:
        row = next(row for _, row in view.subjects() if row.key_id)
        world.journal.keyring.destroy(SCOPE, [(row.key_id, view.slot(row.key_id))])
    world.restart()
    found = check(world, document)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert "BLOB_MISSING" in (found.reason or "")


def test_projections_of_a_verifier_are_released(world, documents):
    with ReceiptVerifier(world.journal, binding(SCOPE)) as verifier:
        verifier.verify(documents[0])
        assert is_held_aside(world.path / "projections", SCOPE)
    assert not is_held_aside(world.path / "projections", SCOPE)

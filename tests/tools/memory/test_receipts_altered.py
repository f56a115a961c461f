"""Answers that somebody altered: each field in turn, as it stands and with every digest made anew."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from journal.digests import payload_digest
from tests.tools.memory.keeping import (
    Document,
    check,
    checked,
    kept_get,
    kept_search,
    sealed_anew,
    shown,
    value_of,
)
from tests.tools.memory.world import OTHER, SCOPE, SECOND, World, at, changed
from tools.memory.receipt_check import Verdict
from tools.memory.search_answer import candidate_ids_digest

AUTHORITY = ("auditId", "authorization_receipt_digest")
RANK = "answer.output.value.rank_receipt"
RECORDS = "answer.output.value.records"


@pytest.fixture
def story(agent):
    """Six records that a search finds with six scores, and another that it does not find."""
    for number in range(6):
        agent.remember("harvest " + "barley " * number)
    agent.remember("Nothing of the kind.")
    return agent


@pytest.fixture
def search(story) -> Document:
    """A whole answer."""
    return kept_search(story, "harvest", limit=10)


@pytest.fixture
def page(story) -> Document:
    """The second page of a search, from which a third leads on."""
    first = kept_search(story, "harvest", limit=2)
    return kept_search(story, "harvest", limit=2, page_cursor=value_of(first)["next_page_cursor"])


def leaves(document: Any, place: str = "") -> Iterator[str]:
    """Yield the dotted places of everything that is no object and no list."""
    if isinstance(document, dict | list):
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for name, held in pairs:
            yield from leaves(held, f"{place}.{name}" if place else str(name))
    else:
        yield place


def other(value: Any) -> Any:
    """Return another value of the kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if value.isdigit():
        return str(int(value) - 1)
    at_last = value[-1]
    if value.endswith("Z"):  # an instant
        return value[:-2] + ("0" if value[-2] != "0" else "1") + "Z"
    return value[:-1] + ("a" if at_last != "a" else "b")


def test_the_answers_themselves_are_derived(world, search, page, story):
    got = kept_get(story, shown(search)[0])
    assert [each.verdict for each in checked(world, [search, page, got])] == [Verdict.DERIVED] * 3


@pytest.mark.parametrize("which", ["search", "page", "get"])
def test_each_field_in_turn(world, search, page, story, which):
    document = {"search": search, "page": page}.get(which) or kept_get(story, shown(search)[0])
    places = [place for place in leaves(document) if place.startswith("answer.")]
    assert len(places) > 30
    forged = [changed(document, place, other(at(document, place))) for place in places]
    for place, each in zip(places, checked(world, forged), strict=True):
        if place == "answer.auditId":  # it is in no digest, but the authorization follows from it
            assert each.verdict is Verdict.UNVERIFIABLE
        elif place == "answer.ok":
            assert each.verdict is Verdict.UNVERIFIABLE  # it says that the call failed
        else:
            assert each.verdict is Verdict.ALTERED, place


@pytest.mark.parametrize("which", ["search", "page", "get"])
def test_each_field_that_is_left_out(world, search, page, story, which):
    document = {"search": search, "page": page}.get(which) or kept_get(story, shown(search)[0])
    places = [place for place in leaves(document) if place.startswith("answer.output") and not place[-1].isdigit()]
    for place, each in zip(places, checked(world, [changed(document, each, ...) for each in places]), strict=True):
        assert each.verdict in (Verdict.ALTERED, Verdict.UNVERIFIABLE), place
        assert each.verdict is Verdict.ALTERED or each.reason


@pytest.mark.parametrize("which", ["search", "page", "get"])
def test_each_field_with_every_digest_made_anew(world, search, page, story, which):
    document = {"search": search, "page": page}.get(which) or kept_get(story, shown(search)[0])
    made_anew = ("receipt_digest", "response_digest", "packet_digest", "redaction_receipt_digest", "ordered_ids_digest")
    places = [
        place for place in leaves(document)
        if (place.startswith("answer.output.value") and not place.endswith((*made_anew, "record_id")))
        or place.endswith(AUTHORITY) or "trust.receipt" in place
    ]  # fmt: skip
    forged = [sealed_anew(changed(document, place, other(at(document, place)))) for place in places]
    for place, each in zip(places, checked(world, forged), strict=True):
        if place.endswith((*AUTHORITY, "system_as_of")):
            assert each.verdict in (Verdict.ALTERED, Verdict.UNVERIFIABLE), place
        elif "rank_receipt.profile" in place:
            assert each.verdict is Verdict.UNVERIFIABLE
        else:
            assert each.verdict is Verdict.ALTERED, (place, each)
            assert each.differs


def test_a_forger_who_makes_nothing_new_is_not_found(world, search):
    assert sealed_anew(search) == search


def _dropped(document, number):
    made = copy.deepcopy(document)
    del value_of(made)["records"][number]
    return made


def _swapped(document):
    made = copy.deepcopy(document)
    records = value_of(made)["records"]
    records[0], records[1] = records[1], records[0]
    return made


def _swapped_with_ranks(document):
    made = _swapped(document)
    first, second = value_of(made)["records"][:2]
    first["rank"], second["rank"] = second["rank"], first["rank"]
    first["score"], second["score"] = second["score"], first["score"]
    return made


def _added(document):
    made = copy.deepcopy(document)
    records = value_of(made)["records"]
    records.append({**copy.deepcopy(records[-1]), "rank": records[-1]["rank"] + 1})
    return made


def _without(document, name):
    made = copy.deepcopy(document)
    del value_of(made)[name]
    return made


ALTERATIONS = [
    lambda each: _dropped(each, 0),
    lambda each: _dropped(each, 1),
    lambda each: _dropped(each, -1),
    _swapped,
    _swapped_with_ranks,
    _added,
    lambda each: changed(each, f"{RECORDS}.0.record.components.0.text", "Something else was decided."),
    lambda each: changed(each, f"{RECORDS}.0.redacted_fields", ["scope_ref"]),
    lambda each: changed(each, f"{RECORDS}.0.extra", 1),
    lambda each: changed(each, f"{RECORDS}.0.rank", True),
    lambda each: changed(each, f"{RANK}.extra", "1"),
    lambda each: changed(each, f"{RANK}.projection_receipt_digests", []),
    lambda each: changed(each, "request.query", "barley"),
    lambda each: changed(each, "request.limit", 3),
    lambda each: changed(each, "request.purpose_ref", SECOND),
    lambda each: changed(each, "request.query", ...),
    lambda each: changed(each, "request.surplus", 1),
    lambda each: changed(each, "request.page_cursor", "x" * 71),
]


@pytest.mark.parametrize("number", range(len(ALTERATIONS)))
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("which", ["search", "page"])
def test_an_altered_order_text_or_request(world, search, page, number, anew, which):
    made = ALTERATIONS[number](search if which == "search" else page)
    verdict = check(world, sealed_anew(made) if anew else made)
    assert verdict.verdict is Verdict.ALTERED
    assert verdict.differs


def test_a_page_that_leads_nowhere(world, page):
    made = sealed_anew(_without(page, "next_page_cursor"))
    assert check(world, made).differs == ["answer.output.value.response_digest", "answer.output.value.next_page_cursor"]


def test_the_place_that_differs_is_named(world, search):
    made = changed(search, f"{RECORDS}.2.score", 1)
    assert f"{RECORDS}.2.score" in check(world, made).differs


# --- after a forgetting -----------------------------------------------------------------------------


@pytest.fixture
def touched(world: World, story, search, page) -> tuple[list[Document], str]:
    """A search and a page of which one record is forgotten by now; the record."""
    gone = shown(page)[0]
    story.forget(gone)
    return [search, page], gone


def test_what_a_forgetting_touched_is_sound_and_names_it(world, touched):
    documents, gone = touched
    for each, document in zip(checked(world, documents), documents, strict=True):
        assert (each.verdict, each.erased) == (Verdict.ORDER_UNDERIVABLE, [gone])
        assert each.verified == len(shown(document)) - 1


def test_each_field_of_what_was_touched(world, touched):
    documents, _ = touched
    for document in documents:
        places = [place for place in leaves(document) if place.startswith("answer.output.value")]
        forged = [changed(document, place, other(at(document, place))) for place in places]
        for place, each in zip(places, checked(world, forged), strict=True):
            assert each.verdict is Verdict.ALTERED, place


def test_each_field_of_a_survivor_with_every_digest_made_anew(world, touched):
    (search, _), gone = touched
    number = next(number for number, each in enumerate(shown(search)) if each != gone)
    inside = f"{RECORDS}.{number}.record."
    places = [
        place for place in leaves(search) if (place.startswith(inside) and not place.endswith(("record_id",)))
        or (place.startswith(RANK) and not place.endswith(("ordered_ids_digest", "receipt_digest")))
    ]  # fmt: skip
    forged = [sealed_anew(changed(search, place, other(at(search, place)))) for place in places]
    for place, each in zip(places, checked(world, forged), strict=True):
        if "rank_receipt.profile" in place or place.endswith("system_as_of"):
            assert each.verdict in (Verdict.ALTERED, Verdict.UNVERIFIABLE), place
        else:
            assert each.verdict is Verdict.ALTERED, place


@pytest.mark.parametrize("number", range(len(ALTERATIONS)))
@pytest.mark.parametrize("anew", [False, True])
def test_an_altered_order_text_or_request_of_what_was_touched(world, touched, number, anew):
    (search, _), _ = touched
    made = ALTERATIONS[number](search)
    verdict = check(world, sealed_anew(made) if anew else made)
    assert verdict.verdict is Verdict.ALTERED, verdict
    assert verdict.differs


@pytest.mark.parametrize("place", ["components.0.text", "valid_time.t", "trust.issued_at"])
def test_a_forger_who_knows_how_payloads_are_digested_does_not_pass(world, touched, place):
    (search, _), gone = touched
    number = shown(search).index(gone)
    before = at(search, f"{RECORDS}.{number}.record.{place}")
    late = place == "valid_time.t"  # then it was not to be read at that instant
    made = changed(search, f"{RECORDS}.{number}.record.{place}", before + 2_000 if late else other(before))
    record = value_of(made)["records"][number]["record"]
    derived = ("payload_digest", "recorded_at", "recorded_cursor", "trust", "record_digest", "record_id")
    payload = {name: held for name, held in record.items() if name not in derived}
    record["payload_digest"] = payload_digest({**payload, "scope_ref": SCOPE.ref})
    assert check(world, sealed_anew(made)).verdict is Verdict.ALTERED
    assert check(world, sealed_anew(search)).verdict is Verdict.ORDER_UNDERIVABLE


def test_a_forger_who_drops_a_survivor_and_counts_anew_does_not_pass(world, touched):
    (search, _), gone = touched
    made = _dropped(search, next(number for number, each in enumerate(shown(search)) if each != gone))
    for number, packet in enumerate(value_of(made)["records"]):
        packet["rank"] = number + 1
    receipt = value_of(made)["rank_receipt"]
    receipt["candidate_count"], receipt["candidate_ids_digest"] = 5, candidate_ids_digest(shown(made))
    assert RECORDS in check(world, sealed_anew(made)).differs


@pytest.mark.parametrize("by", [-1, 1, -500_000])
def test_a_forger_who_lowers_a_score_and_makes_every_digest_anew_does_not_pass(world, touched, by):
    """The scores cannot be derived any more; what binds them is a seal that needs the scope's key."""
    (search, _), _ = touched
    last = len(shown(search)) - 1
    made = changed(search, f"{RECORDS}.{last}.score", at(search, f"{RECORDS}.{last}.score") + by)
    assert check(world, sealed_anew(made)).verdict is Verdict.ALTERED
    assert check(world, search).verdict is Verdict.ORDER_UNDERIVABLE


def test_a_record_that_never_was_there(world, touched, story):
    (search, _), _ = touched
    later = kept_get(story, story.remember("harvest of later"))
    packet = {**value_of(search)["records"][-1], "record": value_of(later)["record"]}
    made = changed(search, f"{RECORDS}.5", {**packet, "score": 1})
    assert check(world, sealed_anew(made)).verdict is Verdict.ALTERED


def test_a_forgotten_get(world, story, search):
    documents = [kept_get(story, record_id) for record_id in shown(search)]
    gone = shown(search)[0]
    story.forget(gone)
    first, *rest = checked(world, documents)
    assert (first.verdict, first.erased) == (Verdict.ORDER_UNDERIVABLE, [gone])
    assert {each.verdict for each in rest} == {Verdict.DERIVED}
    places = [place for place in leaves(documents[0]) if place.startswith("answer.output.value")]
    forged = [changed(documents[0], place, other(at(documents[0], place))) for place in places]
    assert {each.verdict for each in checked(world, forged)} == {Verdict.ALTERED}


# --- what is not ours ---------------------------------------------------------------------------


def test_an_answer_of_another_scope_and_of_another_store(world, story, search, directory):
    there = world.caller(OTHER)
    for number in range(8):
        there.remember(f"harvest there {number}")
    foreign = [kept_search(there, "harvest"), kept_search(there, "nothing"), kept_get(there, there.found("harvest")[0])]
    elsewhere = World(directory / "elsewhere", seed=b"other")
    stranger = elsewhere.caller()
    stranger.remember("harvest elsewhere")
    foreign += [kept_search(stranger, "harvest"), kept_search(stranger, "nothing")]
    elsewhere.close()
    for each in checked(world, foreign):
        assert each.verdict is Verdict.UNVERIFIABLE
        assert "scope" in (each.reason or "")


def test_an_answer_of_another_principal(world, search, page):
    for document in (search, page):
        verdict = check(world, document, principal="principal:two")
        assert verdict.verdict is Verdict.UNVERIFIABLE
        assert "principal" in (verdict.reason or "")


def test_a_purpose_that_is_no_longer_bound(world, search):
    verdict = check(world, search, purposes=())
    assert verdict.verdict is Verdict.UNVERIFIABLE
    assert "purpose" in (verdict.reason or "")


def test_another_profile(world, search):
    made = sealed_anew(changed(search, f"{RANK}.profile_version", "3"))
    verdict = check(world, made)
    assert verdict.verdict is Verdict.UNVERIFIABLE
    assert "version 3" in (verdict.reason or "")


def test_projections_of_another_version(world, search, monkeypatch):
    monkeypatch.setattr("projections.lexical.projection.LexicalProjection.version", 3)
    verdict = check(world, search)
    assert verdict.verdict is Verdict.UNVERIFIABLE
    assert "lexical version 2" in (verdict.reason or "")


def test_another_cap_of_the_host_changes_nothing(world, story):
    narrow = world.caller(packet_cap_bytes=4_096)
    document = kept_search(narrow, "harvest", limit=10)
    assert 0 < len(shown(document)) < 6
    assert check(world, document).verdict is Verdict.DERIVED
    assert check(world, document, packet_cap_bytes=6_000).verdict is Verdict.DERIVED
    assert check(world, sealed_anew(_dropped(document, -1))).verdict is Verdict.ALTERED


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"tool": "engram_memory_search", "request": {}, "answer": {}},
        {"tool": "engram_memory_forget", "request": {}, "answer": {"ok": True}},
        {"tool": ["engram_memory_get"], "request": {}, "answer": {"ok": True}},
        {"tool": "engram_memory_get", "request": {}, "answer": {"ok": False, "error": {}}},
        {"tool": "engram_memory_get", "request": [], "answer": {"ok": True}},
    ],
    ids=repr,
)
def test_what_is_no_answer(world, agent, document):
    agent.remember()
    verdict = check(world, document)
    assert verdict.verdict is Verdict.UNVERIFIABLE
    assert verdict.reason

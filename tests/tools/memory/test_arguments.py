"""The shape of the six tools' arguments: closed, typed, counted, with their cross references."""

from __future__ import annotations

from typing import Any

import pytest

from journal.errors import InvalidSchema
from tests.tools.memory.calls import (
    ACCENT,
    CAPTURE,
    EVERY,
    HAN,
    MEMBERS,
    OBJECTS,
    OPTIONAL,
    RECORD_ID,
    WHOLE,
    accepted,
    named,
    refused,
)
from tests.tools.memory.world import at, changed, citation, component, evidence, nfd, payload
from tools.memory import arguments

# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", WHOLE)
def test_the_whole_arguments_are_accepted(tool):
    accepted(tool, WHOLE[tool][1])


@pytest.mark.parametrize("tool", WHOLE)
@pytest.mark.parametrize("other", [None, [], "text", 1, True, {}], ids=named)
def test_arguments_are_an_object_with_its_members(tool, other):
    refused(tool, other)


@pytest.mark.parametrize("tool", WHOLE)
@pytest.mark.parametrize(
    "name",
    ["tenant", "scope", "principal", "agent_id", "session", "auditId", "deadline", "confirmed", "elicitationRef"],
)
def test_what_the_host_owns_is_no_argument(tool, name):
    refused(tool, {**WHOLE[tool][1], name: "x"})
    refused(tool, {**WHOLE[tool][1], name: True})


@pytest.mark.parametrize(("tool", "path"), OBJECTS)
@pytest.mark.parametrize("name", ["extra", "scope_ref", ""])
def test_every_object_is_closed(tool, path, name):
    refused(tool, changed(WHOLE[tool][1], f"{path}.{name}", "x"))


@pytest.mark.parametrize(("tool", "path"), EVERY)
def test_nothing_is_null(tool, path):
    refused(tool, changed(WHOLE[tool][1], path, None))


@pytest.mark.parametrize(("tool", "path"), MEMBERS)
def test_only_what_is_optional_may_be_absent(tool, path):
    document = changed(WHOLE[tool][1], path, ...)
    if (tool, path) in OPTIONAL:
        accepted(tool, document)
    else:
        refused(tool, document)


@pytest.mark.parametrize(("tool", "path"), EVERY)
def test_every_value_has_its_type(tool, path):
    present = at(WHOLE[tool][1], path)
    for other in ("1", 1, 1.0, 1.5, True, [], [1], {}, {"a": 1}, b"x"):
        if type(other) is not type(present):
            refused(tool, changed(WHOLE[tool][1], path, other))


@pytest.mark.parametrize(
    ("tool", "path"), [(tool, path) for tool, path in EVERY if isinstance(at(WHOLE[tool][1], path), str)]
)
def test_no_string_holds_a_lone_surrogate(tool, path):
    refused(tool, changed(WHOLE[tool][1], path, "purpose:\ud800 and more text"))


# --- counts and cross references ------------------------------------------------------------------


def cited(*ids: str) -> list[dict[str, Any]]:
    return [citation(citation_id) for citation_id in ids]


def captured(components: list[dict[str, Any]], citations: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    made = payload(components=components, citations=citations, primary_component_id=more.pop("primary", "component:1"))
    made["primary_event"]["citation_id"] = more.pop("event", "citation:1")
    return {
        "idempotency_key": "a-key-of-sixteen",
        "payload": {**made, **more.pop("changes", {})},
        "evidence": evidence(**more),
    }


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, True), (2, True), (63, True), (64, True), (65, False)])
def test_1_to_64_components(count, fits):
    components = [component(f"component:{number}", "text") for number in range(1, count + 1)]
    (accepted if fits else refused)("capture", captured(components, cited("citation:1")))


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, True), (255, True), (256, True), (257, False)])
def test_1_to_256_citations(count, fits):
    ids = [f"citation:{number}" for number in range(1, count + 1)]
    (accepted if fits else refused)("capture", captured([component("component:1", "text")], cited(*ids)))
    if fits:
        accepted(
            "capture", captured([component("component:1", "text", cited=tuple(ids))], cited(*ids), citation_ids=ids)
        )


def test_citation_ids_are_1_to_256_unique_and_resolve():
    for ids in ([], ["citation:1", "citation:1"], ["citation:2"], ["citation:1", "citation:2"], [""], ["Citation:1"]):
        refused("capture", captured([component("component:1", "text", cited=tuple(ids))], cited("citation:1")))
        refused("capture", captured([component("component:1", "text")], cited("citation:1"), citation_ids=ids))
    for order in (("citation:1", "citation:2"), ("citation:2", "citation:1")):
        accepted(
            "capture",
            captured(
                [component("component:1", "text", cited=order)],
                cited("citation:1", "citation:2"),
                citation_ids=list(order),
            ),
        )


def test_every_component_is_looked_at():
    good = component("component:1", "text")
    for other in (
        component("component:2", ""),
        component("component:2", "text", cited=("citation:9",)),
        component("component:1", "text"),
        component("component:2", "text", kind="x"),
        component("", "text"),
    ):
        refused("capture", captured([good, other], cited("citation:1")))
    accepted("capture", captured([good, component("component:2", "text")], cited("citation:1")))


def test_every_citation_is_looked_at():
    for other in (
        citation("citation:1"),
        citation("citation:2", content_digest="x"),
        citation("citation:2", source_ref=""),
        citation("citation:2", observed_at="now"),
    ):
        refused("capture", captured([component("component:1", "text")], [citation("citation:1"), other]))


def test_ids_that_only_normalise_alike_are_two_and_refused_for_their_form():
    refused("capture", captured([component("component:1", "text")], cited("citation:1", "e" + ACCENT)))
    accepted(
        "capture", captured([component("component:1", "text")], cited("citation:1", "citation:\u00e9", "citation:e"))
    )


def test_the_primary_component_resolves():
    refused("capture", captured([component("component:1", "text")], cited("citation:1"), primary="component:2"))
    accepted(
        "capture",
        captured(
            [component("component:1", "text"), component("component:2", "text")],
            cited("citation:1"),
            primary="component:2",
        ),
    )


def test_the_primary_event_is_cited_by_the_primary_component():
    both = [component("component:1", "text"), component("component:2", "text", cited=("citation:2",))]
    citations = cited("citation:1", "citation:2")
    accepted("capture", captured(both, citations))
    refused("capture", captured(both, citations, event="citation:2"))
    accepted("capture", captured(both, citations, event="citation:2", primary="component:2"))
    refused("capture", captured(both, citations, event="citation:3"))


def test_family_references_are_sorted_unique_and_at_most_64():
    def families(refs: list[str]) -> dict[str, Any]:
        return changed(CAPTURE, "payload.reconciliation", {"family_refs": refs})

    numbered = [f"family:{number:03}" for number in range(65)]
    for good in ([], ["b"], ["a", "b"], numbered[:64], numbered[:63]):
        accepted("capture", families(good))
    for bad in (["b", "a"], ["a", "a"], numbered, [""], [nfd(HAN)], ["a", 513 * "b"]):
        refused("capture", families(bad))


def test_schema_version_is_2():
    for other in (0, 1, 3, "2", 2.0):
        refused("capture", changed(CAPTURE, "payload.schema_version", other))


def test_defaults_are_the_contracts():
    bare = arguments.search_arguments({"query": "x", "purpose_ref": "p"})
    assert (bare.limit, bare.max_packet_bytes) == (10, 65_536)
    assert (bare.capability_policy.minimum_channels, bare.capability_policy.network) == ("lexical", "forbid")
    assert arguments.get_arguments({"record_id": RECORD_ID, "purpose_ref": "p"}).max_packet_bytes == 65_536


def refusal(tool: str, document: dict[str, Any]) -> str:
    try:
        WHOLE[tool][0](document)
    except InvalidSchema as error:
        return error.detail
    return ""


def test_a_refusal_tells_nothing_of_what_was_sent():
    # The detail goes to the log; not even there may it quote.
    for tool, path in EVERY:
        for value in ("my-secret", ["my-secret"], {"my-secret": "my-secret"}, 31_337_31_337):
            detail = refusal(tool, changed(WHOLE[tool][1], path, value))
            assert "my-secret" not in detail
            assert "31337" not in detail

"""Every bound of the six tools' arguments at, just under and just over; closed shapes; cross references."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from journal.errors import InvalidSchema
from tests.tools.memory.world import at, changed, citation, component, evidence, nfd, payload, sha256
from tools.memory import arguments

SAFE = 9_007_199_254_740_991
RECORD_ID = "mem_" + 52 * "a"
CANDIDATE_ID = "candidate_" + 64 * "0"
HAN, SMILE, ACCENT = "한", "\U0001f642", "\u0301"

Convert = Callable[[dict[str, Any]], Any]

SEARCH: dict[str, Any] = {
    "query": "nightly build",
    "purpose_ref": "purpose:work",
    "limit": 10,
    "max_packet_bytes": 65_536,
    "capability_policy": {"minimum_channels": "lexical", "network": "forbid"},
    "page_cursor": "A" * 71,
}
GET: dict[str, Any] = {"record_id": RECORD_ID, "purpose_ref": "purpose:work", "max_packet_bytes": 65_536}
CAPTURE: dict[str, Any] = {
    "idempotency_key": "a-key-of-sixteen",
    "payload": payload(
        valid_time={"t": 1, "t_end": 2},
        citations=[citation("citation:1", observed_at="2026-08-16T12:34:56.789Z")],
        retention={"derivative_rule": "make-ineligible", "expires_at": "2030-01-01T00:00:00.000Z"},
        reconciliation={"family_refs": ["assertion-family:binary-status"]},
    ),
    "evidence": evidence(attestation="seen"),
}
ADMISSION: dict[str, Any] = {"candidate_id": CANDIDATE_ID, "idempotency_key": "a-key-of-sixteen"}
WITHDRAW: dict[str, Any] = {**ADMISSION, "reason_ref": "reason:mistaken"}
FORGET: dict[str, Any] = {"record_id": RECORD_ID, "idempotency_key": "a-key-of-sixteen", "reason_ref": "reason:asked"}

WHOLE: dict[str, tuple[Convert, dict[str, Any]]] = {
    "search": (arguments.search_arguments, SEARCH),
    "get": (arguments.get_arguments, GET),
    "capture": (arguments.capture_arguments, CAPTURE),
    "request_admission": (arguments.admission_arguments, ADMISSION),
    "withdraw": (arguments.withdraw_arguments, WITHDRAW),
    "forget": (arguments.forget_arguments, FORGET),
}
OPTIONAL = {
    ("search", path) for path in (
        "limit", "max_packet_bytes", "capability_policy", "capability_policy.minimum_channels",
        "capability_policy.network", "page_cursor",
    )
} | {("get", "max_packet_bytes")} | {
    ("capture", path) for path in (
        "payload.valid_time.t_end", "payload.citations.0.observed_at", "payload.retention",
        "payload.retention.derivative_rule", "payload.retention.expires_at",
        "payload.reconciliation", "evidence.attestation",
    )
}  # fmt: skip


def accepted(tool: str, document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    WHOLE[tool][0](document)
    assert document == before, "arguments are kept as they were sent"


def refused(tool: str, document: Any) -> None:
    with pytest.raises(InvalidSchema):
        WHOLE[tool][0](document)


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted path of every member and element below a value."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = [(str(number), item) for number, item in enumerate(value)]
    for name, item in items:
        below = f"{path}.{name}" if path else name
        yield below
        yield from paths(item, below)


EVERY = [(tool, path) for tool, (_, document) in WHOLE.items() for path in paths(document)]
OBJECTS = [(tool, path) for tool, path in EVERY if isinstance(at(WHOLE[tool][1], path), dict)]
MEMBERS = [(tool, path) for tool, path in EVERY if not path.split(".")[-1].isdigit()]


def named(value: Any) -> str:
    return value if isinstance(value, str) and value.isascii() and len(value) < 60 else repr(value)[:24]


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


# --- references -----------------------------------------------------------------------------------

REFS = [
    ("search", "purpose_ref"),
    ("get", "purpose_ref"),
    ("capture", "payload.purpose_ref"),
    ("capture", "payload.primary_event.type_ref"),
    ("capture", "payload.citations.0.source_ref"),
    ("capture", "payload.citations.0.locator.scheme"),
    ("capture", "payload.citations.0.locator.value"),
    ("capture", "payload.reconciliation.family_refs.0"),
    ("capture", "evidence.evidence_ref"),
    ("withdraw", "reason_ref"),
    ("forget", "reason_ref"),
]
GOOD_REFS = [
    "a", 512 * "a", 511 * "a", 170 * HAN + "ab", 128 * SMILE, HAN, "\u00e9", "purpose:사례", "a b", "\n", "\x00",
    "\u200b", "q" + ACCENT,  # has no composed form, so it is NFC as it stands
]  # fmt: skip
BAD_REFS = [
    "", 513 * "a", 171 * HAN, 128 * SMILE + "a", nfd(HAN), "e" + ACCENT, "\u212b", "\u2126", 128 * HAN + 129 * "a",
]  # fmt: skip


@pytest.mark.parametrize(("tool", "path"), REFS)
@pytest.mark.parametrize("ref", GOOD_REFS, ids=named)
def test_a_reference_is_nfc_of_1_to_512_bytes(tool, path, ref):
    accepted(tool, changed(WHOLE[tool][1], path, ref))


@pytest.mark.parametrize(("tool", "path"), REFS)
@pytest.mark.parametrize("ref", BAD_REFS, ids=named)
def test_any_other_reference_is_refused(tool, path, ref):
    refused(tool, changed(WHOLE[tool][1], path, ref))


def renamed(value: Any, old: str, new: str) -> Any:
    """Return a value with every string that is ``old`` replaced."""
    if isinstance(value, dict):
        return {name: renamed(item, old, new) for name, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    return new if value == old else value


@pytest.mark.parametrize("identity", ["component:1", "citation:1"])
def test_component_and_citation_ids_are_references_too(identity):
    for ref in GOOD_REFS:
        accepted("capture", renamed(CAPTURE, identity, ref))
    for ref in BAD_REFS:
        refused("capture", renamed(CAPTURE, identity, ref))


@pytest.mark.parametrize("tool", ["request_admission", "withdraw"])
def test_a_candidate_id_is_a_reference(tool):
    for ref in GOOD_REFS:
        accepted(tool, {**WHOLE[tool][1], "candidate_id": ref})
    for ref in BAD_REFS:
        refused(tool, {**WHOLE[tool][1], "candidate_id": ref})


@pytest.mark.parametrize("tool", ["get", "forget"])
def test_a_record_id_has_its_pattern(tool):
    for good in ("mem_a", "mem_" + 52 * "7", "mem_abcdefghijklmnopqrstuvwxyz234567", "mem_" + 509 * "a"):
        accepted(tool, {**WHOLE[tool][1], "record_id": good})
    for bad in (
        "",
        "mem_",
        "mem_A",
        "mem_1",
        "mem_0",
        "mem_8",
        "mem_a-",
        "mem_a\n",
        "\nmem_a",
        " mem_a",
        "Mem_a",
        "candidate_a",
        "mem_한",
        "mem_\u0131",
    ):
        refused(tool, {**WHOLE[tool][1], "record_id": bad})


# --- sizes in bytes -------------------------------------------------------------------------------

TEXTS = [
    ("search", "query", 1, 8_192),
    ("capture", "payload.components.0.text", 1, 65_536),
    ("capture", "evidence.attestation", 0, 4_096),
    ("capture", "idempotency_key", 16, 256),
    ("request_admission", "idempotency_key", 16, 256),
    ("withdraw", "idempotency_key", 16, 256),
    ("forget", "idempotency_key", 16, 256),
]


def of_bytes(size_bytes: int, character: str) -> str:
    """Return a text of so many UTF-8 bytes, of this character as far as it goes."""
    width = len(character.encode())
    return size_bytes // width * character + size_bytes % width * "a"


@pytest.mark.parametrize("character", ["a", HAN, SMILE, "\u00e9"], ids=["ascii", "hangul", "emoji", "latin"])
@pytest.mark.parametrize(("tool", "path", "least", "most"), TEXTS)
def test_a_text_is_measured_in_bytes(tool, path, least, most, character):
    for size_bytes in {least, least + 1, most - 1, most}:
        accepted(tool, changed(WHOLE[tool][1], path, of_bytes(size_bytes, character)))
    for size_bytes in {least - 1, most + 1, most + 2} - {-1}:
        refused(tool, changed(WHOLE[tool][1], path, of_bytes(size_bytes, character)))


@pytest.mark.parametrize(("tool", "path"), [(tool, path) for tool, path, _, _ in TEXTS if path.endswith("_key")])
def test_an_idempotency_key_is_nfc(tool, path):
    refused(tool, changed(WHOLE[tool][1], path, nfd(10 * HAN)))
    refused(tool, changed(WHOLE[tool][1], path, 10 * ("e" + ACCENT)))
    # Characters are not bytes: six Hangul are eighteen.
    accepted(tool, changed(WHOLE[tool][1], path, 6 * HAN))


@pytest.mark.parametrize(
    ("tool", "path"),
    [("search", "query"), ("capture", "payload.components.0.text"), ("capture", "evidence.attestation")],
)
def test_free_text_may_have_any_normal_form(tool, path):
    for text in (nfd("야간 빌드"), "e" + ACCENT, "\ufb01", 3 * ACCENT, "\x00", "\n\t", "a\u202eb"):
        accepted(tool, changed(WHOLE[tool][1], path, text))


def test_the_page_cursor_is_bounded():
    for length in (1, 71, 1_024):
        accepted("search", {**SEARCH, "page_cursor": length * "a"})
    for length in (0, 1_025):
        refused("search", {**SEARCH, "page_cursor": length * "a"})


# --- numbers --------------------------------------------------------------------------------------

NUMBERS = [
    ("search", "limit", 1, 50),
    ("search", "max_packet_bytes", 4_096, 1_048_576),
    ("get", "max_packet_bytes", 4_096, 1_048_576),
    ("capture", "payload.primary_event.at", -SAFE, SAFE),
    ("capture", "payload.schema_version", 2, 2),
]


@pytest.mark.parametrize(("tool", "path", "least", "most"), NUMBERS)
def test_a_number_is_within_its_bounds(tool, path, least, most):
    for number in {least, most, min(least + 1, most), max(most - 1, least)}:
        accepted(tool, changed(WHOLE[tool][1], path, number))
    for number in {
        least - 1,
        most + 1,
        2**63,
        -(2**63),
        2**64,
        10**400,
        -(10**400),
        float(least),
        float("nan"),
        float("inf"),
        str(least),
        True,
        False,
    }:
        refused(tool, changed(WHOLE[tool][1], path, number))


def test_valid_time_is_a_closed_interval_of_safe_integers():
    def valid(**valid_time: Any) -> dict[str, Any]:
        return changed(CAPTURE, "payload.valid_time", valid_time)

    for good in (
        {"t": 0},
        {"t": SAFE},
        {"t": -SAFE},
        {"t": 5, "t_end": 5},
        {"t": 5, "t_end": 6},
        {"t": -SAFE, "t_end": SAFE},
    ):
        accepted("capture", valid(**good))
    for bad in (
        {"t": 5, "t_end": 4},
        {"t": SAFE + 1},
        {"t": -SAFE - 1},
        {"t": 0, "t_end": SAFE + 1},
        {"t_end": 5},
        {"t": True},
        {"t": 0, "t_end": True},
        {"t": 1.0},
    ):
        refused("capture", valid(**bad))


@pytest.mark.parametrize("member", ["minimum_channels", "network"])
def test_a_capability_policy_names_what_there_is(member):
    known = {"minimum_channels": ("lexical", "lexical_and_semantic"), "network": ("forbid", "allow")}[member]
    for value in known:
        accepted("search", {**SEARCH, "capability_policy": {member: value}})
    for value in ("", "semantic", "Lexical", "lexical ", "allowed"):
        refused("search", {**SEARCH, "capability_policy": {member: value}})


@pytest.mark.parametrize("kind", ["context", "decision", "evidence"])
def test_component_kinds(kind):
    accepted("capture", changed(CAPTURE, "payload.components.0.kind", kind))
    for other in (kind.upper(), f"{kind}s", "", "note"):
        refused("capture", changed(CAPTURE, "payload.components.0.kind", other))


def test_derivative_rules():
    for rule in ("retain", "make-ineligible"):
        accepted("capture", changed(CAPTURE, "payload.retention", {"derivative_rule": rule}))
    accepted("capture", changed(CAPTURE, "payload.retention", {}))
    for rule in ("", "make_ineligible", "keep"):
        refused("capture", changed(CAPTURE, "payload.retention", {"derivative_rule": rule}))


# --- digests and instants -------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["payload.citations.0.content_digest", "evidence.evidence_digest"])
def test_a_digest_is_sha256_and_64_lower_case_hex_digits(path):
    for good in ("sha256:" + 64 * "a", "sha256:" + 64 * "0", sha256("x")):
        accepted("capture", changed(CAPTURE, path, good))
    for bad in (
        64 * "a", "sha256:" + 63 * "a", "sha256:" + 65 * "a", "sha256:" + 64 * "A", "sha256:" + 64 * "g",
        "SHA256:" + 64 * "a", "sha512:" + 64 * "a", "sha256:" + 64 * "a" + "\n", " sha256:" + 64 * "a",
        "sha256:" + 64 * "\u0661", "",
    ):  # fmt: skip
        refused("capture", changed(CAPTURE, path, bad))


GOOD_INSTANTS = [
    "2026-08-16T12:34:56.789Z", "1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2024-02-29T00:00:00.000Z",
    "2000-02-29T23:59:59.999Z", "1969-12-31T23:59:59.000Z",
]  # fmt: skip
EARLY_INSTANTS = [
    "1969-12-31T23:59:59.500Z", "1900-01-01T00:00:00.001Z", "0999-12-31T00:00:00.000Z", "0001-01-01T00:00:00.000Z",
]  # fmt: skip
BAD_INSTANTS = [
    "", "2026-08-16", "2026-08-16T12:34:56Z", "2026-08-16T12:34:56.7Z", "2026-08-16T12:34:56.7890Z",
    "2026-08-16T12:34:56.789", "2026-08-16T12:34:56.789+00:00", "2026-08-16t12:34:56.789z",
    "2026-08-16 12:34:56.789Z", "2026-02-29T00:00:00.000Z",
    "2100-02-29T00:00:00.000Z", "2026-04-31T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-00-10T00:00:00.000Z",
    "2026-08-00T00:00:00.000Z", "2026-08-16T24:00:00.000Z", "2026-08-16T23:60:00.000Z", "2026-08-16T23:59:60.000Z",
    "2026-8-16T12:34:56.789Z", "+2026-08-16T12:34:56.789Z", "-001-08-16T12:34:56.789Z", "10000-01-01T00:00:00.000Z",
    "2026-08-16T12:34:56.789Z\n", " 2026-08-16T12:34:56.789Z", "2026-08-16T12:34:56,789Z",
    "\u0662026-08-16T12:34:56.789Z",
]  # fmt: skip


@pytest.mark.parametrize("path", ["payload.citations.0.observed_at", "payload.retention.expires_at"])
@pytest.mark.parametrize("instant", GOOD_INSTANTS)
def test_a_canonical_instant_is_accepted(path, instant):
    accepted("capture", changed(CAPTURE, path, instant))


@pytest.mark.parametrize("instant", EARLY_INSTANTS)
def test_an_early_instant_is_a_real_date_too(instant):
    accepted("capture", changed(CAPTURE, "payload.citations.0.observed_at", instant))


@pytest.mark.parametrize("path", ["payload.citations.0.observed_at", "payload.retention.expires_at"])
@pytest.mark.parametrize("instant", BAD_INSTANTS, ids=ascii)
def test_any_other_instant_is_refused(path, instant):
    refused("capture", changed(CAPTURE, path, instant))


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

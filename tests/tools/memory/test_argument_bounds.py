"""Every bound of the six tools' arguments, at, just under and just over: references, sizes, numbers, instants."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.memory.calls import (
    ACCENT,
    CAPTURE,
    HAN,
    SAFE,
    SEARCH,
    SMILE,
    WHOLE,
    accepted,
    named,
    refused,
)
from tests.tools.memory.world import changed, nfd, sha256

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

"""The six tools' arguments: closed shapes, bounds in bytes, and the cross references of a payload (CONTRACT §2, §3).

Each ``*_arguments`` function takes the arguments as they came from the strict reader (or from a Python caller) and
gives a struct, or raises InvalidSchema. Nothing is normalised: what was sent is what is kept.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from journal import limits
from journal.clock import parse_instant
from journal.errors import InvalidSchema
from tools.closed_arguments import Closed, converted, require, text_within, within

_RECORD_ID = re.compile(r"mem_[a-z2-7]+", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class CapabilityPolicy(Closed, frozen=True):
    """What a search demands of its ranking."""

    minimum_channels: Literal["lexical", "lexical_and_semantic"] = "lexical"
    network: Literal["forbid", "allow"] = "forbid"


class SearchArguments(Closed, frozen=True):
    """Arguments of engram_memory_search."""

    query: str
    purpose_ref: str
    limit: int = limits.SEARCH_LIMIT_DEFAULT
    max_packet_bytes: int = limits.PACKET_DEFAULT_BYTES
    capability_policy: CapabilityPolicy = CapabilityPolicy()
    page_cursor: str | UnsetType = UNSET


class GetArguments(Closed, frozen=True):
    """Arguments of engram_memory_get."""

    record_id: str
    purpose_ref: str
    max_packet_bytes: int = limits.PACKET_DEFAULT_BYTES


class ValidTime(Closed, frozen=True):
    """A closed interval of epoch milliseconds; without an end it has none."""

    t: int
    t_end: int | UnsetType = UNSET


class Component(Closed, frozen=True):
    """One part of a record."""

    component_id: str
    kind: Literal["context", "decision", "evidence"]
    text: str
    citation_ids: list[str]


class PrimaryEvent(Closed, frozen=True):
    """What happened, and when."""

    at: int
    type_ref: str
    citation_id: str


class Locator(Closed, frozen=True):
    """Where in a source."""

    scheme: str
    value: str


class Citation(Closed, frozen=True):
    """A source, a place in it, and the digest of the bytes there."""

    citation_id: str
    source_ref: str
    locator: Locator
    content_digest: str
    observed_at: str | UnsetType = UNSET


class Retention(Closed, frozen=True):
    """What becomes of derivatives, and until when the record is good."""

    derivative_rule: Literal["retain", "make-ineligible"] | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET


class Reconciliation(Closed, frozen=True):
    """The assertion families that the record opts into."""

    family_refs: list[str]


class Payload(Closed, frozen=True):
    """A captured fact."""

    schema_version: Literal[2]
    purpose_ref: str
    valid_time: ValidTime
    components: list[Component]
    primary_component_id: str
    primary_event: PrimaryEvent
    citations: list[Citation]
    retention: Retention | UnsetType = UNSET
    reconciliation: Reconciliation | UnsetType = UNSET


class Evidence(Closed, frozen=True):
    """What the fact rests on."""

    evidence_ref: str
    evidence_digest: str
    citation_ids: list[str]
    attestation: str | UnsetType = UNSET


class CaptureArguments(Closed, frozen=True):
    """Arguments of engram_memory_capture."""

    idempotency_key: str
    payload: Payload
    evidence: Evidence


class AdmissionArguments(Closed, frozen=True):
    """Arguments of engram_memory_request_admission."""

    candidate_id: str
    idempotency_key: str


class WithdrawArguments(Closed, frozen=True):
    """Arguments of engram_memory_withdraw."""

    candidate_id: str
    idempotency_key: str
    reason_ref: str


class ForgetArguments(Closed, frozen=True):
    """Arguments of engram_memory_forget."""

    record_id: str
    idempotency_key: str
    reason_ref: str


def search_arguments(raw: dict[str, Any]) -> SearchArguments:
    """Return the arguments of a search; InvalidSchema where they do not fit."""
    arguments = converted(raw, SearchArguments)
    text_within(arguments.query, limits.QUERY_MAX_BYTES, "query")
    _ref(arguments.purpose_ref, "purpose_ref")
    within(arguments.limit, 1, limits.SEARCH_LIMIT_MAX, "limit")
    within(arguments.max_packet_bytes, limits.PACKET_MIN_BYTES, limits.PACKET_MAX_BYTES, "max_packet_bytes")
    if arguments.page_cursor is not UNSET:
        text_within(arguments.page_cursor, limits.PAGE_CURSOR_MAX_BYTES, "page_cursor")
    return arguments


def get_arguments(raw: dict[str, Any]) -> GetArguments:
    """Return the arguments of a get; InvalidSchema where they do not fit."""
    arguments = converted(raw, GetArguments)
    _record_id(arguments.record_id)
    _ref(arguments.purpose_ref, "purpose_ref")
    within(arguments.max_packet_bytes, limits.PACKET_MIN_BYTES, limits.PACKET_MAX_BYTES, "max_packet_bytes")
    return arguments


def capture_arguments(raw: dict[str, Any]) -> CaptureArguments:
    """Return the arguments of a capture; InvalidSchema where they or their cross references do not fit."""
    arguments = converted(raw, CaptureArguments)
    _idempotency_key(arguments.idempotency_key)
    known = _citations(arguments.payload.citations)
    _payload(arguments.payload, known)
    _evidence(arguments.evidence, known)
    return arguments


def admission_arguments(raw: dict[str, Any]) -> AdmissionArguments:
    """Return the arguments of an admission request; InvalidSchema where they do not fit."""
    arguments = converted(raw, AdmissionArguments)
    _ref(arguments.candidate_id, "candidate_id")
    _idempotency_key(arguments.idempotency_key)
    return arguments


def withdraw_arguments(raw: dict[str, Any]) -> WithdrawArguments:
    """Return the arguments of a withdrawal; InvalidSchema where they do not fit."""
    arguments = converted(raw, WithdrawArguments)
    _ref(arguments.candidate_id, "candidate_id")
    _idempotency_key(arguments.idempotency_key)
    _ref(arguments.reason_ref, "reason_ref")
    return arguments


def forget_arguments(raw: dict[str, Any]) -> ForgetArguments:
    """Return the arguments of a forgetting; InvalidSchema where they do not fit."""
    arguments = converted(raw, ForgetArguments)
    _record_id(arguments.record_id)
    _idempotency_key(arguments.idempotency_key)
    _ref(arguments.reason_ref, "reason_ref")
    return arguments


# --- a payload ------------------------------------------------------------------------------------


def _citations(citations: list[Citation]) -> set[str]:
    """Check the citations and return their ids."""
    within(len(citations), 1, limits.CITATIONS_MAX, "citations")
    for citation in citations:
        _ref(citation.citation_id, "citation_id")
        _ref(citation.source_ref, "source_ref")
        _ref(citation.locator.scheme, "locator.scheme")
        _ref(citation.locator.value, "locator.value")
        _digest(citation.content_digest, "content_digest")
        if citation.observed_at is not UNSET:
            _instant(citation.observed_at, "observed_at")
    known = {citation.citation_id for citation in citations}
    require(len(known) == len(citations), "citation ids are not unique")
    return known


def _payload(payload: Payload, known: set[str]) -> None:
    _ref(payload.purpose_ref, "purpose_ref")
    start, end = payload.valid_time.t, payload.valid_time.t_end
    _safe(start, "valid_time.t")
    if end is not UNSET:
        _safe(end, "valid_time.t_end")
        require(end >= start, "valid_time ends before it begins")
    within(len(payload.components), 1, limits.COMPONENTS_MAX, "components")
    for component in payload.components:
        _ref(component.component_id, "component_id")
        text_within(component.text, limits.COMPONENT_TEXT_MAX_BYTES, "component text")
        _resolving(component.citation_ids, known, "component")
    by_id = {component.component_id: component for component in payload.components}
    require(len(by_id) == len(payload.components), "component ids are not unique")
    _ref(payload.primary_component_id, "primary_component_id")
    primary = by_id.get(payload.primary_component_id)
    if primary is None:
        raise InvalidSchema("the primary component does not resolve")
    _safe(payload.primary_event.at, "primary_event.at")
    _ref(payload.primary_event.type_ref, "type_ref")
    cited = payload.primary_event.citation_id
    require(
        cited in known and cited in primary.citation_ids, "the primary event's citation is not the primary component's"
    )
    if payload.retention is not UNSET and payload.retention.expires_at is not UNSET:
        _instant(payload.retention.expires_at, "expires_at")
    if payload.reconciliation is not UNSET:
        _families(payload.reconciliation.family_refs)


def _families(refs: list[str]) -> None:
    within(len(refs), 0, limits.FAMILY_REFS_MAX, "family_refs")
    for ref in refs:
        _ref(ref, "family_ref")
    require(refs == sorted(set(refs)), "family_refs are not sorted and unique")


def _evidence(evidence: Evidence, known: set[str]) -> None:
    _ref(evidence.evidence_ref, "evidence_ref")
    _digest(evidence.evidence_digest, "evidence_digest")
    _resolving(evidence.citation_ids, known, "evidence")
    if evidence.attestation is not UNSET:
        text_within(evidence.attestation, limits.ATTESTATION_MAX_BYTES, "attestation", least=0)


def _resolving(citation_ids: list[str], known: set[str], where: str) -> None:
    within(len(citation_ids), 1, limits.CITATIONS_MAX, f"{where} citation_ids")
    if len(set(citation_ids)) != len(citation_ids):
        raise InvalidSchema(f"{where} citation_ids are not unique")
    if not known.issuperset(citation_ids):
        raise InvalidSchema(f"a {where} citation does not resolve")


# --- single values --------------------------------------------------------------------------------


def _safe(number: int, name: str) -> None:
    within(number, -limits.SAFE_INTEGER_MAX, limits.SAFE_INTEGER_MAX, name)


def _ref(text: str, name: str) -> None:
    """An opaque reference: NFC, refused and never normalised where it is not."""
    if text.isascii() and 0 < len(text) <= limits.REF_MAX_BYTES:
        return  # as most are, and a payload has a dozen
    text_within(text, limits.REF_MAX_BYTES, name)
    if not unicodedata.is_normalized("NFC", text):
        raise InvalidSchema(f"{name} is not NFC")


def _idempotency_key(text: str) -> None:
    text_within(text, limits.IDEMPOTENCY_KEY_MAX_BYTES, "idempotency_key", limits.IDEMPOTENCY_KEY_MIN_BYTES)
    require(unicodedata.is_normalized("NFC", text), "idempotency_key is not NFC")


def _record_id(text: str) -> None:
    """A record id has a pattern and no length: a longer one is merely unknown."""
    require(_RECORD_ID.fullmatch(text) is not None, "record_id is malformed")


def _digest(text: str, name: str) -> None:
    if _DIGEST.fullmatch(text) is None:
        raise InvalidSchema(f"{name} is malformed")


def _instant(text: str, name: str) -> None:
    try:
        parse_instant(text)
    except (ValueError, OverflowError) as error:
        raise InvalidSchema(f"{name} is no canonical instant") from error

"""An answer as somebody kept it: {tool, request, answer}, and what it says of itself.

Everything here can be said without a store: whether the document has the form of an answer, whether its digests are
those of what it holds, and where it differs from another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from journal.clock import parse_instant
from journal.digests import receipt_digest, record_id_of
from journal.errors import EngramError
from journal.limits import CURSOR_MAX
from tools.host.capabilities import GET, SEARCH
from tools.memory.records import redacted
from tools.memory.search_answer import ordered_ids_digest, request_digest

_RECEIPTS = {SEARCH: "rank_receipt", GET: "read_receipt"}
_VALUE = "answer.output.value"


class NoAnswer(Exception):
    """A document that is not {tool, request, answer} of a read that succeeded; the text says why."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer of search or get, with what was asked."""

    tool: str
    request: dict[str, Any]
    answer: dict[str, Any]  # the envelope
    value: dict[str, Any]
    audit_id: str
    cursor: int  # that the answer names
    now: int  # the instant that it names, epoch milliseconds

    @property
    def receipt(self) -> dict[str, Any]:
        """The rank or read receipt."""
        receipt: dict[str, Any] = self.value[_RECEIPTS[self.tool]]
        return receipt

    @property
    def packets(self) -> list[dict[str, Any]]:
        """The packets of the records; a get has one."""
        packets: list[dict[str, Any]] = self.value["records"] if self.tool == SEARCH else [self.value]
        return packets

    def place(self, number: int) -> str:
        """Return where a packet stands."""
        return f"{_VALUE}.records.{number}" if self.tool == SEARCH else _VALUE


def told_of(document: Any) -> Told:
    """Return what a document tells.

    Raises:
        NoAnswer: it has not the form, or is of another tool, or of a call that failed.
    """
    if not isinstance(document, dict) or set(document) != {"tool", "request", "answer"}:
        raise NoAnswer("a document has exactly tool, request and answer")
    tool, request, answer = document["tool"], document["request"], document["answer"]
    if not isinstance(tool, str) or tool not in _RECEIPTS:
        raise NoAnswer("only answers of engram_memory_search and engram_memory_get can be derived again")
    if not isinstance(request, dict) or not isinstance(answer, dict):
        raise NoAnswer("request and answer are objects")
    if answer.get("ok") is False:
        raise NoAnswer("the call failed; a failure has no receipt")
    try:
        value = answer["output"]["value"]
        receipt = value[_RECEIPTS[tool]]
        packets = value["records"] if tool == SEARCH else [value]
        _check_form(packets, receipt, answer["auditId"])
        cursor = receipt["system_as_of"]
        if not cursor.isascii() or not cursor.isdigit() or len(cursor) > len(str(CURSOR_MAX)):
            raise NoAnswer("the receipt names no cursor")
        return Told(tool, request, answer, value, answer["auditId"], int(cursor), parse_instant(receipt["valid_as_of"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NoAnswer("the answer lacks the receipt of such a call, or the receipt its cursor or instant") from None


def _check_form(packets: Any, receipt: Any, audit_id: Any) -> None:
    """Raise TypeError where what all the rest takes for granted is not there."""
    if not isinstance(packets, list) or not isinstance(receipt, dict) or not isinstance(audit_id, str):
        raise TypeError
    if not all(isinstance(packet, dict) and isinstance(packet.get("record"), dict) for packet in packets):
        raise TypeError
    if not all(isinstance(packet["record"].get("record_id"), str) for packet in packets):
        raise TypeError


def broken_digests(told: Told) -> list[str]:
    """Return the places of the digests that are not those of what the answer holds."""
    return [place for place, is_so in _claims(told) if not _holds(is_so)]


def _claims(told: Told) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Yield each digest's place, and what tells whether it is right."""
    value, receipt = told.value, told.receipt
    for number, packet in enumerate(told.packets):
        place = told.place(number)
        yield f"{place}.record.record_id", partial(_is_named_by_digest, packet["record"])
        yield f"{place}.redaction_receipt_digest", partial(_is_redacted, packet)
        yield f"{place}.record.trust.receipt_digest", partial(_is_trusted, packet["record"])
    if told.tool == SEARCH:
        ids = [packet["record"]["record_id"] for packet in told.packets]
        asked = partial(request_digest, told.request)
        yield f"{_VALUE}.rank_receipt.request_digest", lambda: receipt["request_digest"] == asked()
        ordered = f"{_VALUE}.rank_receipt.ordered_ids_digest"
        yield ordered, lambda: receipt["ordered_ids_digest"] == ordered_ids_digest(ids)
        yield f"{_VALUE}.rank_receipt.receipt_digest", lambda: _is_sealed("rank", receipt)
        yield f"{_VALUE}.response_digest", lambda: _is_digest("search-response", value, "response_digest")
    else:
        yield f"{_VALUE}.read_receipt.receipt_digest", lambda: _is_sealed("read", receipt)
        yield f"{_VALUE}.packet_digest", lambda: _is_digest("get-packet", value, "packet_digest")


def _is_named_by_digest(record: dict[str, Any]) -> bool:
    return bool(record["record_id"] == record_id_of(record["record_digest"]))


def _is_redacted(packet: dict[str, Any]) -> bool:
    return bool(packet["redaction_receipt_digest"] == redacted(packet["record"])["redaction_receipt_digest"])


def _is_trusted(record: dict[str, Any]) -> bool:
    return _is_sealed("trust", record["trust"])


def _is_sealed(kind: str, receipt: dict[str, Any]) -> bool:
    return bool(receipt["receipt_digest"] == receipt_digest(kind, receipt))


def _is_digest(kind: str, value: dict[str, Any], field: str) -> bool:
    bare = {name: held for name, held in value.items() if name != field}
    return bool(value[field] == receipt_digest(kind, bare))


def _holds(claim: Callable[[], bool]) -> bool:
    """Whether a claim is true; one that cannot even be looked at is not."""
    try:
        return claim()
    except (KeyError, TypeError, ValueError, AttributeError, EngramError):
        return False


def differing(told: Any, derived: Any, place: str = "answer") -> list[str]:
    """Return the dotted places at which two JSON values differ; of a list of another length the list's too."""
    if isinstance(told, dict) and isinstance(derived, dict):
        found = [
            difference
            for name in sorted(told.keys() & derived.keys())
            for difference in differing(told[name], derived[name], f"{place}.{name}")
        ]
        return [*found, *(f"{place}.{name}" for name in sorted(told.keys() ^ derived.keys()))]
    if isinstance(told, list) and isinstance(derived, list):
        pairs = enumerate(zip(told, derived, strict=False))
        found = [each for number, (one, other) in pairs for each in differing(one, other, f"{place}.{number}")]
        return found if len(told) == len(derived) else [place, *found]
    # True is 1 for Python, and not in JSON.
    return [] if type(told) is type(derived) and told == derived else [place]

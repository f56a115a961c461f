"""The result envelope: what every answer to a tool call looks like (CONTRACT §2).

Some clients show the model only the structured content, some only the text: both always say the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from journal.errors import EngramError

SCHEMA_VERSION: Final = 1
REDACTION_CLASS: Final = "high"

AuditIds = Callable[[], str]  # makes a new auditId; injected, so that a test or a replay can hold it still


def random_audit_id() -> str:
    """Return a random UUID."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Envelope:
    """An answer: a value, or else an error of the contract. Make it with :func:`success` or :func:`failure`."""

    audit_id: str
    value: dict[str, Any] | None
    error: type[EngramError] | None
    detail: str = ""  # what else is known of the error: for the log, and never on the wire

    @property
    def ok(self) -> bool:
        """Tell whether the call succeeded."""
        return self.error is None

    def document(self) -> dict[str, Any]:
        """Return the envelope as it stands on the wire; ``value`` is not copied."""
        if self.error is None:
            return {
                "ok": True,
                "output": {"schema_version": SCHEMA_VERSION, "value": self.value},
                "auditId": self.audit_id,
                "redactionClass": REDACTION_CLASS,
            }
        error = {"code": self.error.code, "message": self.error.message(), "retriable": self.error.retriable}
        return {"ok": False, "auditId": self.audit_id, "redactionClass": REDACTION_CLASS, "error": error}

    def to_result(self) -> dict[str, Any]:
        """Return the result of ``tools/call`` in its wire form.

        A plain mapping, which the SDK checks against the protocol version of the connection: building its model first
        would only add a dump of it.
        """
        document = self.document()
        return {
            "content": [{"type": "text", "text": msgspec.json.encode(document).decode()}],
            "structuredContent": document,
            "isError": not self.ok,
            "resultType": "complete",  # asked for since 2026-07-28, left out before by the SDK
        }


def success(value: dict[str, Any], audit_id: str) -> Envelope:
    """Return the envelope of a call that succeeded; ``value`` holds JSON types only."""
    return Envelope(audit_id, value, None)


def failure(error: type[EngramError] | EngramError, audit_id: str) -> Envelope:
    """Return the envelope of a call that failed; its document holds the code and constant message, never the detail."""
    if isinstance(error, type):
        return Envelope(audit_id, None, error)
    return Envelope(audit_id, None, type(error), error.detail)

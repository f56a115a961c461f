"""What is answered to a line that the strict reader refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from journal.errors import InvalidSchema
from tools.server.envelope import AuditIds, failure
from tools.server.service import UnknownTool, UntrustedContext
from tools.server.strict import INVALID_REQUEST, PARSE_ERROR, Refused

_MESSAGES: Final = {PARSE_ERROR: "not JSON", INVALID_REQUEST: "not a JSON-RPC request"}


def refusal(refused: Refused, granted_tools: Collection[str] | None, audit_ids: AuditIds) -> dict[str, Any]:
    """Return the JSON-RPC message that answers a refused line, without any word of the line but its id.

    A call of a granted tool is answered as that tool would answer it, a call of another one as unknown; where it
    cannot be told what is granted (None), as one without a trusted context.
    """
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": refused.request_id}
    if refused.tool is None:
        return answer | {"error": {"code": refused.code, "message": _MESSAGES[refused.code]}}
    if granted_tools is None or refused.tool not in granted_tools:
        error = UntrustedContext if granted_tools is None else UnknownTool
        return answer | {"error": {"code": error.code, "message": error.message}}
    return answer | {"result": failure(InvalidSchema, audit_ids()).to_result()}

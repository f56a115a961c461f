"""What is answered to a line that the strict reader refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from journal.errors import InvalidSchema
from tools.server.envelope import AuditIds, failure
from tools.server.service import UnknownTool
from tools.server.strict import INVALID_REQUEST, PARSE_ERROR, Refused

_MESSAGES: Final = {PARSE_ERROR: "not JSON", INVALID_REQUEST: "not a JSON-RPC request"}


def refusal(refused: Refused, listed_tools: Collection[str], audit_ids: AuditIds) -> dict[str, Any]:
    """Return the JSON-RPC message that answers a refused line, without any word of the line but its id.

    A call of a listed tool is answered as that tool would answer it; a call of another one as unknown.
    """
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": refused.request_id}
    if refused.tool is None:
        return answer | {"error": {"code": refused.code, "message": _MESSAGES[refused.code]}}
    if refused.tool not in listed_tools:
        return answer | {"error": {"code": UnknownTool.code, "message": UnknownTool.message}}
    return answer | {"result": failure(InvalidSchema, audit_ids()).to_result()}

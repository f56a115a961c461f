"""How clients open a connection, as far as it is publicly told; each line is sent as it stands.

claude-code   version, capabilities and id 0 as recorded in a public report of its wire (2.0.73). Another (2.1.143) says
              that tools/list may come without notifications/initialized before it, a third that it asks for the new
              era by server/discover where it is told to
codex         protocol and capabilities as recorded in a public report of its wire (0.154.0); its own repository tells
              that it wrote "elicitation": {} for a time
gemini-cli    name, version and capabilities as its users show them; its own issues tell that it asks for prompts and
              tools on connecting, whatever the server said it has

What comes behind the opening (ping, resources/list, prompts/list) is what such clients ask of any server.
"""

from __future__ import annotations

from typing import Any, Final

from tests.tools.server.raw_server import MODERN_ENVELOPE

Steps = list[tuple[dict[str, Any], int | str | None]]  # a message; the error code, "result", or None for no answer

NO_METHOD: Final = -32601


def _initialize(
    version: str, name: str, client_version: str, capabilities: dict[str, Any], **more: Any
) -> dict[str, Any]:
    params = {
        "protocolVersion": version,
        "capabilities": capabilities,
        "clientInfo": {"name": name, **more, "version": client_version},
    }
    # Their key order: the method first, the id last.
    return {"method": "initialize", "params": params, "jsonrpc": "2.0", "id": 0}


def _ask(request_id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": params, "jsonrpc": "2.0", "id": request_id}


INITIALIZED: Final = {"method": "notifications/initialized", "jsonrpc": "2.0"}
CLAUDE_CODE: Final = _initialize("2025-11-25", "claude-code", "2.0.73", {"roots": {}})
CODEX: Final = _initialize(
    "2025-06-18", "codex-mcp-client", "0.154.0", {"elicitation": {"form": {}, "url": {}}}, title="Codex"
)
CODEX_BEFORE: Final = _initialize("2025-06-18", "codex-mcp-client", "0.144.3", {"elicitation": {}}, title="Codex")
GEMINI_CLI: Final = _initialize("2025-11-25", "gemini-cli-mcp-client-engram", "0.0.1", {"roots": {"listChanged": True}})

OPENINGS: Final[dict[str, Steps]] = {
    "claude-code": [
        (CLAUDE_CODE, "result"),
        (INITIALIZED, None),
        (_ask(1, "tools/list"), "result"),
        (_ask(2, "prompts/list"), NO_METHOD),
        (_ask(3, "resources/list"), NO_METHOD),
        (_ask(4, "ping"), "result"),
    ],
    "claude-code without initialized": [(CLAUDE_CODE, "result"), (_ask(1, "tools/list"), "result")],
    "claude-code that asks for the new era": [
        (_ask(0, "server/discover", _meta=MODERN_ENVELOPE), "result"),
        (_ask(1, "tools/list", _meta=MODERN_ENVELOPE), "result"),
        (_ask(2, "prompts/list", _meta=MODERN_ENVELOPE), NO_METHOD),
    ],
    "a probe without an envelope": [
        (_ask(7, "server/discover"), NO_METHOD),
        (CLAUDE_CODE, "result"),
        (INITIALIZED, None),
        (_ask(1, "tools/list"), "result"),
    ],
    "codex": [
        (CODEX, "result"),
        (INITIALIZED, None),
        (_ask(1, "tools/list", _meta={"progressToken": 0}), "result"),
        (_ask(2, "resources/list", _meta={"progressToken": 1}), NO_METHOD),
        (_ask(3, "resources/templates/list", _meta={"progressToken": 2}), NO_METHOD),
    ],
    "codex before": [(CODEX_BEFORE, "result"), (INITIALIZED, None), (_ask(1, "tools/list"), "result")],
    "gemini-cli": [
        (GEMINI_CLI, "result"),
        (INITIALIZED, None),
        (_ask(1, "prompts/list"), NO_METHOD),
        (_ask(2, "tools/list"), "result"),
        (_ask(3, "resources/list"), NO_METHOD),
        ({"method": "notifications/roots/list_changed", "jsonrpc": "2.0"}, None),
        (_ask(4, "ping"), "result"),
    ],
}

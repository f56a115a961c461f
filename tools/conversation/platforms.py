"""Which agent spoke: one canonical name a platform, whatever its client calls itself (CONVERSATION §2).

The one alias table; saving, capture, import and filter all ask here, so that a message is found under the name that
it was stored under.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

from journal import limits
from journal.actors import is_reserved

UNKNOWN: Final = "unknown"
WILDCARD: Final = "*"  # a filter's word for every platform; never the name of one

# canonical name -> what else its clients send as clientInfo.name or people write
_ALSO: Final = {
    "claude-code": "claudecode claude-code-cli claude-cli claude-code-mcp-client",
    "codex": "codex-mcp-client codex-cli codex-desktop codex-exec openai-codex",
    "gemini-cli": "gemini-cli-mcp-client gemini",
    "chatgpt": "openai-mcp openai-chatgpt chatgpt-desktop chatgpt-mcp-client",
    "hermes-agent": "hermes hermes-cli hermes-mcp-client",
    "openclaw": "openclaw-bundle-mcp openclaw-agent openclaw-cli openclaw-mcp-client",
}
_CANONICAL: Final = {name: name for name in _ALSO} | {
    alias: name for name, aliases in _ALSO.items() for alias in aliases.split()
}
_GEMINI_PREFIX: Final = "gemini-cli-mcp-client-"  # it appends the name that it knows the server by


@lru_cache(maxsize=64)
def canonical_platform(name: str | None) -> str:
    """Return the canonical form of a client's name: never empty, at most REF_MAX_BYTES, the same when asked again.

    A name that the table does not know is itself: NFC, lower case, on one line. No name is ``unknown``, and so is the
    wildcard, which would otherwise store what no filter can ask for, and a name by which an agent would pass for a
    person at the machine or the engine.
    """
    plain = _plain(name or "")
    if plain in {"", WILDCARD} or is_reserved(plain):
        return UNKNOWN
    looked_up = plain.replace("_", "-").replace(" ", "-")
    if looked_up.startswith(_GEMINI_PREFIX):
        return "gemini-cli"
    return _CANONICAL.get(looked_up, plain)


def is_wildcard(name: str) -> bool:
    """Return whether a filter's platform means every platform."""
    return name.strip() == WILDCARD


def _plain(name: str) -> str:
    """Lower-case NFC of at most REF_MAX_BYTES, each run of white space and control characters one space."""
    # Cut first: folding a megabyte that somebody sent as a name is work for nothing.
    head = unicodedata.normalize("NFC", name.strip()[: limits.REF_MAX_BYTES])
    lowered = unicodedata.normalize("NFC", head.lower())
    spaced = "".join(" " if unicodedata.category(char) == "Cc" else char for char in lowered)
    encoded = " ".join(spaced.split()).encode("utf-8", "replace")[: limits.REF_MAX_BYTES]
    return encoded.decode("utf-8", "ignore").strip()

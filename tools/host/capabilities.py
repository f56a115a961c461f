"""The ten tools that a host can grant, in the order in which they are listed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

SEARCH = "engram_memory_search"
GET = "engram_memory_get"
CAPTURE = "engram_memory_capture"
REQUEST_ADMISSION = "engram_memory_request_admission"
WITHDRAW = "engram_memory_withdraw"
FORGET = "engram_memory_forget"
SAVE_MESSAGE = "save_message"
SEARCH_MEMORY = "search_memory"
MANAGE_KNOWLEDGE = "manage_knowledge"
MEMORY_STARTUP = "memory_startup"


MAINTAIN = "maintain"
"""The operation of a person at the machine, which is no capability and is granted to nobody (CONTRACT §8)."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One tool, as the host sees it."""

    name: str
    harmless: bool  # a client may approve it once and for all: it reads, or it appends what nobody finds yet
    confirmed: bool = False  # what of it passes the mutation guard always needs a human's confirmation (CONTRACT §1)


CAPABILITIES: dict[str, Capability] = {
    capability.name: capability
    for capability in (
        Capability(SEARCH, harmless=True),
        Capability(GET, harmless=True),
        Capability(CAPTURE, harmless=True),
        Capability(REQUEST_ADMISSION, harmless=False),
        Capability(WITHDRAW, harmless=False, confirmed=True),
        Capability(FORGET, harmless=False, confirmed=True),
        Capability(SAVE_MESSAGE, harmless=True),
        Capability(SEARCH_MEMORY, harmless=True),
        Capability(MANAGE_KNOWLEDGE, harmless=False, confirmed=True),  # what of it erases
        Capability(MEMORY_STARTUP, harmless=True),
    )
}
ALL_TOOLS: tuple[str, ...] = tuple(CAPABILITIES)

CONVERSATION_TOOLS = frozenset({SAVE_MESSAGE, SEARCH_MEMORY, MANAGE_KNOWLEDGE, MEMORY_STARTUP})
"""The tools whose calls are about the conversations, wherever those lie."""

READING = frozenset({SEARCH, GET, SEARCH_MEMORY, MEMORY_STARTUP})
"""The tools that write nothing."""

CONFIRMABLE: dict[str, str] = {"capture": CAPTURE, "request_admission": REQUEST_ADMISSION}
"""What ``confirmation.require`` may name besides the tools that always need a confirmation."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was most likely meant, or None where nothing is near."""
    candidates = list(known)
    # A short name for a long one is what people write: "search" for "engram_memory_search".
    longer = [candidate for candidate in candidates if candidate.endswith(f"_{name}")]
    if len(longer) == 1:
        return longer[0]
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return close[0] if close else None

"""The ten tools that a host can grant, in the order in which they are listed.

All ten names are known from the first release on, so that a host file written today stays valid: granting a tool that
this release does not serve is accepted, and the tool is simply not listed until a release serves it.
"""

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


@dataclass(frozen=True, slots=True)
class Capability:
    """One tool, as the host sees it."""

    name: str
    served: bool  # by this release
    harmless: bool  # a client may approve it once and for all: it reads, or it appends what nobody finds yet
    confirmed: bool = False  # always needs a human's confirmation (CONTRACT §1)


CAPABILITIES: dict[str, Capability] = {
    capability.name: capability
    for capability in (
        Capability(SEARCH, served=True, harmless=True),
        Capability(GET, served=True, harmless=True),
        Capability(CAPTURE, served=True, harmless=True),
        Capability(REQUEST_ADMISSION, served=True, harmless=False),
        Capability(WITHDRAW, served=True, harmless=False, confirmed=True),
        Capability(FORGET, served=True, harmless=False, confirmed=True),
        Capability(SAVE_MESSAGE, served=False, harmless=True),
        Capability(SEARCH_MEMORY, served=False, harmless=True),
        Capability(MANAGE_KNOWLEDGE, served=False, harmless=False),
        Capability(MEMORY_STARTUP, served=False, harmless=True),
    )
}
ALL_TOOLS: tuple[str, ...] = tuple(CAPABILITIES)

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

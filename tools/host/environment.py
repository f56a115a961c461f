"""What the environment says about conversation memory: names that another system of its kind made usual.

The host file wins over all of them. A value that cannot be read is ignored, and its name is told to the log; no value
ever is, for some of them are secrets.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from journal import limits

AGENT_KEY: Final = "AGENT_KEY"
SHORT_TERM_DAYS: Final = "SHORT_TERM_DAYS"
SHORT_TERM_TOKENS: Final = "SHORT_TERM_TOKEN_LIMIT"

IGNORED: Final = ("AGENT_PLATFORM", "AGENT_MODEL")
"""They labelled every caller of a server alike; a caller says itself what it is."""

STORE_NAMES: Final = (
    "DB_HOST", "DB_PORT", "DB_NAME", "DB_USER", "DB_PASS", "DB_PASSWORD",
    "SSH_ENABLED", "SSH_HOST", "SSH_PORT", "SSH_USER", "SSH_KEY_PATH", "SSH_PASS",
)  # fmt: skip
"""Exactly the names with which that system found its database: SSH_AUTH_SOCK and DB_URL are somebody else's."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the environment says, each None where it says nothing that can be read."""

    agent_key: str | None
    short_term_days: int | None
    short_term_tokens: int | None
    unread: tuple[str, ...]  # the names whose values cannot be read


def read(environ: Mapping[str, str]) -> Told:
    """Return what an environment says. An empty value is none."""
    agent_key = environ.get(AGENT_KEY, "")
    told = {
        SHORT_TERM_DAYS: _whole(environ.get(SHORT_TERM_DAYS, ""), 1, limits.SHORT_TERM_DAYS_MAX),
        SHORT_TERM_TOKENS: _whole(
            environ.get(SHORT_TERM_TOKENS, ""), limits.SHORT_TERM_MIN_TOKENS, limits.SHORT_TERM_MAX_TOKENS
        ),
    }
    unread = [name for name, value in told.items() if environ.get(name) and value is None]
    if not _is_name(agent_key):
        unread.append(AGENT_KEY)
        agent_key = ""
    return Told(agent_key or None, told[SHORT_TERM_DAYS], told[SHORT_TERM_TOKENS], tuple(unread))


def ignored(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that are set and that nothing listens to."""
    return tuple(name for name in IGNORED if environ.get(name))


def store_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that are set and that ask for a store that this host file does not name."""
    return tuple(name for name in STORE_NAMES if environ.get(name))


def _whole(text: str, least: int, most: int) -> int | None:
    """Return a whole number within its bounds, or None. Anything but a few ASCII digits is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    return int(text) if least <= int(text) <= most else None


def _is_name(text: str) -> bool:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:  # bytes that were no UTF-8
        return False
    return size_bytes <= limits.REF_MAX_BYTES and unicodedata.normalize("NFC", text) == text

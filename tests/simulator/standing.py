"""What stands in the reference model: candidates, messages, requests, and which of them may move where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from journal.clock import parse_instant

TTL_MILLISECONDS = 300_000
TERMINAL = {"rejected", "withdrawn", "tombstoned"}
_DISPUTABLE = {"accepted_current", "accepted_disputed"}
LIVE = {*_DISPUTABLE, "historical"}
MOVES: dict[str, tuple[set[str], str]] = {
    "ACCEPT": ({"pending"}, "accepted_current"),
    "REJECT": ({"pending"}, "rejected"),
    "WITHDRAW": ({"pending"}, "withdrawn"),
    "DISPUTE": ({"accepted_current"}, "accepted_disputed"),
    "RESOLVE_DISPUTE": ({"accepted_disputed"}, "accepted_current"),
    "SUPERSEDE": (_DISPUTABLE, "historical"),
    "MARK_NON_CURRENT": (_DISPUTABLE, "historical"),
    "REWIND": ({"historical"}, "accepted_current"),
    "EXPIRE": (LIVE, "expired"),
    "TRUST_INVALIDATE": (LIVE, "trust_invalid"),
    "TOMBSTONE": ({*LIVE, "expired", "trust_invalid"}, "tombstoned"),
}
SUCCEEDING = {"SUPERSEDE": {"accepted_current"}, "REWIND": _DISPUTABLE}
SAID_MOVES: dict[str, tuple[set[str], str]] = {
    "PIN": ({"active"}, "pinned"),
    "UNPIN": ({"pinned"}, "active"),
    "ARCHIVE": ({"active", "pinned"}, "archived"),
    "RESTORE": ({"archived"}, "active"),
}
Told = dict[str, Any]  # arguments, and what of an answer is fixed


class Refuse(Exception):
    """The code that an answer must have."""


@dataclass
class Entry:
    """A candidate, and the record that it may become. Times are epoch milliseconds."""

    workspace: str
    candidate_id: str
    payload: dict[str, Any]
    state: str = "pending"
    record_id: str | None = None
    newest: tuple[str, str, str | None] = ("CAPTURE", "", None)  # the newest event about it: operation, subject, other

    @property
    def text(self) -> str:
        return str(self.payload["components"][0]["text"])

    @property
    def expires_at(self) -> float:
        told = self.payload.get("retention", {}).get("expires_at")
        return float("inf") if told is None else parse_instant(told)

    def is_readable(self, purpose: str, now: int) -> bool:
        valid = self.payload["valid_time"]
        in_time = valid["t"] <= now <= valid.get("t_end", now) and now < self.expires_at
        return self.state == "accepted_current" and in_time and self.payload["purpose_ref"] == purpose


@dataclass
class Said:
    """A message of one principal."""

    workspace: str
    principal: str
    message_id: str
    text: str
    state: str
    tag: str | None = None


@dataclass
class Asked:
    """A request that waits for a person, or did."""

    who: int
    tool: str
    arguments: Told
    confirmation_id: str
    expires_at: int
    is_open: bool = True

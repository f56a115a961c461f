"""What stands in the reference model, and one table of where it may move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from journal.clock import parse_instant
from tests.simulator.cast import PEOPLE

Told = dict[str, Any]  # arguments, and what of an answer is fixed
TERMINAL = {"rejected", "withdrawn", "tombstoned"}
_DISPUTABLE = {"accepted_current", "accepted_disputed"}
LIVE = {*_DISPUTABLE, "historical"}
MOVES: dict[str, tuple[set[str], str]] = {  # operation -> the states that it starts from, the one that it leads to
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
    "PIN": ({"active"}, "pinned"),
    "UNPIN": ({"pinned"}, "active"),
    "ARCHIVE": ({"active", "pinned"}, "archived"),
    "RESTORE": ({"archived"}, "active"),
    "ERASE": ({"active", "pinned", "archived"}, "erased"),
}
SUCCEEDING = {"SUPERSEDE": {"accepted_current"}, "REWIND": _DISPUTABLE}  # the states that the other must then be in
SAID_MOVES = ("ARCHIVE", "PIN", "RESTORE", "UNPIN")
ONCE = {"ACCEPT", "REJECT", *SAID_MOVES}  # ordered again they are refused; all others are told as done


@dataclass
class Thing:
    """A candidate, which may become a record and is its workspace's; without a payload a message, which is its own."""

    who: int
    name: str  # its candidate or message id
    text: str
    state: str
    payload: Told | None = None
    record_id: str | None = None
    newest: tuple[str, str | None] = ("", None)  # the newest that was done to it, and the other that it was done with
    tag: str | None = None

    @property
    def workspace(self) -> str:
        return PEOPLE[self.who].workspace

    def is_of(self, who: int) -> bool:
        return self.who == who if self.payload is None else self.workspace == PEOPLE[who].workspace

    def is_readable(self, purpose: str, now: int) -> bool:
        assert self.payload is not None
        valid = self.payload["valid_time"]
        in_time = valid["t"] <= now <= valid.get("t_end", now) and now < expiry(self.payload)
        return self.state == "accepted_current" and in_time and self.payload["purpose_ref"] == purpose


def expiry(payload: Told) -> float:
    """Return when a payload expires, in epoch milliseconds."""
    told = payload.get("retention", {}).get("expires_at")
    return float("inf") if told is None else parse_instant(told)


@dataclass(frozen=True)
class Call:
    """An agent's call."""

    who: int
    tool: str
    arguments: Told


@dataclass
class Asked:
    """A call that waits for a person, or did."""

    call: Call
    confirmation_id: str
    expires_at: int
    is_open: bool = True

    @property
    def workspace(self) -> str:
        return PEOPLE[self.call.who].workspace

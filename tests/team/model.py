"""What the team's memory is to hold and to answer, in plain lists: a second opinion, from the contract alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.team.cast import MARKERS, Person, Place
from tools.host.capabilities import (
    CAPTURE,
    FORGET,
    GET,
    MANAGE_KNOWLEDGE,
    MEMORY_STARTUP,
    REQUEST_ADMISSION,
    SAVE_MESSAGE,
    SEARCH,
    SEARCH_MEMORY,
    WITHDRAW,
)

OK, UNKNOWN_TOOL, UNTRUSTED = "ok", "-32602", "-32603"
_KEYED = {
    CAPTURE: ("payload", "evidence"),
    REQUEST_ADMISSION: ("candidate_id",),
    WITHDRAW: ("candidate_id", "reason_ref"),
    FORGET: ("record_id", "reason_ref"),
}
_FIELDS = {
    SEARCH: {"query", "purpose_ref", "limit", "page_cursor"},
    GET: {"record_id", "purpose_ref"},
    SAVE_MESSAGE: {"role", "message"},
    SEARCH_MEMORY: {"query", "limit"},
    MANAGE_KNOWLEDGE: {"action", "target", "content", "memory_id", "erase"},
    MEMORY_STARTUP: set[str](),
    **{tool: {"idempotency_key", *named} for tool, named in _KEYED.items()},
}


@dataclass
class Entry:
    """A candidate, and the record that it may have become."""

    place: Place
    captured_by: str
    candidate_id: str
    text: str
    purpose: str
    state: str = "pending"
    record_id: str | None = None


@dataclass
class Said:
    """A message of one principal."""

    place: Place
    principal: str
    message_id: str
    text: str
    state: str = "active"


@dataclass
class Asked:
    """An operation that waits for a person."""

    place: Place
    principal: str
    tool: str
    target: str
    arguments: dict[str, Any]


@dataclass
class Model:
    """All scopes of the store."""

    entries: list[Entry] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    keys: dict[tuple[Place, str, str], str] = field(default_factory=dict)
    asked: dict[tuple[Place, str, str], Asked] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)  # (principal, tool) that were revoked
    off: set[str] = field(default_factory=set)  # tenants that opted out

    # --- what is there ------------------------------------------------------------------------------

    def candidate(self, place: Place, candidate_id: str) -> Entry | None:
        """Return a candidate of a scope."""
        return next((each for each in self.entries if (each.place, each.candidate_id) == (place, candidate_id)), None)

    def record(self, place: Place, record_id: str) -> Entry | None:
        """Return a record of a scope."""
        return next((each for each in self.entries if (each.place, each.record_id) == (place, record_id)), None)

    def message(self, person: Person, message_id: str) -> Said | None:
        """Return a message of a principal's own in its scope."""
        owner = (person.place, person.name, message_id)
        return next((each for each in self.said if (each.place, each.principal, each.message_id) == owner), None)

    def found(self, person: Person, purpose: str, word: str) -> set[str]:
        """Return the ids of the records that this one finds by a word."""
        return {
            str(each.record_id)
            for each in self.entries
            if each.place == person.place and each.state == "accepted_current"
            and each.purpose in person.readable(purpose) and word in each.text.split()
        }  # fmt: skip

    def recalled(self, person: Person, word: str) -> set[str]:
        """Return the ids of the messages that this one finds by a word."""
        return {
            each.message_id
            for each in self.said
            if each.place == person.place and each.principal == person.name
            and each.state in ("active", "pinned") and word in each.text.split()
        }  # fmt: skip

    def ids_of(self, place: Place) -> set[str]:
        """Return every id of a scope."""
        known = {name for each in self.entries for name in (each.candidate_id, each.record_id) if each.place == place}
        return {name for name in known if name} | {each.message_id for each in self.said if each.place == place}

    def counts(self, place: Place) -> dict[str, Counter[str]]:
        """Return how many there are in each state."""
        entries = [each for each in self.entries if each.place == place]
        return {
            "candidates": Counter(each.state for each in entries if each.record_id is None),
            "records": Counter(each.state for each in entries if each.record_id is not None),
            "messages": Counter(each.state for each in self.said if each.place == place),
            "open": Counter(open=sum(each.place == place for each in self.asked.values())),
        }

    def listed(self, person: Person) -> list[str]:
        """Return the tools that this one is granted now."""
        tools = () if person.place[0] in self.off else person.listed
        return sorted(tool for tool in tools if (person.name, tool) not in self.taken)

    # --- what a call is to be answered ----------------------------------------------------------------

    def verdict(self, person: Person, tool: str, arguments: dict[str, Any], *, at_most: bool = False) -> str:
        """Return ``ok``, or the code that denies the call; of one that waits for a person ``gate_failed``.

        ``at_most``: as if all that the host file allows were granted.
        """
        if tool not in (person.listed if at_most else self.listed(person)):
            return UNKNOWN_TOOL
        if not set(arguments) <= _FIELDS[tool] or None in arguments.values():
            return "INVALID_SCHEMA"
        purpose = arguments.get("payload", arguments).get("purpose_ref")
        if purpose is not None and purpose not in person.purposes:
            return UNTRUSTED
        if tool in _KEYED:
            known = self.keys.get((person.place, person.name, arguments["idempotency_key"]))
            if known is not None:
                return OK if known == _intent(tool, arguments) else "DIGEST_CONFLICT"
        return str(getattr(self, f"_{tool.removeprefix('engram_memory_')}")(person, arguments))

    def _search(self, _person: Person, _arguments: dict[str, Any]) -> str:
        return OK

    _capture = _save_message = _search_memory = _memory_startup = _search

    def _get(self, person: Person, arguments: dict[str, Any]) -> str:
        entry = self.record(person.place, arguments["record_id"])
        readable = person.readable(arguments["purpose_ref"])
        is_there = entry is not None and entry.state == "accepted_current" and entry.purpose in readable
        return OK if is_there else "NOT_FOUND"

    def _request_admission(self, person: Person, arguments: dict[str, Any]) -> str:
        entry = self.candidate(person.place, arguments["candidate_id"])
        if entry is None:
            return "NOT_FOUND"
        return "ALREADY_TERMINAL" if entry.state == "withdrawn" else OK

    def _withdraw(self, person: Person, arguments: dict[str, Any]) -> str:
        entry = self.candidate(person.place, arguments["candidate_id"])
        if entry is None:
            return "NOT_FOUND"
        return {"pending": "gate_failed", "accepted_current": "ILLEGAL_TRANSITION"}.get(entry.state, "ALREADY_TERMINAL")

    def _forget(self, person: Person, arguments: dict[str, Any]) -> str:
        entry = self.record(person.place, arguments["record_id"])
        if entry is None:
            return "NOT_FOUND"
        return "gate_failed" if entry.state == "accepted_current" else "ALREADY_TERMINAL"

    def _manage_knowledge(self, person: Person, arguments: dict[str, Any]) -> str:
        if arguments["action"] == "add":
            return OK
        said = self.message(person, arguments["memory_id"])
        if said is None:
            return "NOT_FOUND"
        if arguments.get("erase"):
            return "gate_failed"
        return "ILLEGAL_TRANSITION" if arguments["action"] == "remove" and said.state == "archived" else OK

    # --- what a call that was answered changes ----------------------------------------------------------

    def take(self, person: Person, tool: str, arguments: dict[str, Any], verdict: str, value: dict[str, Any]) -> None:
        """Take over what a call did."""
        place = person.place
        if verdict == "gate_failed":
            target = arguments.get("candidate_id") or arguments.get("record_id") or arguments["memory_id"]
            one = (place, person.name, json.dumps([tool, arguments], sort_keys=True))
            self.asked[one] = Asked(place, person.name, tool, target, arguments)
        if verdict != OK:
            return
        if tool == CAPTURE and value["status"] == "committed_pending":
            text = arguments["payload"]["components"][0]["text"]
            purpose = arguments["payload"]["purpose_ref"]
            self.entries.append(Entry(place, person.name, value["candidate_id"], text, purpose))
        if tool in (CAPTURE, REQUEST_ADMISSION) and "duplicate_exact" not in str(value):
            self.keys[place, person.name, arguments["idempotency_key"]] = _intent(tool, arguments)
        if tool == REQUEST_ADMISSION and value["outcome"]["status"] == "accepted":
            entry = self.candidate(place, arguments["candidate_id"])
            assert entry is not None
            entry.state, entry.record_id = "accepted_current", value["outcome"]["record_id"]
        if tool == SAVE_MESSAGE:
            self.said.append(Said(place, person.name, value["id"], arguments["message"]))
        if tool == MANAGE_KNOWLEDGE:
            self._know(person, arguments, value)

    def _know(self, person: Person, arguments: dict[str, Any], value: dict[str, Any]) -> None:
        if arguments["action"] == "add":
            self.said.append(Said(person.place, person.name, value["id"], arguments["content"], "pinned"))
            return
        said = self.message(person, arguments["memory_id"])
        assert said is not None
        if arguments["action"] == "update":
            said.text = arguments["content"]
        else:
            said.state = "archived"

    def can_run(self, asked: Asked) -> bool:
        """Whether an operation that waits is still possible."""
        if asked.tool == MANAGE_KNOWLEDGE:
            return True
        return self._entry(asked).state == ("pending" if asked.tool == WITHDRAW else "accepted_current")

    def approve(self, asked: Asked) -> None:
        """Take over what a person approved."""
        del self.asked[next(one for one, each in self.asked.items() if each is asked)]
        if asked.tool == WITHDRAW:
            self._entry(asked).state = "withdrawn"
        elif asked.tool == FORGET:
            self._entry(asked).state = "tombstoned"
        else:
            next(each for each in self.said if each.message_id == asked.target).state = "erased"
            return
        self.keys[asked.place, asked.principal, asked.arguments["idempotency_key"]] = _intent(
            asked.tool, asked.arguments
        )

    def void(self, places: set[Place], early: set[tuple[Place, str, str]], listed: set[str]) -> Counter[Place]:
        """Take over that an epoch was raised in some places while calls ran: what is not listed there was void by then.

        Of what was asked for ``early``, before the last of them, which came first is the journal's to say. Returns how
        many were void.
        """
        void: Counter[Place] = Counter()
        for one, each in list(self.asked.items()):
            if one in early and each.place in places and each.target not in listed:
                del self.asked[one]
                void[each.place] += 1
        return void

    def deny(self, asked: Asked) -> None:
        """Take over what a person denied."""
        del self.asked[next(one for one, each in self.asked.items() if each is asked)]

    def _entry(self, asked: Asked) -> Entry:
        entry = self.candidate(asked.place, asked.target) or self.record(asked.place, asked.target)
        assert entry is not None
        return entry


def _intent(tool: str, arguments: dict[str, Any]) -> str:
    return json.dumps([tool, *(arguments[name] for name in _KEYED[tool])], sort_keys=True)


def foreign_markers(place: Place) -> set[str]:
    """Return the words that must not show to anybody of a scope."""
    return {word for other, word in MARKERS.items() if other != place}

"""What every answer must be: the contract, said once more in plain lists. It knows nothing of how the store works.

``answer`` returns (code, told): ``told`` is what of the value is fixed beforehand, compared member by member. ``take``
is then given the value of an answer that is as it must be, for the ids in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from journal.clock import parse_instant
from tests.simulator.cast import PEOPLE, SECRETS, normal
from tests.simulator.standing import (
    LIVE,
    MOVES,
    SAID_MOVES,
    SUCCEEDING,
    TERMINAL,
    TTL_MILLISECONDS,
    Asked,
    Entry,
    Refuse,
    Said,
    Told,
)


@dataclass
class Model:
    """All scopes of the store."""

    entries: list[Entry] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    keys: dict[tuple[str, str, str], tuple[str, Told]] = field(default_factory=dict)  # identity -> intent, first answer
    tags: dict[tuple[str, str], dict[str, str | None]] = field(default_factory=dict)  # owner -> name -> alias of
    erased: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # owner -> messages that it had erased

    # --- an agent's calls -------------------------------------------------------------------------

    def answer(self, who: int, tool: str, arguments: Told, now: int) -> tuple[str, Told]:
        """Return what a call must be answered."""
        try:
            return "ok", getattr(self, f"_{tool.removeprefix('engram_memory_')}")(who, tool, arguments, now)
        except Refuse as refusal:
            return str(refusal), {}

    def _known(self, who: int, tool: str, arguments: Told) -> Told | None:
        """Return the first answer under this key; None where the key is not reserved."""
        intent, told = self.keys.get(self._identity(who, arguments), ("", {}))
        if intent and intent != _intent(tool, arguments):
            raise Refuse("DIGEST_CONFLICT")
        return told if intent else None

    def _identity(self, who: int, arguments: Told) -> tuple[str, str, str]:
        return PEOPLE[who].workspace, PEOPLE[who].principal, arguments["idempotency_key"]

    def _capture(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        known = self._known(who, tool, arguments)
        if known is not None:
            return {**known, "status": "duplicate_exact"}
        expires = arguments["payload"].get("retention", {}).get("expires_at")
        if expires is not None and parse_instant(expires) <= now:
            raise Refuse("INVALID_SCHEMA")
        return {"status": "committed_pending"}

    def _request_admission(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        known = self._known(who, tool, arguments)
        if known is not None:
            return {**known, "replayed": True}
        entry = self.entry(who, arguments["candidate_id"])
        if entry.state == "withdrawn":
            raise Refuse("ALREADY_TERMINAL")
        if entry.state != "pending":
            return {"status": "duplicate_exact", "replayed": False, "record_id": entry.record_id}
        if entry.text in SECRETS:
            return {"status": "rejected", "replayed": False}
        waits = PEOPLE[who].policy == "adjudicate" or self.is_forgotten(entry)
        return {"status": "pending_adjudication" if waits else "accepted", "replayed": False}

    def _withdraw(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        known = self._known(who, tool, arguments)
        if known is not None:
            return {**known, "replayed": True}
        self.check_move(self.entry(who, arguments["candidate_id"]), "WITHDRAW")
        raise Refuse("gate_failed")

    def _forget(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        known = self._known(who, tool, arguments)
        if known is not None:
            return {**known, "replayed": True}
        self.check_move(self.record(who, arguments["record_id"]), "TOMBSTONE")
        raise Refuse("gate_failed")

    def _get(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        entry = self.record(who, arguments["record_id"])
        if not entry.is_readable(arguments["purpose_ref"], now):
            raise Refuse("NOT_FOUND")
        return {"record_id": entry.record_id, "text": entry.text}

    def _search(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        here = [each for each in self.entries if each.workspace == PEOPLE[who].workspace]
        readable = [each for each in here if each.is_readable(arguments["purpose_ref"], now)]
        return {"found": sorted(str(each.record_id) for each in readable if holds(each.text, arguments["query"]))}

    def _save_message(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        return {"stored": True}

    def _search_memory(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        wanted = {"active", "pinned"} | ({"archived"} if arguments.get("include_archived") else set())
        own = [each for each in self.said if owner_of(each) == owner(who) and each.state in wanted]
        if "p_tag" in arguments:
            family = self.family(who, arguments["p_tag"])
            own = [each for each in own if each.tag in family]
        if "query" in arguments:
            own = [each for each in own if holds(each.text, arguments["query"])]
        return {"found": sorted(each.message_id for each in own)}

    def _manage_knowledge(self, who: int, tool: str, arguments: Told, now: int) -> Told:
        if arguments["action"] == "add":
            return {"stored": True}
        message_id = arguments["memory_id"]
        if arguments.get("erase") and message_id in self.erased.get(owner(who), set()):
            return {"erased": True, "id": message_id}
        said = self.message(who, message_id)
        if arguments.get("erase"):
            raise Refuse("gate_failed")
        if arguments["action"] == "update":
            return {"stored": True, "id": message_id}
        self.check_said(said, "ARCHIVE")
        return {"archived": True, "id": message_id}

    # --- what a call changes ----------------------------------------------------------------------

    def take(self, who: int, tool: str, arguments: Told, told: Told, value: Told) -> None:
        """Take over what a call did that was answered as ``answer`` said."""
        place = PEOPLE[who]
        if tool == "engram_memory_capture" and told["status"] == "committed_pending":
            entry = Entry(place.workspace, value["candidate_id"], arguments["payload"])
            self.entries.append(entry)
            self.reserve(who, tool, arguments, {"candidate_id": entry.candidate_id, "cursor": value["cursor"]})
        elif tool == "engram_memory_request_admission" and not told["replayed"]:
            status = told["status"]
            entry = self.entry(who, arguments["candidate_id"])
            if status in ("accepted", "rejected"):
                self.move(entry, "ACCEPT" if status == "accepted" else "REJECT")
                entry.record_id = value.get("record_id")
            if status != "duplicate_exact":
                same = {name: value.get(name) for name in ("candidate_id", "cursor", "record_id")}
                self.reserve(who, tool, arguments, {"status": status, **same})
        elif tool == "save_message":
            self.said.append(Said(place.workspace, place.principal, value["id"], arguments["message"], "active"))
        elif tool == "manage_knowledge" and arguments["action"] == "add":
            self.said.append(Said(place.workspace, place.principal, value["id"], arguments["content"], "pinned"))
        elif tool == "manage_knowledge" and arguments["action"] == "update":
            self.message(who, arguments["memory_id"]).text = arguments["content"]
        elif tool == "manage_knowledge" and not arguments.get("erase"):
            self.message(who, arguments["memory_id"]).state = "archived"

    def reserve(self, who: int, tool: str, arguments: Told, told: Told) -> None:
        """Take over that a key stands for this call from now on."""
        self.keys.setdefault(self._identity(who, arguments), (_intent(tool, arguments), told))

    def ask(self, who: int, tool: str, arguments: Told, now: int, confirmation_id: str) -> Asked:
        """Take over that a call waits for a person; return the request that it joined or opened."""
        one = _asking(who, tool, arguments)
        for each in self.asked:
            if each.is_open and _asking(each.who, each.tool, each.arguments) == one:
                if now < each.expires_at:
                    return each
                each.is_open = False
        self.asked.append(Asked(who, tool, arguments, confirmation_id, now + TTL_MILLISECONDS))
        return self.asked[-1]

    # --- a person's -------------------------------------------------------------------------------

    def decide(self, asked: Asked, now: int, *, approves: bool) -> str:
        """Decide a request, and take over what that does; return the code."""
        if not asked.is_open:
            return "gate_failed"
        if now >= asked.expires_at:
            self.expire_requests(PEOPLE[asked.who].workspace, now)
            return "gate_failed"
        asked.is_open = False
        if not approves:
            return "ok"
        code, _ = self.answer(asked.who, asked.tool, asked.arguments, now)
        if code == "gate_failed":
            self._run(asked)
            return "ok"
        return code

    def _run(self, asked: Asked) -> None:
        arguments = asked.arguments
        if asked.tool == "manage_knowledge":
            self.message(asked.who, arguments["memory_id"]).state = "erased"
            self.erased.setdefault(owner(asked.who), set()).add(arguments["memory_id"])
            return
        if asked.tool == "engram_memory_withdraw":
            self.move(self.entry(asked.who, arguments["candidate_id"]), "WITHDRAW")
        else:
            self.move(self.record(asked.who, arguments["record_id"]), "TOMBSTONE")
        self.reserve(asked.who, asked.tool, arguments, {})

    def expire_requests(self, workspace: str, now: int) -> int:
        """End what was not decided in time; return how many there were."""
        over = [each for each in self.asked if each.is_open and PEOPLE[each.who].workspace == workspace]
        over = [each for each in over if now >= each.expires_at]
        for each in over:
            each.is_open = False
        return len(over)

    def adjudicate(self, who: int, candidate_id: str, decision: str, *, anyway: bool) -> str:
        """Decide a candidate, and take that over; return the code."""
        try:
            entry = self.entry(who, candidate_id)
            self.check_move(entry, "ACCEPT")
        except Refuse as refusal:
            return str(refusal)
        if decision == "accept" and (entry.text in SECRETS or (self.is_forgotten(entry) and not anyway)):
            return "refused"
        self.move(entry, decision.upper())
        return "ok"

    def order(self, who: int, operation: str, candidate_id: str, successor_id: str | None) -> tuple[str, bool]:
        """Carry out an operator's order, and take that over; return the code, and whether it was done before."""
        try:
            entry = self.entry(who, candidate_id)
            if entry.newest == (operation, candidate_id, successor_id):
                return "ok", True
            self.check_move(entry, operation)
            if operation in SUCCEEDING:
                self._succeed(who, operation, candidate_id, str(successor_id))
        except Refuse as refusal:
            return str(refusal), False
        self.move(entry, operation, successor_id)
        return "ok", False

    def _succeed(self, who: int, operation: str, candidate_id: str, successor_id: str) -> None:
        if candidate_id == successor_id:
            raise Refuse("ILLEGAL_TRANSITION")
        other = self.entry(who, successor_id)
        if other.state not in SUCCEEDING[operation]:
            raise Refuse("ILLEGAL_TRANSITION")
        if operation == "REWIND":
            other.state, other.newest = "historical", (operation, candidate_id, successor_id)

    def expire(self, who: int, now: int) -> None:
        """Take over that what has expired got its event, and its end where the host says so."""
        for entry in self.entries:
            if entry.workspace == PEOPLE[who].workspace and now >= entry.expires_at:
                if entry.state in LIVE:
                    self.move(entry, "EXPIRE")
                if entry.state == "expired" and PEOPLE[who].destroy_expired:
                    self.move(entry, "TOMBSTONE")

    def move_said(self, who: int, message_id: str, operation: str) -> str:
        """Pin, unpin, archive or restore a message, and take that over; return the code."""
        try:
            said = self.message(who, message_id)
            self.check_said(said, operation)
        except Refuse as refusal:
            return str(refusal)
        said.state = SAID_MOVES[operation][1]
        return "ok"

    def tag(self, who: int, message_id: str, tag: str) -> str:
        """Tag a message, and take that over; return the code."""
        try:
            self.message(who, message_id).tag = tag
        except Refuse as refusal:
            return str(refusal)
        self.know_tag(who, tag)
        return "ok"

    def know_tag(self, who: int, tag: str) -> None:
        """Take over that a project tag is known."""
        self.tags.setdefault(owner(who), {}).setdefault(tag, None)

    def alias(self, who: int, tag: str, of: str | None) -> str:
        """Say of a tag that it stands for another, and take that over; return the code."""
        tags = self.tags.setdefault(owner(who), {})
        if tag not in tags or (of is not None and of not in tags) or (of is None and tags[tag] is None):
            return "NOT_FOUND"
        if of is not None and self._last(tags, of, stop=tag) == tag:
            return "ILLEGAL_TRANSITION"
        tags[tag] = of
        return "ok"

    # --- what stands ------------------------------------------------------------------------------

    def entry(self, who: int, candidate_id: str) -> Entry:
        """Return a candidate of a scope."""
        return self._only(each for each in self.entries
                          if (each.workspace, each.candidate_id) == (PEOPLE[who].workspace, candidate_id))  # fmt: skip

    def record(self, who: int, record_id: str) -> Entry:
        """Return a record of a scope."""
        return self._only(each for each in self.entries
                          if (each.workspace, each.record_id) == (PEOPLE[who].workspace, record_id))  # fmt: skip

    def message(self, who: int, message_id: str) -> Said:
        """Return a message of a principal's own that is not erased."""
        return self._only(each for each in self.said if owner_of(each) == owner(who)
                          and each.message_id == message_id and each.state != "erased")  # fmt: skip

    def _only(self, found: Any) -> Any:
        one = next(iter(found), None)
        if one is None:
            raise Refuse("NOT_FOUND")
        return one

    def check_move(self, entry: Entry, operation: str) -> None:
        """Refuse what an entry's state forbids."""
        if entry.state not in MOVES[operation][0]:
            raise Refuse("ALREADY_TERMINAL" if entry.state in TERMINAL else "ILLEGAL_TRANSITION")

    def check_said(self, said: Said, operation: str) -> None:
        """Refuse what a message's state forbids."""
        if said.state not in SAID_MOVES[operation][0]:
            raise Refuse("ILLEGAL_TRANSITION")

    def move(self, entry: Entry, operation: str, other: str | None = None) -> None:
        """Move an entry on."""
        entry.state, entry.newest = MOVES[operation][1], (operation, entry.candidate_id, other)

    def is_forgotten(self, entry: Entry) -> bool:
        """Whether a record of the same words was forgotten in this scope."""
        return any(each.state == "tombstoned" and each.workspace == entry.workspace
                   and normal(each.text) == normal(entry.text) for each in self.entries)  # fmt: skip

    def family(self, who: int, tag: str) -> set[str]:
        """Return the tags that stand for the same project."""
        tags = self.tags.get(owner(who), {})
        return {each for each in tags if tag in tags and self._last(tags, each) == self._last(tags, tag)}

    def _last(self, tags: dict[str, str | None], tag: str, stop: str | None = None) -> str:
        following = tags[tag]
        return tag if tag == stop or following is None else self._last(tags, following, stop)

    def open_requests(self, workspace: str, now: int) -> list[str]:
        """Return the ids of what waits for a person."""
        here = [each for each in self.asked if PEOPLE[each.who].workspace == workspace]
        return sorted(each.confirmation_id for each in here if each.is_open and now < each.expires_at)


def owner(who: int) -> tuple[str, str]:
    """Return whose a person's messages and tags are."""
    return PEOPLE[who].workspace, PEOPLE[who].principal


def owner_of(said: Said) -> tuple[str, str]:
    """Return whose a message is."""
    return said.workspace, said.principal


def _intent(tool: str, arguments: Told) -> str:
    return json.dumps([tool, {**arguments, "idempotency_key": ""}], sort_keys=True)


def _asking(who: int, tool: str, arguments: Told) -> tuple[tuple[str, str], str]:
    return owner(who), json.dumps([tool, arguments], sort_keys=True)


def holds(text: str, word: str) -> bool:
    """Whether a text holds a word."""
    return word in normal(text).split()

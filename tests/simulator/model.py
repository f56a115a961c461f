"""What every answer must be: the contract, said once more over plain lists. It knows nothing of how the store works.

An agent's call is a generator: before its ``yield`` stands what it must be answered, behind it what it changes. What a
person orders changes at once.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.cast import PEOPLE, SECRETS, normal
from tests.simulator.standing import LIVE, MOVES, ONCE, SUCCEEDING, TERMINAL, Asked, Call, Thing, Told, expiry

TTL_MILLISECONDS = 300_000
A_PERSON: Told = {"waits": "for a person"}
Steps = Generator[Told, Told, Any]  # yields what is fixed, is sent the value; returns what a key is answered again


class Refuse(Exception):
    """The code that an answer must have."""


@dataclass
class Model:
    """All scopes of the store."""

    things: list[Thing] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    keys: dict[tuple[int, str], tuple[Call, Told]] = field(default_factory=dict)  # -> the first call and its answer
    tags: dict[int, dict[str, str | None]] = field(default_factory=lambda: {who: {} for who in range(len(PEOPLE))})

    # --- an agent's calls -------------------------------------------------------------------------

    def answer(self, call: Call, now: int) -> tuple[str, Told, Steps]:
        """Return the code, what of the value is fixed, and what ``take`` is given once it was answered so."""
        steps = self._steps(call, now)
        try:
            told = next(steps)
        except Refuse as refusal:
            return str(refusal), {}, steps
        return ("gate_failed" if told is A_PERSON else "ok"), told, steps

    def take(self, steps: Steps, value: Told) -> None:
        """Take over what a call did; ``value`` has the ids that it was answered."""
        with suppress(StopIteration):
            steps.send(value)

    def _steps(self, call: Call, now: int) -> Steps:
        key = call.who, call.arguments.get("idempotency_key", "")
        first, told = self.keys.get(key, (call, None))
        if first != call:
            raise Refuse("DIGEST_CONFLICT")
        if told is not None:
            yield told | ({"status": "duplicate_exact"} if call.tool.endswith("capture") else {"replayed": True})
            return
        kept = yield from getattr(self, f"_{call.tool.removeprefix('engram_memory_')}")(call, call.arguments, now)
        if kept is not None:  # from now on the key stands for this call, and is answered so
            self.keys.setdefault(key, (call, kept))

    def _capture(self, call: Call, told: Told, now: int) -> Steps:
        payload = told["payload"]
        if expiry(payload) <= now:
            raise Refuse("INVALID_SCHEMA")
        value = yield {"status": "committed_pending"}
        text = payload["components"][0]["text"]
        self.things.append(Thing(call.who, value["candidate_id"], text, "pending", payload))
        return _of(value, "candidate_id", "cursor")

    def _request_admission(self, call: Call, told: Told, now: int) -> Steps:
        entry = self.find(call.who, told["candidate_id"])
        if entry.state == "withdrawn":
            raise Refuse("ALREADY_TERMINAL")
        if entry.state != "pending":
            yield {"status": "duplicate_exact", "replayed": False, "record_id": entry.record_id}
            return None
        waits = PEOPLE[call.who].policy == "adjudicate" or self.is_forgotten(entry)
        status = "rejected" if entry.text in SECRETS else "pending_adjudication" if waits else "accepted"
        value = yield {"status": status, "replayed": False}
        if status != "pending_adjudication":
            self.move(entry, "ACCEPT" if status == "accepted" else "REJECT")
            entry.record_id = value.get("record_id")
        return _of(value, "status", "candidate_id", "cursor", "record_id")

    def _withdraw(self, call: Call, told: Told, now: int) -> Steps:
        return self._ended(call, told["candidate_id"], "WITHDRAW")

    def _forget(self, call: Call, told: Told, now: int) -> Steps:
        return self._ended(call, told["record_id"], "TOMBSTONE")

    def _ended(self, call: Call, name: str, operation: str) -> Steps:
        thing = self.find(call.who, name)
        self.check(thing, operation)
        yield A_PERSON
        self.move(thing, operation)
        return {}

    def _get(self, call: Call, told: Told, now: int) -> Steps:
        entry = self.find(call.who, told["record_id"])
        if not entry.is_readable(told["purpose_ref"], now):
            raise Refuse("NOT_FOUND")
        yield {"record_id": entry.record_id, "text": entry.text}

    def _search(self, call: Call, told: Told, now: int) -> Steps:
        readable = [each for each in self.of(call.who) if each.payload and each.is_readable(told["purpose_ref"], now)]
        yield {"found": sorted(str(each.record_id) for each in readable if _holds(each, told["query"]))}

    def _save_message(self, call: Call, told: Told, now: int) -> Steps:
        return self._said(call, told["message"], "active")

    def _said(self, call: Call, text: str, state: str) -> Steps:
        value = yield {"stored": True}
        self.things.append(Thing(call.who, value["id"], text, state))

    def _search_memory(self, call: Call, told: Told, now: int) -> Steps:
        wanted = {"active", "pinned", "archived"} if told.get("include_archived") else {"active", "pinned"}
        found = [each for each in self.of(call.who) if not each.payload and each.state in wanted]
        if "p_tag" in told:
            tags = self.tags[call.who]
            same = _chain(tags, told["p_tag"])[-1]
            found = [each for each in found if each.tag is not None and _chain(tags, each.tag)[-1] == same]
        yield {"found": sorted(each.name for each in found if _holds(each, told.get("query")))}

    def _manage_knowledge(self, call: Call, told: Told, now: int) -> Steps:
        if told["action"] == "add":
            return self._said(call, told["content"], "pinned")
        return self._erased(call, told) if told.get("erase") else self._changed(call, told)

    def _erased(self, call: Call, told: Told) -> Steps:
        if any(each.name == told["memory_id"] and each.state == "erased" for each in self.of(call.who)):
            yield {"erased": True, "id": told["memory_id"]}
        else:
            yield from self._ended(call, told["memory_id"], "ERASE")

    def _changed(self, call: Call, told: Told) -> Steps:
        said = self.find(call.who, told["memory_id"])
        if told["action"] == "update":
            yield {"stored": True, "id": said.name}
            said.text = told["content"]
        else:
            self.check(said, "ARCHIVE")
            yield {"archived": True, "id": said.name}
            self.move(said, "ARCHIVE")

    # --- what waits for a person ------------------------------------------------------------------

    def ask(self, call: Call, now: int, confirmation_id: str) -> Asked:
        """Take over that a call waits; return the request that it joined or opened."""
        for each in self.asked:
            if each.is_open and each.call == call:
                if now < each.expires_at:
                    return each
                each.is_open = False
        self.asked.append(Asked(call, confirmation_id, now + TTL_MILLISECONDS))
        return self.asked[-1]

    def decide(self, asked: Asked, now: int, *, approves: bool) -> None:
        """Decide a request, and take over what that does."""
        if asked.is_open and now >= asked.expires_at:
            self.expire_requests(asked.call.who, now)
        if not asked.is_open:
            raise Refuse("gate_failed")
        asked.is_open = False
        if approves:
            code, _, steps = self.answer(asked.call, now)
            if code not in ("ok", "gate_failed"):
                raise Refuse(code)
            self.take(steps, {})

    def expire_requests(self, who: int, now: int) -> None:
        """End what was not decided in time."""
        for each in self.asked:
            if each.workspace == PEOPLE[who].workspace and now >= each.expires_at:
                each.is_open = False

    # --- a person's orders ------------------------------------------------------------------------

    def ordered(self, do: str, *given: Any, **told: Any) -> str:
        """Take over what a person does; return the code that it must have."""
        try:
            getattr(self, do)(*given, **told)
        except Refuse as refusal:
            return str(refusal)
        return "ok"

    def is_done(self, who: int, operation: str, name: str, other: str | None) -> bool:
        """Whether an order is the newest that was done to a thing: it is told so again, whoever comes with it."""
        return operation not in ONCE and any(
            each.name == name and each.newest == (operation, other) for each in self.of(who)
        )

    def order(self, who: int, operation: str, name: str, other: str | None = None, *, anyway: bool = True) -> None:
        """Move a thing on as a person orders; ``anyway``: also where its words were forgotten."""
        if self.is_done(who, operation, name, other):
            return
        thing = self.find(who, name)
        self.check(thing, operation)
        if operation == "ACCEPT" and (thing.text in SECRETS or (self.is_forgotten(thing) and not anyway)):
            raise Refuse("refused")
        if operation in SUCCEEDING:
            second = self.find(who, str(other))
            if second is thing or second.state not in SUCCEEDING[operation]:
                raise Refuse("ILLEGAL_TRANSITION")
            if operation == "REWIND":
                second.state, second.newest = "historical", (f"{operation} of", name)
        self.move(thing, operation, other)

    def expire(self, who: int, now: int) -> None:
        """What has expired gets its event, and its end where the host says so."""
        for each in self.of(who):
            if each.payload and now >= expiry(each.payload):
                if each.state in LIVE:
                    self.move(each, "EXPIRE")
                if each.state == "expired" and PEOPLE[who].destroy_expired:
                    self.move(each, "TOMBSTONE")

    def tag(self, who: int, message_id: str, tag: str) -> None:
        """Tag a message."""
        self.find(who, message_id).tag = tag
        self.add_tag(who, tag)

    def add_tag(self, who: int, tag: str) -> None:
        """Have a project tag known."""
        self.tags[who].setdefault(tag, None)

    def alias(self, who: int, tag: str, of: str | None) -> None:
        """Say of a tag that it stands for another, or for itself again."""
        tags = self.tags[who]
        if tag not in tags or (of is not None and of not in tags) or (of is None and tags[tag] is None):
            raise Refuse("NOT_FOUND")
        if of is not None and tag in _chain(tags, of):
            raise Refuse("ILLEGAL_TRANSITION")
        tags[tag] = of

    # --- what stands ------------------------------------------------------------------------------

    def of(self, who: int) -> list[Thing]:
        """Return the candidates of a person's workspace and the messages of its own."""
        return [each for each in self.things if each.is_of(who)]

    def find(self, who: int, name: str) -> Thing:
        """Return what an id names, unless it is erased."""
        for each in self.of(who):
            if name in (each.name, each.record_id) and each.state != "erased":
                return each
        raise Refuse("NOT_FOUND")

    def check(self, thing: Thing, operation: str) -> None:
        """Refuse what a state forbids."""
        if thing.state not in MOVES[operation][0]:
            raise Refuse("ALREADY_TERMINAL" if thing.state in TERMINAL else "ILLEGAL_TRANSITION")

    def move(self, thing: Thing, operation: str, other: str | None = None) -> None:
        """Move a thing on."""
        thing.state, thing.newest = MOVES[operation][1], (operation, other)

    def is_forgotten(self, entry: Thing) -> bool:
        """Whether a record of the same words was forgotten in this scope."""
        return any(each.state == "tombstoned" and normal(each.text) == normal(entry.text)
                   for each in self.of(entry.who))  # fmt: skip


def _of(value: Told, *names: str) -> Told:
    return {name: value.get(name) for name in names}


def _holds(thing: Thing, word: str | None) -> bool:
    return word is None or word in normal(thing.text).split()


def _chain(tags: dict[str, str | None], tag: str) -> list[str]:
    """Return a tag, the one that it stands for, and so on."""
    following = tags.get(tag)
    return [tag] if following is None else [tag, *_chain(tags, following)]

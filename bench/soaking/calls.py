"""The calls of a soak's clients: what each asks, what it must be answered, and what the book then says."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.soaking.book import ACTIVE, CURRENT, ERASED, FORGOTTEN, PENDING, WITHDRAWN, Book, Kept
from tests.rigs.captures import capture, search
from tests.rigs.place import PURPOSE

RETRIABLE = frozenset(
    {"RATE_LIMITED", "DEADLINE_EXCEEDED", "CANCELLED", "STORE_UNAVAILABLE", "MUTATION_OUTCOME_UNKNOWN",
     "PROJECTION_STALE"}
)  # fmt: skip
ENDINGS = {
    PENDING: ("engram_memory_withdraw", WITHDRAWN),
    CURRENT: ("engram_memory_forget", FORGOTTEN),
    ACTIVE: ("manage_knowledge", ERASED),
}
"""A living state -> the tool that ends it for good, and the state that it ends in."""

Answer = dict[str, Any]


@dataclass
class Planned:
    """One call: how it is named in the figures, the call itself, and what takes its answer."""

    operation: str
    tool: str
    arguments: dict[str, Any]
    answered: Callable[[Answer], None]
    about: Kept | None = None  # what it may change, or what it looks at
    changes: bool = False
    lost: Callable[[], None] = field(default=lambda: None)  # an attempt that no answer came to


class Calls:
    """Makes calls, and holds what came back beside the book."""

    def __init__(self, book: Book) -> None:
        self._book = book

    # --- what changes something -------------------------------------------------------------------

    def capture(self, entry: Kept) -> Planned:
        """Capture a new text."""

        def answered(answer: Answer) -> None:
            entry.subject = self._value(answer, "capture", entry)["candidate_id"]
            self._change(entry, PENDING)
            self._book.add(entry)

        return Planned(
            "capture", "engram_memory_capture", capture(entry.text, entry.key), answered, entry, changes=True
        )

    def again(self, entry: Kept) -> Planned:
        """Send a capture that was answered again under its key: it must be the same candidate."""
        ended = entry.state

        def answered(answer: Answer) -> None:
            said = self._value(answer, "capture again", entry)
            if (said["status"], said["candidate_id"]) != ("duplicate_exact", entry.subject):
                self._book.wrong(f"a repeated capture of {entry.subject} ({ended}) was answered {said}")

        return Planned("capture again", "engram_memory_capture", capture(entry.text, entry.key), answered, entry)

    def admit(self, entry: Kept) -> Planned:
        """Ask for a candidate's admission; the policy says yes."""

        def answered(answer: Answer) -> None:
            outcome = self._value(answer, "admit", entry)["outcome"]
            if outcome["status"] != "accepted":
                self._book.wrong(f"{entry.subject} was not admitted: {outcome}")
                return
            entry.record_id = outcome["record_id"]
            self._change(entry, CURRENT)

        arguments = {"candidate_id": entry.subject, "idempotency_key": f"{entry.key}:admit"}
        tool = "engram_memory_request_admission"
        return Planned("request_admission", tool, arguments, answered, entry, changes=True)

    def say(self, entry: Kept) -> Planned:
        """Save a message. It has no key, so one that is sent twice may stand there twice."""

        def answered(answer: Answer) -> None:
            entry.subject = self._value(answer, "message", entry)["id"]
            self._change(entry, ACTIVE)
            self._book.add(entry)

        def lost() -> None:
            entry.sends += 1

        arguments = {"role": "user", "message": entry.text}
        return Planned("save_message", "save_message", arguments, answered, entry, changes=True, lost=lost)

    def end(self, entry: Kept) -> Planned:
        """Withdraw, forget or erase: the first time it waits for a person, after whose approval it is done."""
        tool, state = ENDINGS[entry.state]
        if entry.kind == "message":
            arguments = {"action": "remove", "target": "memory", "memory_id": entry.subject, "erase": True}
        else:
            target = "candidate_id" if entry.state == PENDING else "record_id"
            name = entry.subject if entry.state == PENDING else entry.record_id
            arguments = {target: name, "idempotency_key": f"{entry.key}:end", "reason_ref": "reason:soak"}

        def answered(answer: Answer) -> None:
            if not answer["ok"] and answer["error"]["code"] == "gate_failed":
                entry.fate = "asked"
                return
            self._value(answer, state, entry)
            entry.fate = ""
            self._change(entry, state)

        operation = "erase" if tool == "manage_knowledge" else tool.removeprefix("engram_memory_")
        return Planned(operation, tool, arguments, answered, entry, changes=True)

    # --- what only looks --------------------------------------------------------------------------

    def get(self, entry: Kept) -> Planned:
        """Look at a record, which must be there with its text, or not at all."""
        arguments = {"record_id": entry.record_id, "purpose_ref": PURPOSE}

        def judged(answer: Answer) -> str:
            if entry.state != CURRENT:
                said = "ok" if answer["ok"] else answer["error"]["code"]
                return "" if said == "NOT_FOUND" else f"get of what is {entry.state} was answered {said}"
            texts = [each["text"] for each in self._value(answer, "", entry)["record"]["components"]]
            return "" if texts == [entry.text] else "get answered another text"

        return Planned("get", "engram_memory_get", arguments, self._steadily(entry, judged), entry)

    def find(self, entry: Kept) -> Planned:
        """Search for a word that one record or message alone has."""
        if entry.kind == "message":
            return self._find_message(entry)

        def judged(answer: Answer) -> str:
            found = [each["record"]["record_id"] for each in self._value(answer, "", entry)["records"]]
            wanted = [entry.record_id] if entry.found_by_search() else []
            return "" if found == wanted else f"search for what is {entry.state} found {len(found)}: {found[:3]}"

        asked = search(entry.word)
        return Planned("search", "engram_memory_search", asked, self._steadily(entry, judged), entry)

    def _find_message(self, entry: Kept) -> Planned:
        def judged(answer: Answer) -> str:
            results = self._value(answer, "", entry)["results"]
            found = {each["id"]: each["message"] for each in results}
            if entry.state == ERASED and entry.subject in found:
                return "an erased message was found"
            if entry.state == ACTIVE and found.get(entry.subject) != entry.text:
                return "a message was not found, or with another text"
            room = entry.sends + (entry.state == ACTIVE)
            return "" if len(found) <= room else f"{len(found)} messages of one word, of {room} at most"

        return Planned(
            "search_memory", "search_memory", {"query": entry.word}, self._steadily(entry, judged), entry
        )  # fmt: skip

    def browse(self, tool: str, word: str) -> Planned:
        """Search for a word that many texts have; each that is found must have it."""

        def answered(answer: Answer) -> None:
            value = self._value(answer, "", None)
            texts = [each["message"] for each in value.get("results", ())]
            texts += [each["record"]["components"][0]["text"] for each in value.get("records", ())]
            if not all(word in text for text in texts):
                self._book.wrong(f"{tool} found a text without the word")

        if tool == "search_memory":
            return Planned("search_memory", tool, {"query": word, "limit": 10}, answered)
        return Planned("search", "engram_memory_search", search(word, limit=10), answered)

    # --- how answers are held beside the book --------------------------------------------------------

    def _steadily(self, entry: Kept, judged: Callable[[Answer], str]) -> Callable[[Answer], None]:
        """Judge an answer only if nothing changed, or was about to, while the call was under way."""
        before = entry.version if entry.is_steady else None

        def answered(answer: Answer) -> None:
            said = judged(answer) if before is not None and entry.is_steady and entry.version == before else ""
            if said and entry.is_steady and entry.version == before:
                self._book.wrong(f"{entry.kind} {entry.subject}: {said}")

        return answered

    def _value(self, answer: Answer, acknowledged: str, entry: Kept | None) -> dict[str, Any]:
        if not answer["ok"]:
            name = entry.subject if entry is not None else ""
            raise Unexpected(f"{name} {acknowledged}: {answer['error']['code']}")
        if acknowledged:
            self._book.count(acknowledged)
        value: dict[str, Any] = answer["output"]["value"]
        return value

    def _change(self, entry: Kept, state: str) -> None:
        entry.state, entry.changed_at = state, time.monotonic()
        entry.version += 1


class Unexpected(Exception):
    """A call was refused that had to be answered."""

"""What people of the team do: calls that are granted and calls that are not, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.team.cast import MARKERS, SECOND, THIRD, WORK, Person
from tests.team.model import Entry, Model, Said
from tests.tools.memory.world import capture_arguments, forgetting, withdrawal
from tools.host.capabilities import (
    ALL_TOOLS,
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

NEVER_RECORD, NEVER_CANDIDATE = "mem_" + 52 * "a", "candidate_" + 64 * "0"
NEVER_MESSAGE = "message_" + 32 * "0"
UNHEARD = "wobblefrak"
"""A word that nobody ever says."""
_ASKED_MAX = 3  # operations of one lane that wait for a person: a scope holds 64


@dataclass(frozen=True)
class Planned:
    """One call. ``twin`` asks the same of what never was: the answer must be the same, byte for byte."""

    tool: str
    arguments: dict[str, Any]
    twin: dict[str, Any] | None = None
    times: int = 1  # so often at once


@dataclass
class Lane:
    """One session of one person, who does one thing after the other; others do theirs meanwhile."""

    number: int
    person: Person
    chance: random.Random
    model: Model
    captures: list[tuple[dict[str, Any], Entry]] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    _drawn: int = 0
    _asked: int = 0

    @property
    def word(self) -> str:
        """A word that stands in everything that this lane writes, and in nothing else."""
        return f"lane{''.join('bdfgklmprt'[int(digit)] + 'o' for digit in f'{self.number:02}')}k"

    def key(self) -> str:
        """Return an idempotency key that was never used."""
        self._drawn += 1
        return f"day-key-of-lane:{self.number}:{self._drawn}"

    def text(self) -> str:
        """Return a text that was never said."""
        self._drawn += 1
        return f"{MARKERS[self.person.place]} {self.word} note {self._drawn} of the day"

    def next(self) -> Planned:
        """Return the next call: mostly of what is granted, and now and then of what is not."""
        denied = [tool for tool in ALL_TOOLS if tool not in self.person.listed]
        if denied and self.chance.random() < (0.15 if self.person.listed else 1):
            return self._of_tool(self.chance.choice(denied))
        return self._of_tool(self.chance.choices(self.person.listed, [_WEIGHTS[t] for t in self.person.listed])[0])

    def _of_tool(self, tool: str) -> Planned:
        choose: Callable[[], Planned] = getattr(self, f"_{tool.removeprefix('engram_memory_')}")
        planned = choose()
        if self.chance.random() < 0.06:
            extra = self.chance.choice([("tenant_id", "beta"), ("confirmed", True), ("limit", None)])
            return Planned(planned.tool, {**planned.arguments, extra[0]: extra[1]})
        return planned

    def _purpose(self) -> str:
        """Return a purpose: one's own, at times one that is bound to others or to nobody."""
        if self.chance.random() < 0.85:
            return self.chance.choice(self.person.purposes)
        return self.chance.choice([WORK, SECOND, THIRD, "purpose:nobody"])

    def _foreign(self) -> Entry:
        return self.chance.choice([each for each in self.model.entries if each.place != self.person.place])

    def _capture(self) -> Planned:
        if self.captures and self.chance.random() < 0.3:
            arguments, _ = self.chance.choice(self.captures)
            if self.chance.random() < 0.5:
                return Planned(CAPTURE, arguments)
            return Planned(CAPTURE, capture_arguments(self.text(), arguments["idempotency_key"]))
        arguments = capture_arguments(self.text(), self.key(), purpose_ref=self._purpose())
        return Planned(CAPTURE, arguments, times=self.chance.choice([1, 1, 1, 2]))

    def _own(self, *states: str) -> Entry | None:
        found = [each for _, each in self.captures if each.state in states]
        return self.chance.choice(found) if found else None

    def _request_admission(self) -> Planned:
        own = self._own("pending") or self._own("accepted_current", "withdrawn")
        if own is not None and self.chance.random() < 0.75:
            return Planned(REQUEST_ADMISSION, {"candidate_id": own.candidate_id, "idempotency_key": self.key()})
        foreign = {"candidate_id": self._foreign().candidate_id, "idempotency_key": self.key()}
        return Planned(REQUEST_ADMISSION, foreign, {**foreign, "candidate_id": NEVER_CANDIDATE})

    def _get(self) -> Planned:
        here = [e for e in self.model.entries if e.place == self.person.place and e.record_id]
        purpose = self._purpose()
        if here and self.chance.random() < 0.7:
            return Planned(GET, {"record_id": self.chance.choice(here).record_id, "purpose_ref": purpose})
        foreign = {"record_id": self._foreign().record_id or NEVER_RECORD, "purpose_ref": purpose}
        return Planned(GET, foreign, {**foreign, "record_id": NEVER_RECORD})

    def _search(self) -> Planned:
        words = [self.word, self.word, *MARKERS.values()]
        return Planned(SEARCH, {"query": self.chance.choice(words), "purpose_ref": self._purpose(), "limit": 50})

    def _withdraw(self) -> Planned:
        own = self._own("pending")
        if own is not None and self._asked < _ASKED_MAX and self.chance.random() < 0.5:
            self._asked += 1
            return Planned(WITHDRAW, withdrawal(own.candidate_id, self.key()))
        accepted = self._own("accepted_current")
        if accepted is not None and self.chance.random() < 0.3:
            return Planned(WITHDRAW, withdrawal(accepted.candidate_id, self.key()))
        foreign = withdrawal(self._foreign().candidate_id, self.key())
        return Planned(WITHDRAW, foreign, {**foreign, "candidate_id": NEVER_CANDIDATE})

    def _forget(self) -> Planned:
        own = self._own("accepted_current")
        if own is not None and own.record_id and self._asked < _ASKED_MAX and self.chance.random() < 0.5:
            self._asked += 1
            return Planned(FORGET, forgetting(own.record_id, self.key()))
        foreign = forgetting(self._foreign().record_id or NEVER_RECORD, self.key())
        return Planned(FORGET, foreign, {**foreign, "record_id": NEVER_RECORD})

    def _save_message(self) -> Planned:
        return Planned(SAVE_MESSAGE, {"role": self.chance.choice(["user", "assistant"]), "message": self.text()})

    def _search_memory(self) -> Planned:
        words = [self.word, self.word, *MARKERS.values()]
        return Planned(SEARCH_MEMORY, {"query": self.chance.choice(words), "limit": 50})

    def _manage_knowledge(self) -> Planned:
        drawn = self.chance.random()
        if drawn < 0.35 or not self.said:
            return Planned(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": self.text()})
        if drawn < 0.7:
            return self._about(self.chance.choice(self.said).message_id)
        others = [s for s in self.model.said if (s.place, s.principal) != (self.person.place, self.person.name)]
        planned = self._about(self.chance.choice(others).message_id if others else NEVER_MESSAGE)
        return Planned(MANAGE_KNOWLEDGE, planned.arguments, {**planned.arguments, "memory_id": NEVER_MESSAGE})

    def _about(self, message_id: str) -> Planned:
        about = {"target": "memory", "memory_id": message_id}
        drawn = self.chance.random()
        if drawn < 0.5:
            return Planned(MANAGE_KNOWLEDGE, {**about, "action": "update", "content": self.text()})
        if drawn < 0.8 or self._asked >= _ASKED_MAX:
            return Planned(MANAGE_KNOWLEDGE, {**about, "action": "remove"})
        self._asked += 1
        return Planned(MANAGE_KNOWLEDGE, {**about, "action": "remove", "erase": True})

    def _memory_startup(self) -> Planned:
        return Planned(MEMORY_STARTUP, {})

    def heard(self, planned: Planned, known: tuple[int, int]) -> None:
        """Remember what a call of this lane brought: what the model holds beyond ``known`` entries and messages."""
        entries, said = self.model.entries[known[0] :], self.model.said[known[1] :]
        if planned.tool == CAPTURE:
            text = planned.arguments["payload"]["components"][0]["text"]
            self.captures += [(planned.arguments, each) for each in entries if each.text == text]
        words = planned.arguments.get("message") or planned.arguments.get("content")
        self.said += [each for each in said if each.text == words and each not in self.said]


_WEIGHTS = {
    SEARCH: 18, GET: 16, CAPTURE: 16, REQUEST_ADMISSION: 14, WITHDRAW: 5, FORGET: 5, SAVE_MESSAGE: 10,
    SEARCH_MEMORY: 8, MANAGE_KNOWLEDGE: 8, MEMORY_STARTUP: 3,
}  # fmt: skip

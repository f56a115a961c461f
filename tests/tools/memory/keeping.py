"""Answers that are kept with what was asked, as {tool, request, answer}, and a store that changes between them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import Any

from journal.clock import instant
from journal.digests import receipt_digest, record_id_of
from journal.lifecycle import Operation, State
from tests.tools.memory.world import NOW, PURPOSE, SCOPE, Caller, World, binding, evidence, key, payload
from tools.host.capabilities import CAPTURE, GET, SEARCH
from tools.memory.receipt_check import Checked, ReceiptVerifier
from tools.memory.records import redacted
from tools.memory.search_answer import ordered_ids_digest

Document = dict[str, Any]
WORDS = ("harvest", "barley", "wheat", "miller", "granary", "drought", "수확", "보리", "밀가루", "창고")


def kept(agent: Caller, tool: str, request: dict[str, Any]) -> Document:
    """Ask, and keep request and answer; the call must succeed."""
    answer = agent.call(tool, request)
    assert answer["ok"], answer
    return {"tool": tool, "request": request, "answer": answer}


def kept_search(agent: Caller, query: str, **more: Any) -> Document:
    return kept(agent, SEARCH, {"query": query, "purpose_ref": PURPOSE, **more})


def kept_get(agent: Caller, record_id: str, **more: Any) -> Document:
    return kept(agent, GET, {"record_id": record_id, "purpose_ref": PURPOSE, **more})


def value_of(document: Document) -> dict[str, Any]:
    return document["answer"]["output"]["value"]


def shown(document: Document) -> list[str]:
    """Return the record ids that an answer to a search shows."""
    return [packet["record"]["record_id"] for packet in value_of(document)["records"]]


def checked(world: World, documents: Iterable[Document], **changes: Any) -> list[Checked]:
    """Return the verdicts; ``changes`` are of the binding."""
    with ReceiptVerifier(world.journal, binding(SCOPE, **changes)) as verifier:
        return verifier.verify_all(documents)


def check(world: World, document: Document, **changes: Any) -> Checked:
    return checked(world, [document], **changes)[0]


def sealed_anew(document: Document) -> Document:
    """Return an answer in which every digest over its own content is made anew, as a forger would."""
    made = copy.deepcopy(document)
    value = value_of(made)
    for packet in value["records"] if made["tool"] == SEARCH else [value]:
        record = packet["record"]
        if record["record_digest"].startswith("sha256:"):
            record["record_id"] = record_id_of(record["record_digest"])
        packet["redaction_receipt_digest"] = redacted(record)["redaction_receipt_digest"]
    if made["tool"] == SEARCH:
        receipt = value["rank_receipt"]
        receipt["ordered_ids_digest"] = ordered_ids_digest(shown(made))
        receipt["receipt_digest"] = receipt_digest("rank", receipt)
        bare = {name: held for name, held in value.items() if name != "response_digest"}
        value["response_digest"] = receipt_digest("search-response", bare)
    else:
        value["read_receipt"]["receipt_digest"] = receipt_digest("read", value["read_receipt"])
        bare = {name: held for name, held in value.items() if name != "packet_digest"}
        value["packet_digest"] = receipt_digest("get-packet", bare)
    return made


class Changing:
    """A store in which something always happens: captures, admissions, disputes, successions, and the clock."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.agent = world.caller()
        self.rng = random.Random(seed)
        self.candidates: list[str] = []
        self.now = NOW

    def text(self) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(2, 12)))

    def happen(self) -> None:
        """Let one thing happen."""
        self.now += self.rng.randint(0, 40)
        self.world.clock.set(self.now)
        kinds = {self.capture: 6, self.pend: 1, self.dispute: 2, self.resolve: 1, self.supersede: 2}
        self.rng.choices(list(kinds), list(kinds.values()))[0]()

    def capture(self) -> None:
        """Remember a text; a third of them expire soon, a third begin or end to be valid soon."""
        changes: dict[str, Any] = {}
        kind = self.rng.randint(0, 2)
        if kind == 0:
            expires_at = instant(self.now + self.rng.randint(1, 3_000))
            changes["retention"] = {"derivative_rule": "make-ineligible", "expires_at": expires_at}
        elif kind == 1:
            t = self.now + self.rng.randint(-500, 500)
            changes["valid_time"] = {"t": t, "t_end": t + self.rng.randint(0, 2_000)}
        candidate_id = self._captured(**changes)
        assert self.agent.admit(candidate_id)["status"] == "accepted"
        self.candidates.append(candidate_id)

    def pend(self) -> None:
        """Capture without asking for admission."""
        self._captured()

    def _captured(self, **changes: Any) -> str:
        arguments = {"idempotency_key": key(), "payload": payload(self.text(), **changes), "evidence": evidence()}
        return self.agent.value(CAPTURE, arguments)["candidate_id"]

    def dispute(self) -> None:
        self._move(State.ACCEPTED_CURRENT, Operation.DISPUTE)

    def resolve(self) -> None:
        self._move(State.ACCEPTED_DISPUTED, Operation.RESOLVE_DISPUTE)

    def supersede(self) -> None:
        current = self._in(State.ACCEPTED_CURRENT)
        if len(current) > 1:
            one, other = self.rng.sample(current, 2)
            self.agent.transit(one, Operation.SUPERSEDE, other)

    def _move(self, state: State, operation: Operation) -> None:
        standing = self._in(state)
        if standing:
            self.agent.transit(self.rng.choice(standing), operation)

    def _in(self, state: State) -> list[str]:
        return [each for each in self.candidates[-40:] if self.agent.state(each) == state]

    def records(self, state: State) -> list[str]:
        """Return the record ids of those that are in a state."""
        return [self.agent.record_id_of(each) for each in self.candidates if self.agent.state(each) == state]

    def search(self) -> Document:
        """Search for a word or two, with another limit each time."""
        query = " ".join(self.rng.sample(WORDS, self.rng.randint(1, 3)))
        return kept_search(self.agent, query, limit=self.rng.randint(1, 12))

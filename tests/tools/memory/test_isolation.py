"""One scope never shows in another: not in an answer, a frame, a sealed part or a token of a projection."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from journal import identity
from journal.events import Actor, Draft, EventType
from journal.lifecycle import State
from journal.store.port import Part
from tests.tools.memory.world import (
    OTHER,
    PURPOSE,
    SCOPE,
    World,
    capture_arguments,
    forgetting,
    withdrawal,
)
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH, WITHDRAW
from tools.memory import approval

TEXTS = (
    "야간 빌드를 두 시 반으로 옮겼다",
    "The nightly build moved",
    "backups end at two",
    "빌드 알림은 아홉 시에 온다",
)


def noise(world: World, count: int) -> None:
    """Append events to the other scope by the journal's own verb, many at once."""
    journal = world.journal
    payload = {"components": [{"component_id": "c", "text": "nightly build 야간 빌드"}], "primary_component_id": "c"}
    guards = identity.guards(journal.keyring.identity_key(OTHER), payload)

    def drafted() -> Draft:
        event_id, key = journal.random_event_id(OTHER), journal.take_key(OTHER)
        subject = "candidate_" + event_id.hex()
        return Draft(
            type=EventType.CAPTURE, event_id=event_id, actor=Actor("principal:other"), subject=subject,
            to_state=State.PENDING, key_id=key.key_id, slot=key.slot, slot_generation=key.generation,
            intent=event_id, guards=guards, content=journal.seal_content(OTHER, event_id, subject, key, {}),
        )  # fmt: skip

    drafts = [drafted() for _ in range(count)]
    while drafts:
        batch, drafts = drafts[:500], drafts[500:]

        def decide(_: object, batch: list[Draft] = batch) -> list[Draft]:
            return batch

        journal.commit(OTHER, decide)


def played(path: Path, events_between: int) -> tuple[list[dict[str, Any]], list[tuple[bytes, ...]], dict[str, str]]:
    """Play one story in one scope, with events of another between its steps; return all that it gave and wrote."""
    world = World(path)
    try:
        agent = world.caller()
        answers: list[dict[str, Any]] = []
        steps = 0

        def say(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            nonlocal steps
            steps += 1
            noise(world, events_between)
            answers.append(agent.call(tool, arguments))
            return answers[-1]

        def approve() -> None:
            approval.approve(agent.engine, SCOPE, agent.requests()[0].confirmation_id, "operator")

        candidates = []
        for number, text in enumerate(TEXTS):
            captured = say(CAPTURE, capture_arguments(text, f"isolated-capture-{number}"))
            candidates.append(captured["output"]["value"]["candidate_id"])
        records = []
        for number, candidate_id in enumerate(candidates[:3]):
            asked = {"candidate_id": candidate_id, "idempotency_key": f"isolated-admission-{number}"}
            records.append(say(REQUEST_ADMISSION, asked)["output"]["value"]["outcome"]["record_id"])
        first = say(SEARCH, {"query": "build 빌드", "purpose_ref": PURPOSE, "limit": 1})
        cursor = first["output"]["value"]["next_page_cursor"]
        say(SEARCH, {"query": "build 빌드", "purpose_ref": PURPOSE, "page_cursor": cursor})
        say(GET, {"record_id": records[0], "purpose_ref": PURPOSE})
        for tool, arguments in (
            (WITHDRAW, withdrawal(candidates[3], "isolated-withdrawal")),
            (FORGET, forgetting(records[1], "isolated-forgetting")),
        ):
            say(tool, arguments)
            approve()
            say(tool, arguments)
        say(GET, {"record_id": records[1], "purpose_ref": PURPOSE})
        say(SEARCH, {"query": "nightly backups", "purpose_ref": PURPOSE})
        with agent.engine.projections(SCOPE).snapshot() as snapshot:
            digests = {name: snapshot.digest(name) for name in snapshot.names}
        store = world.journal.store
        written = []
        for event in store.read(SCOPE, 0, 10_000):
            parts = [store.body(SCOPE, event.header.cursor, part) or b"" for part in Part]
            written.append((event.frame, *parts))
        keys = world.path / "keys"
        for file in sorted(keys.glob(f"{SCOPE.tag.hex()}*")):
            digests[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
        assert store.head(OTHER).cursor == steps * events_between
        return answers, written, digests
    finally:
        world.close()


def test_ten_thousand_events_of_another_scope_change_no_byte(directory):
    # 16 steps, 625 events before each.
    alone = played(directory / "alone", 0)
    crowded = played(directory / "crowded", 625)
    for mine, theirs in zip(alone, crowded, strict=True):
        assert mine == theirs
    answers, written, digests = alone
    assert len(answers) == 16
    assert len(written) > 12
    assert {"current", "lexical"} <= set(digests)
    assert all(answer["ok"] or answer["error"]["code"] in ("gate_failed", "NOT_FOUND") for answer in answers)


def token_rows(world: World, agent: Any) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return every key and value of a scope's projections."""
    rows: dict[str, list[tuple[bytes, bytes]]] = {}
    with agent.engine.projections(agent.scope).snapshot() as snapshot:
        for name, state in snapshot._states.items():
            for table, handle in state.tables.items():
                cursor = state.txn.cursor(db=handle)
                rows[f"{name}/{table.decode()}"] = [(bytes(k), bytes(v)) for k, v in cursor.iternext()]
    return rows


def test_tokens_are_a_function_of_their_own_scope(directory):
    def tokens(path: Path, events: int) -> dict[str, list[tuple[bytes, bytes]]]:
        world = World(path)
        try:
            agent = world.caller()
            elsewhere = world.caller(OTHER)
            for number, text in enumerate(TEXTS):
                for _ in range(events):
                    elsewhere.remember(f"{text} and elsewhere")
                candidate_id = agent.value(CAPTURE, capture_arguments(text, f"isolated-capture-{number}"))[
                    "candidate_id"
                ]
                asked = {"candidate_id": candidate_id, "idempotency_key": f"isolated-admission-{number}"}
                agent.value(REQUEST_ADMISSION, asked)
                agent.found("build")
                elsewhere.found("build")
            return token_rows(world, agent)
        finally:
            world.close()

    alone, crowded = tokens(directory / "alone", 0), tokens(directory / "crowded", 5)
    assert set(alone) == set(crowded)
    for table, rows in alone.items():
        assert rows == crowded[table], table
    assert sum(len(rows) for table, rows in alone.items() if table.startswith("lexical/")) > 10


def test_two_scopes_share_no_token_of_the_same_word(world):
    seen = []
    for scope in (SCOPE, OTHER):
        agent = world.caller(scope)
        agent.remember("harvest")
        agent.found("harvest")
        ((_, row),) = token_rows(world, agent)["lexical/forward"]  # tokens of 16 bytes, then an impact of 1 for each
        seen.append({row[at : at + 16] for at in range(0, len(row) // 17 * 16, 16)})
    assert seen[0]
    assert seen[0].isdisjoint(seen[1])


@pytest.mark.parametrize("tool", [SEARCH, GET])
def test_a_read_counts_nothing_of_another_scope(world, tool):
    agent, elsewhere = world.caller(), world.caller(OTHER)
    mine = agent.remember("harvest of the year")

    def read() -> dict[str, Any]:
        if tool == GET:
            return agent.get(mine)["output"]["value"]["record"]
        value = agent.search("harvest")
        receipt = value["rank_receipt"]
        kept = ("candidate_count", "candidate_ids_digest", "system_as_of", "snapshot_digest", "snapshot_id")
        return {"records": value["records"], **{name: receipt[name] for name in kept}}

    before = read()
    for number in range(20):
        elsewhere.remember(f"harvest {number}")
    assert read() == before

"""A day of the team: real clients with real tokens at once over one server, each answer held against the model's."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client

from tests.team.answers import Answer, Day, bare, called, printed
from tests.team.calls import Lane, Planned
from tests.team.cast import (
    ANNA,
    BEN,
    CLEO,
    DORA,
    EMIL,
    FAY,
    HOST_PRINCIPAL,
    MARKERS,
    TEAM,
    WORK,
    Person,
    made_store,
)
from tests.team.evening import evening
from tests.team.model import OK, UNKNOWN_TOOL, Asked, Entry, Said
from tests.team.operator import CHANGES, all_granted, carried_out
from tests.tools.memory.world import Caller, capture_arguments, forgetting, key, withdrawal
from tests.tools.server.http.team import MODERN, Issuer, TeamServer
from tools.host.binding import bind
from tools.host.capabilities import (
    CAPTURE,
    FORGET,
    GET,
    MANAGE_KNOWLEDGE,
    REQUEST_ADMISSION,
    SEARCH,
    SEARCH_MEMORY,
    WITHDRAW,
)
from tools.host.file import load_host_file
from tools.memory.engine import Engine

LANES = (ANNA, ANNA, ANNA, BEN, BEN, CLEO, CLEO, DORA, DORA, EMIL, EMIL) * 4 + (FAY,)


async def one(day: Day, client: Client, lane: Lane) -> None:
    """Make a lane's next call, or the same one several times at once, and hold the answers against the model."""
    planned, person, model = lane.next(), lane.person, day.model
    tool, arguments = planned.tool, planned.arguments
    wanted, changes = model.verdict(person, tool, arguments), day.changes[person.place]
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await called(day, client, person, tool, arguments))

    async with anyio.create_task_group() as group:
        for _ in range(planned.times):
            group.start_soon(ask)
    # Authority that changes while a call is under way counts or does not; what it voids is refused, and not done.
    is_steady = changes == day.changes[person.place] and not changes % 2
    either = {wanted, model.verdict(person, tool, arguments, at_most=True), "AUTHORIZATION_REVOKED", UNKNOWN_TOOL}
    known = len(model.entries), len(model.said)
    for answer in answers:
        said = answer.verdict
        day.expect(f"{person.name} {tool} {arguments}", said, said if not is_steady and said in either else wanted)
        model.take(person, tool, arguments, said, answer.value)
    lane.heard(planned, known)
    if is_steady:
        await _hold(day, client, lane, planned, answers)
    else:
        day.unsteady += 1


async def _hold(day: Day, client: Client, lane: Lane, planned: Planned, answers: list[Answer]) -> None:
    """Hold what a call brought against what it should, while nobody changes what is granted."""
    person, tool, first = lane.person, planned.tool, answers[0]
    if tool == CAPTURE and first.verdict == OK:
        day.expect("candidates of one key", len({answer.value.get("candidate_id") for answer in answers}), 1)
    if first.verdict == OK:
        _check_found(day, lane, planned, first)
    if planned.twin is not None:
        changes = day.changes[person.place]
        twin = await called(day, client, person, tool, planned.twin)
        if changes == day.changes[person.place] and not changes % 2:
            day.expect(f"{person.name} {tool} of what is not there", bare(twin.text), bare(first.text))


def _check_found(day: Day, lane: Lane, planned: Planned, answer: Answer) -> None:
    """A lane finds all that it wrote itself, and of other scopes nothing."""
    person, query = lane.person, planned.arguments.get("query")
    ids: set[str]
    wanted: set[str]
    if planned.tool == SEARCH:
        ids = {packet["record"]["record_id"] for packet in answer.value["records"]}
        wanted = day.model.found(person, planned.arguments["purpose_ref"], str(query))
    elif planned.tool == SEARCH_MEMORY:
        ids = {found["id"] for found in answer.value["results"]}
        wanted = day.model.recalled(person, str(query))
    else:
        return
    if query == lane.word:
        day.expect(f"{person.name} finds of {query}", ids, wanted)
    elif query != MARKERS[person.place]:  # others write it meanwhile: what of it is found is looked at in the evening
        day.expect(f"{person.name} finds of {query}", ids, set())


# --- morning, day and evening ---------------------------------------------------------------------------


def morning(day: Day) -> None:
    """Make a store, and fill the scope that nobody who comes over HTTP may write."""
    made_store(day.folder)
    host_file = load_host_file(day.host_file)
    binding = bind(host_file, workspace=BEN.place[1])
    engine = Engine.open(host_file, binding)
    try:
        agent = Caller(engine)
        for number in range(9):
            text = f"{MARKERS[BEN.place]} side note {number} of the morning"
            candidate_id = agent.capture(text)
            entry = Entry(BEN.place, HOST_PRINCIPAL, candidate_id, text, WORK)
            if number:
                entry.record_id, entry.state = agent.admit(candidate_id)["record_id"], "accepted_current"
            day.model.entries.append(entry)
            said = agent.value("save_message", {"role": "user", "message": text})["id"]
            day.model.said.append(Said(BEN.place, HOST_PRINCIPAL, said, text))
    finally:
        engine.close()


async def seeded(day: Day, client: Client, person: Person) -> None:
    """Let a person write what the others must not see from the first call on, and ask for what waits for a person."""
    model = day.model

    async def do(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = model.verdict(person, tool, arguments)
        answer = await called(day, client, person, tool, arguments)
        day.expect(f"{person.name} {tool} in the morning", answer.verdict, wanted)
        model.take(person, tool, arguments, wanted, answer.value)
        return answer.value

    for number in range(4):
        text = f"{MARKERS[person.place]} first note {number} of {person.name}"
        captured = capture_arguments(text, key())
        candidate_id = (await do(CAPTURE, captured))["candidate_id"]
        await do(CAPTURE, capture_arguments(f"{text}, otherwise", captured["idempotency_key"]))
        if number < 2 and WITHDRAW in person.listed:
            await do(WITHDRAW, withdrawal(candidate_id))
        if number >= 2:
            asked = {"candidate_id": candidate_id, "idempotency_key": key()}
            record_id = (await do(REQUEST_ADMISSION, asked))["outcome"]["record_id"]
            if WITHDRAW in person.listed:
                await do(WITHDRAW, withdrawal(candidate_id))
            if FORGET in person.listed:
                await do(FORGET, forgetting(record_id))
        if number < 2 and MANAGE_KNOWLEDGE in person.listed:
            said = (await do(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": text}))["id"]
            await do(MANAGE_KNOWLEDGE, {"action": "remove", "target": "memory", "memory_id": said, "erase": True})


async def at_once(day: Day, team: TeamServer, tokens: dict[str, str], seed: int) -> None:
    """Make so many calls, by all people at once, half of the clients of each protocol era."""
    await asked_of_a_person(day, team, tokens)

    async def live(number: int, person: Person) -> None:
        lane = Lane(number, person, random.Random(f"{seed}:{number}"), day.model)
        async with team.client(tokens[person.name], ("legacy", MODERN)[number % 2]) as client:
            for _ in range(day.calls // len(LANES)):
                await one(day, client, lane)

    async with anyio.create_task_group() as group:
        for number, person in enumerate(LANES):
            group.start_soon(live, number, person)
        if day.by_events:
            group.start_soon(changed, day)
    if day.by_events:  # what waited before may be void, and what is asked for now is not
        day.early = set(day.model.asked)
        await asked_of_a_person(day, team, tokens)


async def asked_of_a_person(day: Day, team: TeamServer, tokens: dict[str, str]) -> None:
    """Have three people ask for what a person has to approve."""
    for person in (ANNA, DORA, EMIL):
        async with team.client(tokens[person.name], MODERN) as client:
            await seeded(day, client, person)


async def changed(day: Day) -> None:
    """Change the team's authority while it works, from the first tenth of the calls to the last."""
    before = len(day.answers)
    for number, change in enumerate(CHANGES):
        while len(day.answers) - before < day.calls * (number + 1) / (len(CHANGES) + 2):  # noqa: ASYNC110 - nobody tells of it
            await anyio.sleep(0.01)
        day.changes[change.place] += 1
        await anyio.to_thread.run_sync(carried_out, day.host_file, change.words)
        change.done(day.model)
        if change.raises_epoch:
            day.raised.add(change.place)
        day.changes[change.place] += 1


def lived(folder: Path, calls: int, seed: int, *, by_events: bool = False) -> Day:
    """Live a day of so many calls at once; return what happened. ``by_events``: with grants that come and go."""
    day, issuer = Day(folder, calls, by_events), Issuer()
    morning(day)
    if by_events:
        all_granted(day.host_file)
    (folder / "jwks.json").write_bytes(issuer.jwks())
    tokens = {
        person.name: issuer.token(kind, sub=person.name.lower(), tenant=person.place[0])
        for person, kind in zip(TEAM, ("rs", "es", "ed") * 2, strict=True)
    }
    day.secrets = [*tokens.values()]
    with TeamServer(day.host_file) as team:
        anyio.run(at_once, day, team, tokens, seed)
        anyio.run(evening, day, team, tokens)
        approved = decided_by_a_person(day)
        anyio.run(asked_again, day, team, tokens, approved)
        anyio.run(evening, day, team, tokens)
        day.statuses = {
            name: team.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, token).status_code
            for name, token in {
                "no token": None,
                "another tenant's": issuer.token(sub="anna", tenant="beta"),
                "nobody's": issuer.token(sub="greta", tenant="acme"),
                "another issuer's": Issuer().token(sub="anna"),
            }.items()
        }
        day.exit_code = team.end()
        day.log = team.log
    return day


# --- the person at the machine --------------------------------------------------------------------------


def decided_by_a_person(day: Day) -> list[Asked]:
    """At the console, approve one operation of each principal and tool, and deny another; return the approved."""
    listed = printed(day, "confirm", "list")
    day.void = day.model.void(day.raised, day.early, {each["target"] for each in listed})
    waiting = list(day.model.asked.values())
    said = Counter((each["tenant_id"], each["principal"], each["capability"], each["target"]) for each in listed)
    day.expect("what waits", said, Counter((a.place[0], a.principal, a.tool, a.target) for a in waiting))
    day.waited = len(waiting)
    targets = Counter(each.target for each in waiting)
    ids = {each["target"]: each["confirmation_id"] for each in listed}
    seen, approved = Counter[tuple[str, str]](), []
    for asked in [each for each in waiting if targets[each.target] == 1]:
        if not day.model.can_run(asked):  # admitted since, so that nothing is left to withdraw
            printed(day, "confirm", "approve", ids[asked.target], code=1)
            day.model.deny(asked)
            continue
        seen[asked.principal, asked.tool] += 1
        match seen[asked.principal, asked.tool]:
            case 1:
                printed(day, "confirm", "approve", ids[asked.target])
                day.model.approve(asked)
                approved.append(asked)
            case 2:
                printed(day, "confirm", "deny", ids[asked.target])
                day.model.deny(asked)
    return approved


async def asked_again(day: Day, team: TeamServer, tokens: dict[str, str], approved: list[Asked]) -> None:
    """Have each one ask again for what was approved: it is done, and this is its replay."""
    for asked in approved:
        person = next(each for each in TEAM if each.name == asked.principal)
        async with team.client(tokens[person.name], "legacy") as client:
            answer = await called(day, client, person, asked.tool, asked.arguments)
            day.expect(f"{person.name} {asked.tool} again", answer.verdict, OK)
            if asked.tool == FORGET:
                looked = {"record_id": asked.target, "purpose_ref": WORK}
                day.expect("what was forgotten", (await called(day, client, person, GET, looked)).verdict, "NOT_FOUND")

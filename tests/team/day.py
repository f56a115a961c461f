"""A day of the team: real clients with real tokens at once over one server, each answer held against the model's."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from tests.team.calls import UNHEARD, Lane, Planned
from tests.team.cast import ANNA, BEN, CLEO, DORA, EMIL, FAY, HOST_PRINCIPAL, MARKERS, TEAM, WORK, Person, made_store
from tests.team.model import OK, Asked, Entry, Model, Said
from tests.tools.memory.world import Caller, capture_arguments, forgetting, key, withdrawal
from tests.tools.server.http.team import MODERN, Issuer, TeamServer
from tools.cli.main import run
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
_UNLIKE = re.compile(r'sha256:[0-9a-f]{64}|\d{4}-\d\d-\d\dT[\d:.]{12}Z|"auditId": "[^"]*"|snapshot[_:][\w:]+')
PAGE = 7
"""Records a page of a search in the quiet of the evening: several pages a scope."""


@dataclass(frozen=True)
class Answer:
    """What came back of one call: ``ok`` or the code, the value, and all of it as text."""

    person: Person
    tool: str
    verdict: str
    value: dict[str, Any]
    text: str


@dataclass
class Day:
    """What happened, for the tests to look at."""

    folder: Path
    model: Model = field(default_factory=Model)
    answers: list[Answer] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # what was answered otherwise than the model has it
    listed: dict[str, list[str]] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)  # tokens
    waited: int = 0  # operations that waited for a person
    statuses: dict[str, int] = field(default_factory=dict)  # of those who are not of the team
    exit_code: int | None = None  # of the server

    @property
    def host_file(self) -> Path:
        return self.folder / "engram.toml"

    def verdicts(self) -> Counter[str]:
        return Counter(answer.verdict for answer in self.answers)

    def expect(self, what: str, said: object, wanted: object) -> None:
        """Note where an answer is not the one that the model has."""
        if said != wanted:
            self.wrong.append(f"{what}: {said!r}, not {wanted!r}")


async def called(day: Day, client: Client, person: Person, tool: str, arguments: dict[str, Any]) -> Answer:
    """Make one call and keep what came back."""
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        text = json.dumps({"code": error.code, "message": error.message, "data": error.data})
        answer = Answer(person, tool, str(error.code), {}, text)
    else:
        document = result.structured_content or {}
        text = json.dumps(result.model_dump(mode="json", by_alias=True), ensure_ascii=False, sort_keys=True)
        code = OK if document["ok"] else document["error"]["code"]
        answer = Answer(person, tool, code, document["output"]["value"] if document["ok"] else {}, text)
    day.answers.append(answer)
    return answer


def bare(text: str) -> str:
    """Return an answer's text without what is of this answer alone."""
    return re.sub(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "(id)", text)


def outline(text: str) -> str:
    """Return the answer to a search without digests and instants, which follow from its words and its time."""
    return _UNLIKE.sub("(its own)", bare(text))


async def one(day: Day, client: Client, lane: Lane) -> None:
    """Make a lane's next call, or the same one several times at once, and hold the answers against the model."""
    planned, person, model = lane.next(), lane.person, day.model
    tool, arguments = planned.tool, planned.arguments
    wanted = model.verdict(person, tool, arguments)
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await called(day, client, person, tool, arguments))

    async with anyio.create_task_group() as group:
        for _ in range(planned.times):
            group.start_soon(ask)
    known = len(model.entries), len(model.said)
    for answer in answers:
        day.expect(f"{person.name} {tool} {arguments}", answer.verdict, wanted)
        if answer.verdict == wanted:
            model.take(person, tool, arguments, answer.verdict, answer.value)
    lane.heard(planned, known)
    if tool == CAPTURE and wanted == OK:
        day.expect("candidates of one key", len({answer.value.get("candidate_id") for answer in answers}), 1)
    if planned.twin is not None:
        twin = await called(day, client, person, tool, planned.twin)
        day.expect(f"{person.name} {tool} of what is not there", bare(twin.text), bare(answers[0].text))
    if answers[0].verdict == OK:
        _check_found(day, lane, planned, answers[0])


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
        candidate_id = (await do(CAPTURE, capture_arguments(text, key())))["candidate_id"]
        if number < 2 and WITHDRAW in person.listed:
            await do(WITHDRAW, withdrawal(candidate_id))
        if number >= 2:
            asked = {"candidate_id": candidate_id, "idempotency_key": key()}
            record_id = (await do(REQUEST_ADMISSION, asked))["outcome"]["record_id"]
            if FORGET in person.listed:
                await do(FORGET, forgetting(record_id))
        if number < 2 and MANAGE_KNOWLEDGE in person.listed:
            said = (await do(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": text}))["id"]
            await do(MANAGE_KNOWLEDGE, {"action": "remove", "target": "memory", "memory_id": said, "erase": True})


async def at_once(day: Day, team: TeamServer, tokens: dict[str, str], calls: int, seed: int) -> None:
    """Make so many calls, by all people at once, half of the clients of each protocol era."""
    for person in (ANNA, DORA, EMIL):
        async with team.client(tokens[person.name], MODERN) as client:
            await seeded(day, client, person)

    async def live(number: int, person: Person) -> None:
        lane = Lane(number, person, random.Random(f"{seed}:{number}"), day.model)
        async with team.client(tokens[person.name], ("legacy", MODERN)[number % 2]) as client:
            for _ in range(calls // len(LANES)):
                await one(day, client, lane)

    async with anyio.create_task_group() as group:
        for number, person in enumerate(LANES):
            group.start_soon(live, number, person)


async def evening(day: Day, team: TeamServer, tokens: dict[str, str]) -> None:
    """When all is quiet, have each person look at everything, and for what is elsewhere."""
    for person in TEAM:
        async with team.client(tokens[person.name], MODERN) as client:
            day.listed[person.name] = sorted(tool.name for tool in (await client.list_tools()).tools)
            if SEARCH in person.listed:
                await _look_at_records(day, client, person)
            if SEARCH_MEMORY in person.listed:
                await _look_at_messages(day, client, person)


async def _look_at_records(day: Day, client: Client, person: Person) -> None:
    for purpose in person.purposes:
        asked = {"query": MARKERS[person.place], "purpose_ref": purpose, "limit": PAGE}
        wanted = day.model.found(person, purpose, MARKERS[person.place])
        found: list[str] = []
        while True:
            value = (await called(day, client, person, SEARCH, asked)).value
            found += [packet["record"]["record_id"] for packet in value["records"]]
            if "next_page_cursor" not in value:
                break
            asked["page_cursor"] = value["next_page_cursor"]
        day.expect(f"{person.name} pages under {purpose}", sorted(found), sorted(map(str, wanted)))
    for foreign in [word for place, word in MARKERS.items() if place != person.place]:
        texts = []
        for word in (foreign, UNHEARD):
            answer = await called(day, client, person, SEARCH, {"query": word, "purpose_ref": WORK})
            day.expect(f"{person.name} counts of {word}", answer.value["rank_receipt"]["candidate_count"], 0)
            texts.append(outline(answer.text))
        day.expect(f"{person.name} asks for {foreign}", texts[0], texts[1])


async def _look_at_messages(day: Day, client: Client, person: Person) -> None:
    marker = MARKERS[person.place]
    value = (await called(day, client, person, SEARCH_MEMORY, {"query": marker, "limit": 50})).value
    wanted = day.model.recalled(person, marker)
    day.expect(f"{person.name} recalls", value["count"], min(50, len(wanted)))
    day.expect(f"{person.name} recalls others'", {found["id"] for found in value["results"]} - wanted, set())
    for foreign in [word for place, word in MARKERS.items() if place != person.place]:
        texts = []
        for word in (foreign, UNHEARD):
            answer = await called(day, client, person, SEARCH_MEMORY, {"query": word})
            texts.append(outline(answer.text))
        day.expect(f"{person.name} recalls {foreign}", texts[0], texts[1])


def lived(folder: Path, calls: int, seed: int) -> Day:
    """Live a day of so many calls at once; return what happened."""
    day, issuer = Day(folder), Issuer()
    morning(day)
    (folder / "jwks.json").write_bytes(issuer.jwks())
    tokens = {
        person.name: issuer.token(kind, sub=person.name.lower(), tenant=person.place[0])
        for person, kind in zip(TEAM, ("rs", "es", "ed") * 2, strict=True)
    }
    day.secrets = [*tokens.values()]
    with TeamServer(day.host_file) as team:
        anyio.run(at_once, day, team, tokens, calls, seed)
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


def printed(day: Day, *words: str, code: int = 0) -> Any:
    """Run a command over the store in this process, and return its JSON; ``code`` is how it must end."""
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        ended = run([*words, "--config", str(day.host_file), "--json"])
    assert ended == code, (words, told.getvalue(), out.getvalue()[:2_000])
    return json.loads(out.getvalue()) if out.getvalue() else None

"""The evening: when all is quiet, each person looks at everything, and for what is elsewhere."""

from __future__ import annotations

from mcp.client import Client

from tests.team.answers import Day, called, outline
from tests.team.calls import UNHEARD
from tests.team.cast import MARKERS, TEAM, WORK, Person
from tests.tools.server.http.team import MODERN, TeamServer
from tools.host.capabilities import SEARCH, SEARCH_MEMORY

PAGE = 7
"""Records a page of a search in the quiet of the evening: several pages a scope."""


async def evening(day: Day, team: TeamServer, tokens: dict[str, str]) -> None:
    """When all is quiet, have each person look at everything, and for what is elsewhere."""
    for person in TEAM:
        async with team.client(tokens[person.name], MODERN) as client:
            day.listed[person.name] = sorted(tool.name for tool in (await client.list_tools()).tools)
            if SEARCH in day.model.listed(person):
                await _look_at_records(day, client, person)
            if SEARCH_MEMORY in day.model.listed(person):
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

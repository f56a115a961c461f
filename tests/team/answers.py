"""What came back of the team's calls, and all that is kept of a day."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.shared.exceptions import MCPError

from tests.team.cast import Person, Place
from tests.team.model import OK, Model
from tools.cli.main import run

_UNLIKE = re.compile(r'sha256:[0-9a-f]{64}|\d{4}-\d\d-\d\dT[\d:.]{12}Z|"auditId": "[^"]*"|snapshot[_:][\w:]+')


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
    calls: int
    by_events: bool  # whether grants came and went
    model: Model = field(default_factory=Model)
    answers: list[Answer] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # what was answered otherwise than the model has it
    listed: dict[str, list[str]] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)  # tokens
    changes: Counter[Place] = field(default_factory=Counter)  # of authority in each scope: begun and done, each counted
    void: Counter[Place] = field(default_factory=Counter)  # what waited for a person when the epoch was raised
    early: set[tuple[Place, str, str]] = field(default_factory=set)  # what was asked for while it could be raised
    raised: set[Place] = field(default_factory=set)  # the scopes whose epoch was raised
    unsteady: int = 0  # calls under way while authority changed
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


def printed(day: Day, *words: str, code: int = 0) -> Any:
    """Run a command over the store in this process, and return its JSON; ``code`` is how it must end."""
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        ended = run([*words, "--config", str(day.host_file), "--json"])
    assert ended == code, (words, told.getvalue(), out.getvalue()[:2_000])
    return json.loads(out.getvalue()) if out.getvalue() else None

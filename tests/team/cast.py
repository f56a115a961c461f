"""Who is in the team: five people of three tenants with different grants, and one of a tenant that has not opted in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.tools.server.http.team import AUDIENCE, ISSUER
from tools.cli.main import run
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

WORK, SECOND, THIRD = "purpose:work", "purpose:second", "purpose:third"
COMPATIBLE = {THIRD: (WORK,)}
"""A purpose -> the purposes under which its records may be read too."""

Place = tuple[str, str]
"""A tenant and a workspace: one scope."""

HOST_TENANT, HOST_WORKSPACE, HOST_PRINCIPAL = "acme", "main", "Olga"


@dataclass(frozen=True)
class Person:
    """One principal, as the host file binds it to its token."""

    name: str
    place: Place
    granted: tuple[str, ...]
    purposes: tuple[str, ...]
    opted_in: bool = True

    @property
    def listed(self) -> tuple[str, ...]:
        """The tools that this one may call."""
        return self.granted if self.opted_in else ()

    def readable(self, purpose: str) -> set[str]:
        """Return the purposes whose records this one reads under a bound one."""
        return {purpose} | {each for each in self.purposes if purpose in COMPATIBLE.get(each, ())}


ANNA = Person("Anna", ("acme", "main"), ALL_TOOLS, (WORK, SECOND, THIRD))
BEN = Person("Ben", ("acme", "side"), (SEARCH, GET, SEARCH_MEMORY, MEMORY_STARTUP), (WORK,))
CLEO = Person("Cleo", ("acme", "main"), (SEARCH, SAVE_MESSAGE, SEARCH_MEMORY, MEMORY_STARTUP), (WORK,))
DORA = Person("Dora", ("beta", "main"), (SEARCH, GET, CAPTURE, REQUEST_ADMISSION, WITHDRAW, FORGET), (WORK, SECOND))
EMIL = Person(
    "Emil", ("gamma", "main"),
    (SEARCH, GET, CAPTURE, REQUEST_ADMISSION, SAVE_MESSAGE, SEARCH_MEMORY, MANAGE_KNOWLEDGE), (WORK, THIRD),
)  # fmt: skip
FAY = Person("Fay", ("delta", "main"), ALL_TOOLS, (WORK,), opted_in=False)
TEAM = (ANNA, BEN, CLEO, DORA, EMIL, FAY)

PLACES: tuple[Place, ...] = tuple(dict.fromkeys(person.place for person in TEAM))
MARKERS: dict[Place, str] = dict(zip(PLACES, ("quobarak", "zidomek", "vuxalok", "plenduk", "krostok"), strict=True))
"""A word that stands in everything that a scope holds, and in no other scope."""


def section() -> str:
    """Return the section [http] of the team's host file."""
    lines = ["[http]", "port = 0", f'audience = "{AUDIENCE}"', f'issuer = "{ISSUER}"', 'jwks = "jwks.json"']
    for person in TEAM:
        tenant, workspace = person.place
        lines += [
            "[[http.principals]]",
            f'claims = {{ sub = "{person.name.lower()}", tenant = "{tenant}" }}',
            f'principal = "{person.name}"',
            f"tools = {json.dumps(person.granted)}",
            f"purposes = {json.dumps(person.purposes)}",
            f'workspace = "{workspace}"',
            f'tenant = "{tenant}"',
        ]
        if tenant != HOST_TENANT:
            lines.append(f"tenant_enabled = {json.dumps(person.opted_in)}")
    return "\n".join(lines) + "\n"


def made_store(folder: Path) -> Path:
    """Make the team's store and its host file; return the host file. Nobody is waited for."""
    host_file = folder / "engram.toml"
    words = ["--store", str(folder / "store"), "--config", str(host_file), "--policy", "accept-asserted"]
    words += ["--tenant", HOST_TENANT, "--workspace", HOST_WORKSPACE, "--principal", HOST_PRINCIPAL]
    assert run(["init", *words, *(word for ref in (WORK, SECOND, THIRD) for word in ("--purpose", ref))]) == 0
    text = host_file.read_text(encoding="utf-8")
    text = re.sub(r"^\[http\]\n(?:.*\n)*", section(), text, flags=re.MULTILINE)
    text = text.replace("[[purposes]]", '[[workspaces]]\nname = "side"\n[[purposes]]', 1)
    text = re.sub(rf'(ref = "{THIRD}"\n(?:.*\n)*?compatible = )\[\]', rf'\1["{WORK}"]', text)
    text = re.sub(r"^wait_seconds = \d+", "wait_seconds = 0", text, flags=re.MULTILINE)
    text = re.sub(r"^notify = true", "notify = false", text, flags=re.MULTILINE)
    host_file.write_text(text, encoding="utf-8")
    return host_file

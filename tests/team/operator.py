"""What the operator changes of the team's authority while everybody works: revoked, granted again, opted out and in."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.team.cast import CLEO, DORA, EMIL, TEAM, Person, Place
from tests.team.model import Model
from tests.tools.cli.desk import command_line, environment
from tools.host.capabilities import CAPTURE, SAVE_MESSAGE, SEARCH


@dataclass(frozen=True)
class Change:
    """One change: the command, where it holds, and what it does to the model."""

    words: tuple[str, ...]
    place: Place
    done: Callable[[Model], None]

    @property
    def raises_epoch(self) -> bool:
        """Whether what waited for a person there is void after it."""
        return {"revoke", "rotate", "disable"} & set(self.words) != set()


def revoked(person: Person, tool: str) -> Change:
    words = ("grants", "revoke", "--principal", person.name, "--tool", tool)
    return Change(words, person.place, lambda model: model.taken.add((person.name, tool)))


def granted(person: Person, tool: str) -> Change:
    words = ("grants", "add", "--principal", person.name, "--tool", tool, "--expires", "8h")
    return Change(words, person.place, lambda model: model.taken.discard((person.name, tool)))


def opted(tenant: str, place: Place, *, enabled: bool) -> Change:
    def done(model: Model) -> None:
        (model.off.discard if enabled else model.off.add)(tenant)

    return Change(("tenants", "enable" if enabled else "disable", tenant), place, done)


def rotated(place: Place) -> Change:
    return Change(("grants", "rotate", "--tenant", place[0], "--workspace", place[1]), place, lambda _: None)


CHANGES = (
    revoked(DORA, CAPTURE),
    rotated(CLEO.place),
    opted(EMIL.place[0], EMIL.place, enabled=False),
    granted(DORA, CAPTURE),
    revoked(CLEO, SAVE_MESSAGE),
    opted(EMIL.place[0], EMIL.place, enabled=True),
    revoked(DORA, SEARCH),
    rotated(DORA.place),
)


def carried_out(host_file: Path, words: tuple[str, ...]) -> None:
    """Run a command in a process of its own."""
    done = subprocess.run(
        command_line(*words, "--config", str(host_file)), capture_output=True, text=True, check=False,
        env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stderr)


def all_granted(host_file: Path) -> None:
    """Have the host file ask for grant events, and grant each one what it allows."""
    text = host_file.read_text(encoding="utf-8")
    assert text.count("\n[grants]\n") == 1
    changed = text.replace('mode = "file"', 'mode = "events"', 1)
    if changed == text:
        changed = text.replace("\n[grants]\n", '\n[grants]\nmode = "events"\n', 1)
    host_file.write_text(changed, encoding="utf-8")
    for person in TEAM:
        if person.opted_in:
            carried_out(host_file, ("grants", "add", "--principal", person.name, "--tool", "all"))

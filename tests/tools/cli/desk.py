"""A person's desk: a store made by ``engram init``, commands run here or in a process of their own, and an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tools.memory.world import PURPOSE, SECOND, Caller
from tools.cli.main import run
from tools.host.binding import bind
from tools.host.file import load_host_file
from tools.memory.engine import Engine

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


class Desk:
    """A store, its host file, and the command line."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place = place
        self.store = place / "store"
        self.host_file = place / "engram.toml"
        self.root_key = place / "engram.key"
        self._capsys = capsys

    def init(self, *words: str) -> Ended:
        """Make the store."""
        return self.bare("init", "--store", str(self.store), "--config", str(self.host_file), *words)

    def bare(self, *words: str) -> Ended:
        """Run a command in this process, as it stands."""
        self._capsys.readouterr()
        code = run(words)
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return Ended(code, out, err)

    def run(self, *words: str) -> Ended:
        """Run a command over this store in this process."""
        return self.bare(*words, "--config", str(self.host_file))

    def ok(self, *words: str) -> Ended:
        """Run a command that must succeed."""
        ended = self.run(*words)
        assert ended.code == 0, ended
        return ended

    def json(self, *words: str) -> Any:
        """Run a command that must succeed, and return its JSON."""
        return self.ok(*words, "--json").json

    def process(self, *words: str, env: dict[str, str] | None = None, **how: Any) -> Ended:
        """Run a command over this store in a process of its own."""
        done = subprocess.run(
            command_line(*words, "--config", str(self.host_file)), capture_output=True, text=True, check=False,
            env={**environment(), **(env or {})}, **how,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def agent(self) -> Iterator[Caller]:
        """Yield an agent over this store. No command can run in this process meanwhile."""
        host_file = load_host_file(self.host_file)
        engine = Engine.open(host_file, bind(host_file))
        try:
            yield Caller(engine)
        finally:
            engine.close()

    def captured(self, *texts: str) -> list[str]:
        """Have an agent capture texts; return the candidate ids."""
        with self.agent() as agent:
            return [agent.capture(text) for text in texts]


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "tools.cli.main", *words]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def ready(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Desk:
    """Return a desk whose store is made."""
    desk = Desk(place, capsys)
    ended = desk.init("--purpose", PURPOSE, "--purpose", SECOND, *words)
    assert ended.code == 0, ended
    text = desk.host_file.read_text(encoding="utf-8")
    assert "wait_seconds = 50" in text
    desk.host_file.write_text(text.replace("wait_seconds = 50", "wait_seconds = 0"), encoding="utf-8")
    return desk

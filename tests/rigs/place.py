"""A store made by ``engram init``, the command line over it, and what its journal says happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

PURPOSE = "purpose:memory"
LONG = os.environ.get("ENGRAM_RIGS") == "long"
ROOT = Path(__file__).resolve().parents[2]


class Place:
    """A store and its host file. Every command is a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []  # servers, all that were started
        self.host_file = directory / "engram.toml"
        self.store = directory / "store"
        self.log: IO[bytes] = (directory / "servers.log").open("ab")
        self.log_file = directory / "servers.log"
        self.run("init", "--store", str(self.store), "--policy", "accept-asserted")
        text = self.host_file.read_text(encoding="utf-8")
        assert "wait_seconds = 50" in text
        self.host_file.write_text(text.replace("wait_seconds = 50", "wait_seconds = 0"), encoding="utf-8")

    def words(self, *words: str) -> list[str]:
        """Return the words of a command over this store."""
        return [sys.executable, "-m", "tools.cli.main", *words, "--config", str(self.host_file)]

    def environment(self, failpoint: str | None = None) -> dict[str, str]:
        """Return the environment of a process over this store."""
        return {**os.environ, "PYTHONPATH": str(ROOT)} | ({"ENGRAM_FAILPOINT": failpoint} if failpoint else {})

    def ended(self, *words: str, failpoint: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever it is."""
        return subprocess.run(
            self.words(*words),
            capture_output=True,
            text=True,
            check=False,
            env=self.environment(failpoint),
            timeout=120,
        )

    def run(self, *words: str) -> str:
        """Run a command that must succeed; return its output."""
        done = self.ended(*words)
        assert done.returncode == 0, (words, done.returncode, done.stdout[-2_000:], done.stderr[-2_000:])
        return done.stdout

    def json(self, *words: str) -> Any:
        """Run a command that must succeed; return its JSON."""
        return json.loads(self.run(*words, "--json"))

    def audited(self) -> int:
        """Audit the store, which must be clean; return the number of events."""
        report = self.json("audit")
        assert report["ok"], report
        return sum(int(scope["events"]) for scope in report["scopes"])

    def events(self) -> list[dict[str, Any]]:
        """Return every event of the journal."""
        events: list[dict[str, Any]] = self.json("replay", "--events")
        return events

    def captured(self) -> Counter[str]:
        """Return how many capture events each candidate has."""
        return Counter(event["subject"] for event in self.events() if event["type"] == "capture")

    def readers(self) -> int:
        """Return how many reader slots of the journal's environment are taken."""
        return int(self.json("stats")["store"]["readers"]["used"])

    def approve_all(self, failpoint: str | None = None) -> list[int]:
        """Approve every open request, each in a process of its own; return the exit codes."""
        waiting = self.json("confirm", "list")
        return [
            self.ended("confirm", "approve", request["confirmation_id"], failpoint=failpoint).returncode
            for request in waiting
        ]

    def close(self) -> None:
        """Kill what a failed rig left running, and close the log."""
        for process in self.processes:
            process.kill()
            process.wait(30)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self.log.close()

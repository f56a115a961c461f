"""A soak: four servers over one store under a mixed load, while servers are killed and everything is done to the store.

    python -m bench.soak [--minutes N] [--seed N] [--per-second N] [--to DIR]

It says how it stands once a minute.
Everything acknowledged is kept in a book and held beside the store, now and then and at the end (``bench.soaking``). In
DIR: samples.jsonl, soak.svg, table.txt. Exit code 1 where something did not hold.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.soaking import checks
from bench.soaking.book import Book
from bench.soaking.calls import Calls
from bench.soaking.client import Client
from bench.soaking.figures import so_far, table
from bench.soaking.ground import WORKSPACES, Ground, code_kept_in
from bench.soaking.operator import Operator
from bench.soaking.plot import svg
from bench.soaking.samples import Sampler
from tests import runs
from tests.rigs.lineclient import LineServer

SERVERS = 4
SAMPLES_MAX = 360
SAMPLE_SECONDS_MIN = 1.0
TOLD_SECONDS = 60.0
VIOLATIONS_TOLD = 50


@dataclass
class Soak:
    """One soak, from its store to its verdict."""

    place: Path
    to: Path
    minutes: float  # 0: until everything was done once
    seed: int
    per_second: float = 60.0  # calls, of all clients
    tell: Callable[[str], None] = lambda line: None  # is told how it stands, once a minute
    looked_for: dict[str, int] = field(default_factory=dict)
    is_planted_told: bool = False

    def run(self) -> list[str]:
        """Soak, check, write what was measured; return the lines of the table.

        What breaks off says which violations there were until then.
        """
        self.to.mkdir(parents=True, exist_ok=True)
        self.ground = Ground(self.place)
        self.grounds = {name: self.ground.bound_to(name) for name in WORKSPACES}
        self.book = Book(self.seed)
        self.chance = random.Random(f"{self.seed}:checks")
        try:
            self._load()
            self.tell("the load is over; everything is looked at")
            self._check()
        except BaseException as error:
            for each in self.book.violations[:VIOLATIONS_TOLD]:
                error.add_note(f"violation: {each}")
            raise
        finally:
            self.ground.close()
        marks = self.operator.marks
        for mark in marks:
            self.sampler.write({"mark": asdict(mark)})
        self.sampler.close()
        title = f"{SERVERS} servers, {self.minutes:g} minutes, seed {self.seed}"
        (self.to / "soak.svg").write_text(svg(title, self.sampler.samples, marks), encoding="utf-8")
        lines = self._told()
        (self.to / "table.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return lines

    def _load(self) -> None:
        """Let the clients work, the operator do everything, and take samples."""
        share = self.per_second / SERVERS
        names = [WORKSPACES[number % len(WORKSPACES)] for number in range(SERVERS)]
        self.clients = [Client(at, self.grounds[name], name, self.book, share) for at, name in enumerate(names)]
        self.operator = Operator(self.grounds, self.clients, self.book, self.minutes)
        self.sampler = Sampler(self.ground, self.clients, len(WORKSPACES), self.book, self.to / "samples.jsonl")
        begun = time.monotonic()
        self.sampler.start(begun, max(SAMPLE_SECONDS_MIN, self.minutes * 60 / SAMPLES_MAX))
        for client in self.clients:
            client.start()
        if self.minutes:
            self.operator.start(begun)
            self._wait(begun)
        else:
            self.operator.do_each_once(begun)
        for client in self.clients:
            client.stop()
        for client in self.clients:
            client.join()
        self.sampler.stop()
        self.operator.stop()

    def _wait(self, begun: float) -> None:
        """Wait until the load's time is over; say once a minute how it stands, and each violation that is new."""
        told, ends = 0, begun + self.minutes * 60
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, TOLD_SECONDS))
            if self.sampler.samples:
                self.tell(so_far(self.sampler.samples[-1], sum(client.deaths for client in self.clients)))
            for each in self.book.violations[told:VIOLATIONS_TOLD]:
                self.tell(f"violation: {each}")
                told += 1

    def _check(self) -> None:
        """Hold everything beside the book."""
        self._settle()
        for client in self.clients:
            if code := client.server.close():
                self.book.wrong(f"server {client.number} ended with {code}")
        answers, self.is_planted_told = 0, True
        for workspace, ground in self.grounds.items():
            entries = self.book.entries(workspace)
            server = LineServer(ground).handshake()
            answers += checks.against_answers(server, self.book, entries, self.chance)
            checks.all_complete(server, self.book, entries)
            server.close()
            events = ground.events()
            unanswered = sum(client.unanswered_messages for client in self.clients if client.workspace == workspace)
            for wrong in checks.against_events(entries, events, unanswered):
                self.book.wrong(wrong)
            self.is_planted_told &= checks.planted_is_told(entries, events, unanswered)
            self.looked_for["events"] = self.looked_for.get("events", 0) + len(events)
            if self.minutes:  # as the audit does too, by other ways
                checks.verified(ground, self.book)
        checks.nothing_broke(self.ground, self.book)
        checks.audited(self.ground, self.book)
        self.looked_for["answers"] = answers
        self.looked_for["byte strings"] = checks.nothing_left(self.grounds, self.book, self.place, self.chance)
        self.looked_for["entries in the restored copy"] = checks.restored(self.grounds, self.book, self.operator.safe)

    def _settle(self) -> None:
        """Approve what still waits, and let the clients' servers say that it is done."""
        self.operator.approve_all()
        calls = Calls(self.book)
        for client in self.clients:
            for entry in client.asked():
                planned = calls.end(entry)
                answer = client.server.request("tools/call", {"name": planned.tool, "arguments": planned.arguments})
                planned.answered(answer.result(60)["result"]["structuredContent"])
                if entry.fate:
                    self.book.wrong(f"{entry.subject} was approved, and still waits")

    def _told(self) -> list[str]:
        states = Counter(f"{each.kind} {each.state}" for each in self.book.entries())
        marks = Counter(mark.what for mark in self.operator.marks)
        slowest = {what: max(m.took_seconds for m in self.operator.marks if m.what == what) for what in marks}
        deaths = sum(client.deaths for client in self.clients)
        lines = [
            f"{SERVERS} servers, {self.minutes:g} minutes, seed {self.seed}, {self.per_second:g} calls a second",
            f"acknowledged: {sum(self.book.acknowledged.values()):,} ({_listed(self.book.acknowledged)})",
            f"now: {_listed(states)}",
            f"from the side: {_listed(marks)}; the slowest of each took, in s: {_listed(slowest)}",
            f"servers that died: {deaths}; calls sent again: {sum(client.retried for client in self.clients)}",
            f"refused and asked again: {_listed(self.book.refused) or 'none'}",
            *table(self.sampler.samples, self.sampler.took),
            f"looked at in the end: {_listed(self.looked_for)}",
            f"a planted loss is told: {'yes' if self.is_planted_told else 'NO'}",
            f"violations: {len(self.book.violations)}",
        ]
        return [*lines, *(f"  {each}" for each in self.book.violations[:VIOLATIONS_TOLD])]

    @property
    def holds(self) -> bool:
        """Whether all that must hold does."""
        return not self.book.violations and self.is_planted_told

    def must_hold(self) -> None:
        """Do nothing where all holds.

        Raises:
            AssertionError: something does not; it says what.
        """
        wrong = self.book.violations[:VIOLATIONS_TOLD]
        if not self.is_planted_told:
            wrong.append("a loss that was planted in the book was not told")
        if wrong:
            raise AssertionError("\n".join(wrong))


def _listed(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:,.1f}" if isinstance(value, float) else f"{name} {value:,}"
                     for name, value in sorted(counts.items()))  # fmt: skip


def main() -> int:
    """Soak and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", default=runs.seed("1"), help="any text")
    parser.add_argument("--per-second", type=float, default=60)
    parser.add_argument("--to", type=Path, default=Path("soaked"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engram-soak-") as directory:
        place, code = Path(directory) / "place", Path(directory) / "code"
        place.mkdir()
        code_kept_in(code)
        to = options.to.resolve()
        os.chdir(code)
        tell = partial(print, flush=True)
        soak = Soak(place, to, options.minutes, runs.number_of(options.seed), options.per_second, tell)
        with runs.repeatable("soak", options.seed, MINUTES=f"{options.minutes:g}"):
            tell("\n".join(soak.run()))
        tell(runs.again("soak", options.seed, MINUTES=f"{options.minutes:g}"))
    return 0 if soak.holds else 1


if __name__ == "__main__":
    sys.exit(main())

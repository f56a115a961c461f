"""What is done to a store from the side while clients work on it: approvals, kills, rebuilds, backups, rotations."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.soaking.book import CURRENT, SUPERSEDED, Book, Kept
from bench.soaking.checks import audited, verified
from bench.soaking.client import Client
from bench.soaking.ground import WORKSPACES, Ground
from bench.soaking.traces import traces_of

PROJECTIONS = ("current", "lexical", "timeline", "messages", "tags", "profile")
EVERY_SECONDS = {
    "kill": 20, "rebuild": 45, "backup": 75, "rotation": 60, "checkpoint": 50, "supersede": 15, "check": 120,
}  # fmt: skip
"""About so often in a run of ten minutes or more; in a shorter one more often."""
_APPROVED_AT_ONCE = 8
_APPROVALS_EVERY_SECONDS = 5.0
_BACKUPS_KEPT = 2


@dataclass(frozen=True)
class Mark:
    """Something that was done from the side: when it began, in seconds of the soak, and how long it took."""

    what: str
    at_seconds: float
    took_seconds: float


@dataclass
class Safe:
    """The newest backup with its keys, and when it was begun."""

    folder: Path
    backup: Path | None = None
    keys: Path | None = None
    begun_at: float = 0.0
    recipient: str = ""
    made: list[tuple[Path, Path]] = field(default_factory=list)

    @property
    def identity(self) -> Path:
        """The secret that opens the keys."""
        return self.folder.parent / "identity"


class Operator:
    """One person at the command line, in two threads: one approves, one does everything else."""

    def __init__(self, grounds: dict[str, Ground], clients: list[Client], book: Book, minutes: float) -> None:
        self.marks: list[Mark] = []
        self._grounds, self._clients, self._book = grounds, clients, book
        self._ground = grounds[WORKSPACES[0]]
        self.safe = Safe(self._ground.directory / "backups")
        self.safe.folder.mkdir(mode=0o700)
        self._chance = random.Random(f"{book.seed}:operator")
        self._shorter = min(1.0, minutes / 10)
        self._stopping = threading.Event()
        self._begun = 0.0
        self._rounds = dict.fromkeys(EVERY_SECONDS, 0)
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True)
            for work in (self._approve_now_and_then, self._disturb)
        ]

    def start(self, begun: float) -> None:
        """Begin. ``begun``: the monotonic instant that marks count from."""
        self._begun = begun
        self.safe.recipient = self._ground.run("keys", "recipient", str(self.safe.identity)).split()[-1]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End with what is at hand."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(600)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - a soak whose operator failed is no soak
            self._book.wrong(f"the operator ended: {type(error).__name__}: {error}"[:600])

    @contextmanager
    def _marked(self, what: str) -> Iterator[None]:
        at = time.monotonic()
        yield
        self.marks.append(Mark(what, at - self._begun, time.monotonic() - at))

    def do_each_once(self, begun: float) -> None:
        """Do what a soak does over and over once, but what is done in the end anyway; in the caller's thread."""
        self._begun = begun
        self.safe.recipient = self._ground.run("keys", "recipient", str(self.safe.identity)).split()[-1]
        for work in (self._kill, self.approve_once, self._rebuild, self._backup, self._rotation, self._supersede):
            work()

    # --- approvals ----------------------------------------------------------------------------------

    def _approve_now_and_then(self) -> None:
        while not self._stopping.wait(_APPROVALS_EVERY_SECONDS * self._shorter):
            self.approve_once()

    def approve_once(self) -> int:
        """Take the traces of what is doomed, and approve what waits; return how much was approved."""
        approved = 0
        for workspace, ground in self._grounds.items():
            doomed = [each for client in self._clients if client.workspace == workspace for each in client.doomed()]
            if doomed:
                self._book.traces |= traces_of(ground, {each.subject: each.word for each in doomed})
                for each in doomed:
                    each.fate = "traced"
            for request in ground.json("confirm", "list")[:_APPROVED_AT_ONCE]:
                done = ground.ended("confirm", "approve", request["confirmation_id"])
                approved += 1
                if done.returncode:
                    self._book.wrong(f"an approval ended {done.returncode}: {done.stderr[-300:]}")
        return approved

    def approve_all(self) -> None:
        """Approve until nothing waits."""
        while self.approve_once():
            pass

    # --- everything else ------------------------------------------------------------------------------

    def _disturb(self) -> None:
        due = {what: self._after(what) * self._chance.uniform(0.3, 1) for what in EVERY_SECONDS}
        while not self._stopping.is_set():
            what = min(due, key=lambda each: due[each])
            if self._stopping.wait(max(0.0, self._begun + due[what] - time.monotonic())):
                return
            getattr(self, f"_{what}")()
            self._rounds[what] += 1
            due[what] = time.monotonic() - self._begun + self._after(what)

    def _after(self, what: str) -> float:
        return EVERY_SECONDS[what] * self._shorter * self._chance.uniform(0.7, 1.3)

    def _kill(self) -> None:
        """Kill one of the servers that may die: the first of each workspace lives to the end, so that leaks show."""
        with self._marked("kill"):
            self._chance.choice(self._clients[len(self._grounds) :]).server.kill()

    def _rebuild(self) -> None:
        names = self._chance.choice([("--all",), (self._chance.choice(PROJECTIONS),)])
        with self._marked("rebuild"):
            self._done(self._any_ground(), "projections", "rebuild", *names)

    def _rotation(self) -> None:
        erase = ("--erase",) if self._rounds["rotation"] % 3 == 1 else ()
        with self._marked("rotation"):
            self._done(self._any_ground(), "keys", "rotate", *erase)

    def _checkpoint(self) -> None:
        with self._marked("checkpoint"):
            self._done(self._ground, "checkpoint", "--all")

    def _check(self) -> None:
        with self._marked("check"):
            audited(self._ground, self._book)
            verified(self._any_ground(), self._book)

    def _backup(self) -> None:
        """Back up, then the keys: so the keys of all that is in the backup are there."""
        number = self._rounds["backup"]
        backup, keys = self.safe.folder / f"journal-{number}", self.safe.folder / f"keys-{number}"
        begun = time.monotonic()
        with self._marked("backup"):
            made = self._done(self._ground, "backup", str(backup))
            made = made and self._done(self._ground, "keys", "backup", str(keys), "--to", self.safe.recipient)
        if made:
            self.safe.backup, self.safe.keys, self.safe.begun_at = backup, keys, begun
            self.safe.made.append((backup, keys))
            for old in self.safe.made[:-_BACKUPS_KEPT]:
                for file in old:
                    file.unlink(missing_ok=True)

    def _supersede(self) -> None:
        workspace = self._chance.choice(WORKSPACES)
        pair = self._two_records(workspace)
        if pair is None:
            return
        old, new = pair
        with self._marked("supersede"):
            if self._done(self._grounds[workspace], "records", "supersede", old.record_id, "--by", new.record_id):
                old.state, old.changed_at = SUPERSEDED, time.monotonic()
                old.version += 1
                self._book.count("supersede")
        old.fate = new.fate = ""

    def _two_records(self, workspace: str) -> tuple[Kept, Kept] | None:
        held: list[Kept] = []
        everything = self._book.entries(workspace)
        for entry in self._chance.sample(everything, min(100, len(everything))):
            if entry.state == CURRENT and not entry.changing and self._book.claim(entry, "held"):
                held.append(entry)
            if held[1:]:
                return held[0], held[1]
        for entry in held:
            entry.fate = ""
        return None

    def _any_ground(self) -> Ground:
        return self._grounds[self._chance.choice(WORKSPACES)]

    def _done(self, ground: Ground, *words: str) -> bool:
        """Run a command that must succeed; note where it does not."""
        ended = ground.ended(*words)
        if ended.returncode:
            self._book.wrong(f"engram {' '.join(words[:2])} ended {ended.returncode}: {ended.stderr[-300:]}")
        return ended.returncode == 0

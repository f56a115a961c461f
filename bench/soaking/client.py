"""One client of a soak: it draws calls from a seed, brings them through its server's deaths, and takes their time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from bench.soaking.book import ACTIVE, CURRENT, ENDED, PENDING, Book, Kept, frequent_word
from bench.soaking.calls import RETRIABLE, Calls, Planned, Unexpected
from bench.soaking.ground import Ground
from tests.rigs.lineclient import CALL_SECONDS, SLACK_SECONDS, Gone, LineServer

_BATCH_MAX = 4
_DOOMED_MAX = 4  # of one client at a time: a person approves them one by one
_WEIGHTS = {
    "capture": 24, "admit": 22, "say": 14, "find": 14, "get": 12, "browse": 10, "again": 3, "end": 3,
}  # fmt: skip
_ENDED_ASKED = 0.2  # so often a look is at something that ended


class Client:
    """A client, its server, and the thread in which it works."""

    def __init__(self, number: int, ground: Ground, workspace: str, book: Book, per_second: float) -> None:
        self.number, self.workspace = number, workspace
        self.deaths = 0
        self.retried = 0
        self.took: list[tuple[str, float]] = []  # operation, seconds; whoever samples takes them away
        self.failure: BaseException | None = None
        self._ground, self._book, self._per_second = ground, book, per_second
        self._chance = random.Random(f"{book.seed}:{number}")
        self._calls = Calls(book)
        self._own: list[Kept] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._drawers: dict[str, Callable[[], Planned | None]] = {
            "capture": self._capture, "admit": self._admit, "say": self._say, "find": self._find, "get": self._get,
            "browse": self._browse, "again": self._again, "end": self._end,
        }  # fmt: skip
        self.server = LineServer(ground)  # all of them start at once; whoever begins has waited for its own

    def start(self) -> None:
        """Begin."""
        self.server.handshake()
        self._thread.start()

    def stop(self) -> None:
        """Tell it to end with the batch that it is at."""
        self._stopping.set()

    def join(self) -> None:
        """Wait for its end; raises what ended it."""
        self._thread.join(120)
        if self._thread.is_alive():
            raise TimeoutError(f"client {self.number} hangs")
        if self.failure is not None:
            raise self.failure

    def doomed(self) -> list[Kept]:
        """Return what it wants ended, and of which no trace is taken yet."""
        return [each for each in list(self._own) if each.fate == "doomed"]

    def asked(self) -> list[Kept]:
        """Return what it wants ended and a person was asked about."""
        return [each for each in self._own if each.fate == "asked"]

    @property
    def unanswered_messages(self) -> int:
        """How many sends of messages no answer came to."""
        return sum(each.sends for each in self._own if each.kind == "message")

    def _guarded(self) -> None:
        try:
            due = time.monotonic()
            while not self._stopping.is_set():
                batch = self._drawn()
                self._bring_through(batch)
                due = max(due + len(batch) / self._per_second, time.monotonic() - 1)
                self._stopping.wait(max(0.0, due - time.monotonic()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that joins
            self.failure = error
            self._book.wrong(f"client {self.number} ended: {type(error).__name__}: {error}")

    # --- what it asks -----------------------------------------------------------------------------

    def _drawn(self) -> list[Planned]:
        batch: list[Planned] = []
        for _ in range(self._chance.randint(1, _BATCH_MAX)):
            planned = self._drawers[self._chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]]()
            touched = [each.about for each in batch]
            if planned is not None and (planned.about is None or planned.about not in touched):
                batch.append(planned)
        return batch or [self._capture()]

    def _new(self, kind: str) -> Kept:
        word = self._book.new_word()
        text = self._book.new_text(self._chance, word)
        return Kept(self.workspace, self.number, kind, word, text, f"key-of-the-soak:{word}")

    def _capture(self) -> Planned:
        return self._calls.capture(self._new("record"))

    def _say(self) -> Planned:
        return self._calls.say(self._new("message"))

    def _admit(self) -> Planned | None:
        entry = self._one_of(lambda each: each.state == PENDING and not each.fate, latest=200)
        return None if entry is None else self._calls.admit(entry)

    def _again(self) -> Planned | None:
        entry = self._one_of(lambda each: each.kind == "record" and each.is_steady)
        return None if entry is None else self._calls.again(entry)

    def _end(self) -> Planned | None:
        """Go on with what is to end, or doom something more."""
        under_way = [each for each in self._own if each.fate]
        ready = [each for each in under_way if each.fate in ("traced", "asked")]
        if ready:
            return self._calls.end(self._chance.choice(ready))
        if len(under_way) < _DOOMED_MAX:
            entry = self._one_of(lambda each: each.state in (PENDING, CURRENT, ACTIVE) and not each.fate)
            if entry is not None:
                self._book.claim(entry, "doomed")
        return None

    def _get(self) -> Planned | None:
        entry = self._looked_at("record", lambda each: bool(each.record_id))
        return None if entry is None else self._calls.get(entry)

    def _find(self) -> Planned | None:
        entry = self._looked_at(self._chance.choice(["record", "record", "message"]), lambda each: True)
        return None if entry is None else self._calls.find(entry)

    def _browse(self) -> Planned:
        tool = self._chance.choice(["search", "search", "search_memory"])
        return self._calls.browse(tool, frequent_word(self._chance))

    def _one_of(self, fits: Callable[[Kept], bool], latest: int = 0) -> Kept | None:
        """Return one of its own that fits, if a few tries find one."""
        among = self._own[-latest:]
        for _ in range(20 if among else 0):
            entry = self._chance.choice(among)
            if fits(entry):
                return entry
        return None

    def _looked_at(self, kind: str, fits: Callable[[Kept], bool]) -> Kept | None:
        """Return something of the workspace, whoever of its clients wrote it."""
        everything = self._book.kept[self.workspace]
        wants_ended = self._chance.random() < _ENDED_ASKED
        for _ in range(20 if everything else 0):
            entry = self._chance.choice(everything)
            if entry.kind == kind and (entry.state in ENDED) == wants_ended and fits(entry):
                return entry
        return None

    # --- how it is brought through ------------------------------------------------------------------

    def _bring_through(self, batch: list[Planned]) -> None:
        for planned in batch:
            if planned.changes and planned.about is not None:
                planned.about.changing += 1
        todo = batch
        while todo:
            sent = [(planned, *self._timed(planned)) for planned in todo]
            todo = [planned for planned, since, future in sent if not self._is_done(planned, since, future)]
            if todo and self.server.process.poll() is not None:
                self._restart()
            elif todo:
                time.sleep(0.05)
        for planned in batch:
            if planned.changes and planned.about is not None:
                planned.about.changing -= 1
                if planned.operation in ("capture", "save_message") and planned.about.subject:
                    self._own.append(planned.about)

    def _timed(self, planned: Planned) -> tuple[float, Future[dict[str, Any]]]:
        since = time.monotonic()
        future = self.server.request("tools/call", {"name": planned.tool, "arguments": planned.arguments})

        def note(done: Future[dict[str, Any]]) -> None:
            if done.exception() is None:
                self.took.append((planned.operation, time.monotonic() - since))

        future.add_done_callback(note)
        return since, future

    def _is_done(self, planned: Planned, since: float, future: Future[dict[str, Any]]) -> bool:
        """Take an answer; return whether there was one that need not be asked for again."""
        try:
            answer = future.result(CALL_SECONDS + SLACK_SECONDS)["result"]["structuredContent"]
        except Gone:
            self.retried += 1
            planned.lost()
            return False
        except TimeoutError:
            waited = time.monotonic() - since
            self._book.wrong(f"{planned.operation} was not answered within {waited:.0f} s")
            return True
        if not answer["ok"] and answer["error"]["code"] in RETRIABLE:
            with self._book.lock:
                self._book.refused[answer["error"]["code"]] += 1
            planned.lost()
            return False
        try:
            planned.answered(answer)
        except Unexpected as error:
            self._book.wrong(f"{planned.operation} in {self.workspace}: {error}")
        return True

    def _restart(self) -> None:
        self.deaths += 1
        self.server.kill()
        self.server = LineServer(self._ground).handshake()

"""A store that is searched through the projections' snapshots while another process writes to it.

    python -m bench.searching.live STORE     writes until its input ends, then prints how many records it wrote

A record is two durable transactions: its capture and its acceptance. Nothing of the tools is in the times: no reading
of arguments, no pages, no receipts.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from blake3 import blake3

from bench.commit import arguments, binding
from bench.searching.lexical_index import BEST, PER_SOURCE
from journal import identity, layout, limits
from journal.digests import candidate_id_of
from journal.events import Draft, EventType
from journal.lifecycle import State
from journal.log import Journal
from journal.scope import Scope
from journal.store.port import Committed
from projections.fusion import WORDS_DOCUMENTS
from projections.lexical.question import Question
from projections.serving import RECORDS
from replay.rebuild import collecting_seldom, rebuild_all
from tools.memory.engine import Engine
from tools.memory.query_embedding import QueryVector
from tools.memory.records import asserted_trust, capture_content, effective_payload, record_of
from tools.memory.semantic import Meant, Semantic

_ROOT: Final = Path(__file__).resolve().parents[2]
_BATCH: Final = limits.BATCH_MAX_EVENTS


class LiveStore:
    """A store with one scope."""

    def __init__(self, place: Path) -> None:
        """Open a store, or make one."""
        if not place.exists():
            layout.create(place, "bench")
        self.place = place
        self._engine = Engine(Journal.open(place, bytes(32)), binding())
        self._scope = self._engine.binding.scope
        self._journal = self._engine.journal
        gc.freeze()
        gc.set_threshold(limits.COLLECTED_OBJECTS)  # as a server has it

    # --- writing ---------------------------------------------------------------------------------

    def fill(self, texts: Sequence[str]) -> None:
        """Write records, and bring the projections there."""
        self.record(texts)
        self.search("")
        while self._engine.projections(self._scope).upkeep():
            pass

    def record(self, texts: Sequence[str]) -> None:
        """Write records, many a transaction, and leave the projections where they are."""
        for first in range(0, len(texts), _BATCH):
            part = enumerate(texts[first : first + _BATCH], first)
            self._bring([self._capture(text, f"source:{number // PER_SOURCE}") for number, text in part])

    def write(self, text: str, source: str) -> None:
        """Capture and accept a record, a durable transaction each."""
        self._bring([self._capture(text, source)])

    def _bring(self, captures: list[tuple[Draft, dict[str, Any]]]) -> None:
        """Commit captures, and then their acceptances."""
        committed = self._commit([draft for draft, _ in captures])
        records = [record_of(event.header, content) for event, (_, content) in zip(committed, captures, strict=True)]
        self._commit([self._accept(draft, record) for (draft, _), record in zip(captures, records, strict=True)])

    def _commit(self, drafts: list[Draft]) -> list[Committed]:
        return self._journal.commit(self._scope, lambda _view: drafts)

    def _capture(self, text: str, source: str) -> tuple[Draft, dict[str, Any]]:
        """Return a capture, and its content."""
        journal, scope, actor = self._journal, self._scope, self._engine.binding.actor()
        raw = arguments("")["payload"]
        raw["components"][0]["text"], raw["citations"][0]["source_ref"] = text, source
        payload = effective_payload(scope, raw)
        event_id, key = journal.random_event_id(scope), journal.take_key(scope)
        subject = candidate_id_of(event_id)
        digest = "blake3:" + blake3(text.encode()).hexdigest()
        evidence = {"evidence_ref": "evidence:bench", "evidence_digest": digest, "citation_ids": ["citation:1"]}
        content = capture_content(payload, evidence, asserted_trust(digest, 0), {"receipt_digest": digest})
        draft = Draft(
            type=EventType.CAPTURE, event_id=event_id, actor=actor, subject=subject, to_state=State.PENDING,
            key_id=key.key_id, slot=key.slot, slot_generation=key.generation, intent=blake3(event_id).digest(),
            guards=identity.guards(journal.keyring.identity_key(scope), payload),
            content=journal.seal_content(scope, event_id, subject, key, content),
        )  # fmt: skip
        return draft, content

    def _accept(self, capture: Draft, record: dict[str, Any]) -> Draft:
        event_id = self._journal.random_event_id(self._scope)
        assert capture.subject is not None
        return Draft(
            type=EventType.ACCEPT, event_id=event_id, actor=capture.actor, subject=capture.subject,
            record_id=record["record_id"], from_state=State.PENDING,
            to_state=State.ACCEPTED_CURRENT,
            ledger=self._journal.seal_ledger(self._scope, event_id, capture.subject, {"decision": "accept"}),
        )  # fmt: skip

    # --- reading ---------------------------------------------------------------------------------

    def search(self, query: str) -> int:
        """Take a snapshot of what is committed and rank it; return the capture cursor of the best, 0 for none."""
        with self._engine.projections(self._scope).snapshot(None, RECORDS) as snapshot:
            hits = snapshot.lexical.search(Question.of(query), BEST).hits
        return int(hits[0][0]) if hits else 0

    @property
    def journal(self) -> Journal:
        """The store's journal."""
        return self._journal

    def embed(self, semantic: Semantic) -> None:
        """Embed everything."""
        while semantic.step(self._engine.projections(self._scope)):
            pass

    def by_both(self, semantic: Semantic, query: str, vector: QueryVector) -> int:
        """Do what ``search`` does by words and meaning; ``vector`` gives the query's, and is asked after the words."""
        projections, question = self._engine.projections(self._scope), Question.of(query)
        with projections.snapshot(None, RECORDS) as snapshot:
            words = snapshot.lexical.search(question, WORDS_DOCUMENTS).hits
            ranker = semantic.of_records(projections, snapshot, Meant(question, vector), _all)
            hits = ranker.ranked(words, None).hits
        return hits[0][0] if hits else 0

    def until_found(self, count: int) -> tuple[list[float], list[float]]:
        """Write records with a word of their own; return the seconds from each commit's end to its being found.

        Beside them come the seconds of the same search again, which has nothing to take in.
        """
        times, again, newest = [], [], 0
        for number in range(count):
            word = f"zqx{blake3(str(number).encode()).hexdigest()[:12]}"
            self.write(f"The word is {word}, said once.", "source:words")
            began = time.perf_counter()
            found = self.search(word)
            times.append(time.perf_counter() - began)
            assert found > newest, "what was committed is not found"
            newest = found
            began = time.perf_counter()
            self.search(word)
            again.append(time.perf_counter() - began)
        return times, again

    def taken_in(self, count: int) -> tuple[list[float], list[float]]:
        """Return the seconds of searches right after commits: of a record in the scope, and of one in another scope.

        The second has nothing to take in, and the machine comes from a flush all the same.
        """
        own = self._scope
        taking: list[float] = []
        nothing: list[float] = []
        for number in range(count):
            word = f"zqy{blake3(str(number).encode()).hexdigest()[:12]}"
            for scope, times in ((own, taking), (Scope(own.tenant_id, "elsewhere"), nothing)):
                self._scope = scope
                self.write(f"The word is {word}, said once.", "source:words")
                self._scope = own
                began = time.perf_counter()
                self.search(word)
                times.append(time.perf_counter() - began)
        return taking, nothing

    def rebuild(self) -> None:
        """Rebuild what a search of records reads, as the command does."""
        with collecting_seldom():
            rebuild_all(self._engine.projections(self._scope), RECORDS, ahead=self._journal)

    def close(self) -> None:
        """Close the store."""
        self._engine.close()


def _all(cursors: Any) -> Any:
    """Say that every one of these may be answered with."""
    return np.ones(len(cursors), np.bool_)


class Writing:
    """What another process has written; told when it has ended."""

    records = 0
    seconds = 0.0


@contextmanager
def written_to(place: Path) -> Iterator[Writing]:
    """Let another process write to a store as fast as it can."""
    told, began = Writing(), time.perf_counter()
    command = [sys.executable, "-m", "bench.searching.live", str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        try:
            assert writer.stdout.readline() == "writing\n"
            began = time.perf_counter()
            yield told
        finally:
            told.seconds = time.perf_counter() - began
            writer.stdin.close()
            told.records = int(writer.stdout.readline() or 0)


def main() -> None:
    """Write until the input ends."""
    store = LiveStore(Path(sys.argv[1]))
    ended, written = threading.Event(), 0

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    print("writing", flush=True)
    while not ended.is_set():
        store.write(f"Note {written}: the nightly build moved to 02:30 because backups end at 02:00.", "source:notes")
        written += 1
    print(written, flush=True)
    store.close()


if __name__ == "__main__":
    main()

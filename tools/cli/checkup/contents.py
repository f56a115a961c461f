"""What stands in a store, looked at without a key: map, readers, clock, what is pending, key slots, projections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import lmdb

from journal import layout, limits
from journal.authority import GRANT_PREFIX, GrantState
from journal.clock import SystemClock, instant
from journal.errors import EngramError
from journal.indexes import Table, decode_subject
from journal.scope import Scope
from journal.store.lmdb import tables
from journal.store.lmdb.view import LmdbView, read_record
from journal.store.port import Subject
from tools.cli.checkup import granting, reading
from tools.cli.checkup.finding import Finding, fault, note, warning
from tools.cli.checkup.generations import projections
from tools.cli.checkup.granting import Granted
from tools.cli.checkup.keyslots import key_slots
from tools.cli.checkup.rollback import reached, rolled_back
from tools.cli.checkup.running import Check
from tools.cli.counting import counted
from tools.cli.invocation import scope_words
from tools.damage import RESTORE

_MINUTE_MILLISECONDS = 60_000
_DAY_MILLISECONDS = 24 * 60 * _MINUTE_MILLISECONDS
_HELD_TRANSACTIONS = 1_000  # a reader so far behind keeps pages that could be used again
_BROKEN = (EngramError, lmdb.Error)


@dataclass(frozen=True, slots=True)
class Inside:
    """A store that is looked into."""

    store: Path
    env: lmdb.Environment
    map_size_bytes: int

    @contextmanager
    def rows(self) -> Iterator[tuple[lmdb.Transaction, dict[bytes, Any]]]:
        """Yield a read transaction and the tables; keep it short."""
        databases = {name: self.env.open_db(name, create=False) for name in tables.NAMES}
        with self.env.begin() as txn:
            yield txn, databases

    @contextmanager
    def view(self, scope: Scope) -> Iterator[LmdbView]:
        """Yield a scope's indexes."""
        with self.rows() as (txn, databases):
            yield LmdbView(txn, databases, scope)

    def sample(self, scope: Scope) -> list[tuple[str, Subject]]:
        """Return some of a scope's subjects with their ids: the first by id, and ids are digests."""
        with self.rows() as (txn, databases):
            rows = tables.walk_prefix(txn, databases[Table.SUBJECT.value], scope.tag)
            return [(key.decode(), decode_subject(raw)) for key, raw in islice(rows, limits.CHECK_SUBJECTS_SAMPLE)]

    def scopes(self) -> list[Scope]:
        """Return the scopes that have an event."""
        with self.rows() as (txn, databases):
            return [read_record(raw).scope for _, raw in tables.walk_prefix(txn, databases[tables.HEADS], b"")]


def checks(
    store: Path,
    map_size_bytes: int,
    anchor: Path | None = None,
    embeddings: Mapping[str, str] | None = None,
    granted: Granted | None = None,
) -> Iterator[Check]:
    """Yield the checks of a store's contents, the environment open meanwhile.

    ``embeddings`` has the ``folder`` of the host's embeddings and how its ``model`` is told; ``granted`` is who has
    tools where by grant events alone.
    """
    journal = store / layout.JOURNAL
    if not (journal / reading.DATA).exists():
        if not any((store / layout.KEYS).glob("*.keyring")):  # nothing was ever captured, or all of it was taken back
            yield rolled_back(store, anchor, dict)
            if granted is not None:
                yield granting.check(str(store), granted, lambda: ())
        return  # told by the check of the store's place
    try:
        with reading.opened(journal, max_dbs=tables.MAX_DBS, map_size_bytes=map_size_bytes) as env:
            inside = Inside(store, env, map_size_bytes)
            yield from _checks(inside, embeddings)
            if granted is not None:
                yield granting.check(str(store), granted, partial(_granting, inside))
            yield rolled_back(store, anchor, partial(reached, store, inside.scopes, inside.view))
    except _BROKEN as error:
        yield Check("JOURNAL_OPENS", str(journal), "", partial(_cannot_open, journal, error))


def _checks(inside: Inside, embeddings: Mapping[str, str] | None) -> Iterator[Check]:
    scopes: list[Scope] = []

    def each_scope(look: Callable[[Inside, Scope], Iterator[Finding]]) -> Callable[[], Iterator[Finding]]:
        def all_scopes() -> Iterator[Finding]:
            for scope in scopes:
                yield from look(inside, scope)

        return all_scopes

    def ends() -> Iterator[Finding]:
        scopes.extend(inside.scopes())
        for scope in scopes:
            yield from _last_event(inside, scope)

    subject = str(inside.store)
    yield Check("JOURNAL_ENDS", subject, "every scope's last event is whole", ends)
    yield Check("JOURNAL_MAP", subject, "the map has room", partial(_map, inside))
    yield Check("READERS", subject, "reader slots are free", partial(_readers, inside))
    yield Check("CLOCK", "clock", "the clock agrees with the last events", each_scope(_clock))
    yield Check("PENDING_ERASURE", subject, "what was ended is erased", each_scope(_pending))
    yield Check("WAITING", subject, "nothing waits for a person", each_scope(_waiting))
    yield Check(
        "KEY_SLOTS", subject, "live subjects have their keys",
        each_scope(lambda inside, scope: key_slots(inside.store, scope, inside.view, inside.sample)),
    )  # fmt: skip
    yield Check(
        "PROJECTIONS", subject, "projections are whole and near the head, or are made when first asked for",
        each_scope(lambda inside, scope: projections(inside.store, scope, inside.view)),
    )  # fmt: skip
    if embeddings is not None:
        look = each_scope(lambda inside, scope: _embeddings(inside, scope, embeddings))
        yield Check("EMBEDDINGS", subject, "there is nothing to embed yet", look)


def _embeddings(inside: Inside, scope: Scope, named_model: Mapping[str, str]) -> Iterator[Finding]:
    from tools.cli.checkup import embeddings  # here: it brings the library of arrays

    yield from embeddings.check(inside.store, scope, named_model["folder"], named_model["model"], inside.view)


def named(scope: Scope) -> str:
    """Return a scope for a person."""
    return f"{scope.tenant_id} / {scope.workspace_id}"


def _granting(inside: Inside) -> Iterator[Scope]:
    """Yield the scopes in which any grant stands. Whose it is, only the store's keys tell."""
    for scope in inside.scopes():
        with inside.view(scope) as view:
            if any(row.state == GrantState.STANDING for _, row in view.subjects(GRANT_PREFIX)):
                yield scope


def _cannot_open(journal: Path, error: Exception) -> Iterator[Finding]:
    why = error.detail if isinstance(error, EngramError) and error.detail else type(error).__name__
    yield fault(
        "JOURNAL_BROKEN", str(journal), f"cannot be opened: {why}",
        f"keep the damaged one: {RESTORE}",
    )  # fmt: skip


def _last_event(inside: Inside, scope: Scope) -> Iterator[Finding]:
    try:
        with inside.view(scope) as view:
            view.run(view.head.cursor - 1, 1)
    except _BROKEN as error:
        why = error.detail if isinstance(error, EngramError) and error.detail else type(error).__name__
        yield fault(
            "JOURNAL_BROKEN", named(scope), f"its last event cannot be read: {why}",
            f"see with engram audit how far it is whole; {RESTORE}",
        )  # fmt: skip


def _map(inside: Inside) -> Iterator[Finding]:
    used_bytes = (inside.env.info()["last_pgno"] + 1) * inside.env.stat()["psize"]
    share = used_bytes / inside.map_size_bytes
    told = f"{used_bytes // limits.MIB} of {inside.map_size_bytes // limits.MIB} MiB of the journal's map are used"
    mend = "make a new store for further workspaces, or install a release with a larger map"
    if share >= 1:
        yield fault("MAP_FULL", str(inside.store), told, mend)
    elif share >= limits.CHECK_NEARLY_FULL:
        yield warning("MAP_NEARLY_FULL", str(inside.store), told, mend)


def _readers(inside: Inside) -> Iterator[Finding]:
    rows = [line.split() for line in inside.env.readers().splitlines()]
    # pid, thread, transaction ("-" while it reads nothing); the first line is the heading
    taken = [row for row in rows if len(row) == 3 and row[0].isdigit()]  # noqa: PLR2004 - the three columns
    if len(taken) >= limits.CHECK_NEARLY_FULL * limits.READERS_MAX:
        yield warning(
            "READERS_NEARLY_FULL", str(inside.store), f"{len(taken)} of {limits.READERS_MAX} reader slots are taken",
            "end servers that nobody uses any more",
        )  # fmt: skip
    last = inside.env.info()["last_txnid"]
    held = sorted({row[0] for row in taken if row[2].isdigit() and last - int(row[2]) > _HELD_TRANSACTIONS})
    if held:
        yield warning(
            "READER_HELD", f"process {', '.join(held)}", "reads an old state, so that the journal's file grows",
            "see whether it is stopped or hangs, and end it",
        )  # fmt: skip


def _clock(inside: Inside, scope: Scope) -> Iterator[Finding]:
    with inside.view(scope) as view:
        last = view.head.recorded_at
    now = SystemClock().now()
    told = f"the clock says {instant(now)}, and the last event was recorded at {instant(last)}"
    if last - now > limits.RECEIPT_SKEW_MAX_MILLISECONDS:
        far = last - now > _DAY_MILLISECONDS
        yield (fault if far else warning)(
            "CLOCK_BEHIND", named(scope), told,
            "set the clock right; if it is, it was ahead once, and recorded_at stands still until it is reached",
        )  # fmt: skip
    elif now - last > limits.CHECK_IDLE_DAYS * _DAY_MILLISECONDS:
        yield note(
            "CLOCK_AHEAD", named(scope), told, "nothing, if nothing was captured for so long; else set the clock right"
        )


def _pending(inside: Inside, scope: Scope) -> Iterator[Finding]:
    from tools.cli.checkup.generations import holders_of_replaced

    with inside.view(scope) as view:
        destructions, erasures = view.pending_destructions(), view.pending_erasures()
        oldest = view.event(erasures[0][0]) if erasures else None
    if destructions:
        yield warning(
            "DESTRUCTIONS_PENDING", named(scope),
            counted(
                len(destructions), "keys of ended subjects are not destroyed yet",
                "key of an ended subject is not destroyed yet",
            ),
            "start engram serve, or decide a candidate: the next that writes finishes it",
        )  # fmt: skip
    if oldest is None:
        return
    waited_seconds = max(0, time.time() - oldest.header.recorded_at / 1000)
    holders = holders_of_replaced(inside.store, scope)
    held = f"; held by {', '.join(holder.told() for holder in holders)}" if holders else ""
    late = waited_seconds > limits.ERASURE_BOUND_SECONDS
    open_ones = counted(len(erasures), "forgettings are", "forgetting is")
    told = f"{open_ones} not finished for {waited_seconds:.0f} s{held}"
    yield (warning if late else note)(
        "ERASURES_PENDING", named(scope), told,
        "end or restart the processes named here" if holders else "start engram serve: it finishes them in a minute",
    )  # fmt: skip


def _waiting(inside: Inside, scope: Scope) -> Iterator[Finding]:
    with inside.view(scope) as view:
        requests, candidates = len(view.open_requests()), len(view.pending_candidates())
    if requests:
        yield note(
            "REQUESTS_WAIT", named(scope),
            counted(requests, "confirmation requests are open", "confirmation request is open"),
            f"run engram confirm list{scope_words(scope)}",
        )  # fmt: skip
    if candidates:
        yield note(
            "CANDIDATES_WAIT", named(scope),
            counted(candidates, "candidates wait for a person", "candidate waits for a person"),
            f"run engram candidates list{scope_words(scope)}",
        )  # fmt: skip

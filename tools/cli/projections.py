"""engram projections: what search and get are served from. Every one of them can be thrown away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from journal import layout
from journal.events import Actor, Draft, EventType
from tools.cli import embeddings, progress, terminal
from tools.cli.failures import REFUSED
from tools.cli.opening import bound, opened_engine, opened_store
from tools.cli.options import config_option, json_option, tenant_name, workspace_name, workspace_option
from tools.cli.output import give

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.catchup import Projections
    from projections.port import Projection
    from projections.tail import JournalSource

_F = TypeVar("_F", bound=Callable[..., Any])


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Check, throw away and rebuild what answers are served from, in every scope of the store."""


def _names_option(function: _F) -> _F:
    """Add ``[NAME]... --all``, given to the command as ``names`` and ``every``."""
    named = click.argument("names", metavar="[NAME]...", nargs=-1)(function)
    return click.option("--all", "every", is_flag=True, help="All projections.")(named)


def _chosen(known: Sequence[str], names: Sequence[str], *, every: bool) -> list[str]:
    """Return the projections that are meant, in the order in which they are known."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"there is no projection {unknown[0]}; there are {', '.join(known)}")
    return [name for name in known if every or name in names]


def _known(projections: Projections, *, has_embeddings: bool) -> list[str]:
    """Return the names that can be meant."""
    return [*projections.names, *([embeddings.NAME] if has_embeddings else [])]


def _check_usage(names: Sequence[str], *, every: bool) -> None:
    if every == bool(names):
        raise click.UsageError("name projections, or give --all")


def _scopes(journal: Journal) -> list[Scope]:
    """Return the scopes that are meant: the scope that was named, else all of the store."""
    if workspace_name() is None and tenant_name() is None:
        return journal.store.scopes()
    scope = bound().scope
    return [scope] if scope in journal.store.scopes() else []


@contextmanager
def _opened(journal: Journal, scope: Scope, only: Collection[str] | None = None) -> Iterator[Projections]:
    """Yield a scope's projections, or some of them."""
    from projections.catchup import Projections
    from projections.serving import make_projections

    def make(source: JournalSource, of: Scope) -> Sequence[Projection]:
        return [each for each in make_projections(source, of) if only is None or each.name in only]

    with closing(Projections(journal, scope, journal.path / layout.PROJECTIONS, make)) as projections:
        yield projections


def _named(scope: Scope, name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "tenant_id": scope.tenant_id, "workspace_id": scope.workspace_id, **more}


def _table(rows: Sequence[dict[str, Any]], *columns: str) -> str:
    if not rows:
        return "No scope has an event yet."
    cells = [[terminal.scope_name(row), *(str(row.get(name) or "-") for name in columns)] for row in rows]
    return terminal.table(("scope", *columns), cells)


# --- status -----------------------------------------------------------------------------------------


@command.command("status")
@config_option
@json_option
@workspace_option
def status() -> None:
    """Say where each projection stands. One that is in force is first brought to the journal's head, as a read does.

    Where the host names a provider of embeddings, those are told too, as vector: how many of what is in force are
    embedded, and how many rest because that failed.
    """
    settings = embeddings.usable()
    with opened_store() as journal:
        rows: list[dict[str, Any]] = []
        for scope in _scopes(journal):
            rows += _status(journal, scope)
            if settings is not None:
                rows.append(_named(scope, embeddings.NAME, **embeddings.status(journal, scope, settings)))
    give(rows, lambda: _table(rows, "name", "version", "cursor", "head_cursor", "state", "digest"))


def _status(journal: Journal, scope: Scope) -> Iterator[dict[str, Any]]:
    with _opened(journal, scope) as projections:
        versions = {name: projections.generations(name).projection.version for name in projections.names}
        in_force = [name for name in versions if projections.generations(name).current() is not None]
    found: dict[str, tuple[int, str]] = {}
    head = journal.store.head(scope).cursor
    if in_force:
        with _opened(journal, scope, in_force) as projections, projections.snapshot() as snapshot:
            head = snapshot.cursor
            found = {name: (snapshot.cursor, snapshot.digest(name)) for name in in_force}
    for name, version in versions.items():
        cursor, digest = found.get(name, (0, None))
        yield _named(
            scope,
            name,
            version=version,
            cursor=str(cursor),
            head_cursor=str(head),
            digest=digest,
            state="current" if name in found else "absent",
        )


# --- verify -----------------------------------------------------------------------------------------


@command.command("verify")
@config_option
@json_option
@workspace_option
@click.pass_context
def verify(ctx: click.Context) -> None:
    """Compare each projection with a fresh replay. Exit code 1 where one differs.

    One that is not in force is first rebuilt, as a read does, and that is said. Of embeddings it is compared whether
    each is of the text that the journal has.
    """
    from replay.rebuild import verify as compared

    settings = embeddings.usable()
    rows: list[dict[str, Any]] = []
    with opened_store() as journal, progress.bar("replay") as report_progress:
        for scope in _scopes(journal):
            with _opened(journal, scope) as projections:
                before = {name: projections.generations(name).current() for name in projections.names}
                for one in compared(projections, progress=report_progress):
                    rebuilt = projections.generations(one.name).current() != before[one.name]
                    digests = {"live_digest": one.live_digest, "replayed_digest": one.replayed_digest}
                    rows.append(_named(scope, one.name, ok=one.ok, **digests, rebuilt=rebuilt))
            if settings is not None:
                rows.append(_named(scope, embeddings.NAME, **embeddings.verify(journal, scope, settings)))
    give(rows, lambda: _table([{**row, "verdict": _verdict(row)} for row in rows], "name", "verdict"))
    ctx.exit(0 if all(row["ok"] for row in rows) else REFUSED)


def _verdict(row: dict[str, Any]) -> str:
    verdict = "equal" if row["ok"] else "DIFFERS"
    return f"{verdict}; it was not in force, and was rebuilt for this" if row["rebuilt"] else verdict


# --- invalidate -------------------------------------------------------------------------------------


@command.command("invalidate")
@_names_option
@config_option
@json_option
@workspace_option
def invalidate(names: tuple[str, ...], *, every: bool) -> None:
    """Take projections out of force, wherever the journal is served. The next who reads rebuilds them.

    Embeddings (vector) are thrown away, and made anew by a server, or by projections rebuild vector.
    """
    from replay.rebuild import invalidate as take_out

    _check_usage(names, every=every)
    with opened_engine(readonly=False) as (engine, command_bound):
        journal, rows = engine.journal, []
        actor = Actor(f"operator:{command_bound.operator}")
        for scope in _scopes(journal):
            projections = engine.projections(scope)
            # What an earlier provider left behind can be thrown away, though none is named now.
            has_embeddings = embeddings.named() is not None or embeddings.are_kept(journal, scope)
            chosen = _chosen(_known(projections, has_embeddings=has_embeddings), names, every=every)
            cursors = _commit_invalidation(journal, scope, [None] if every else chosen, actor)
            take_out(projections, [name for name in chosen if name != embeddings.NAME])
            if embeddings.NAME in chosen:
                embeddings.invalidate(journal, scope)
            rows += [
                _named(scope, name, cursor=str(cursor))
                for name, cursor in zip(chosen, cursors * len(chosen) if every else cursors, strict=True)
            ]
    give(rows, lambda: _table(rows, "name", "cursor"))


def _commit_invalidation(journal: Journal, scope: Scope, names: Sequence[str | None], actor: Actor) -> list[int]:
    """Commit one event for each name, None meaning all; return their cursors."""
    drafts = [
        Draft(type=EventType.PROJECTION_INVALIDATED, event_id=journal.random_event_id(scope), actor=actor, related=name)
        for name in names
    ]
    return [event.header.cursor for event in journal.commit(scope, lambda _: drafts)]


# --- rebuild ----------------------------------------------------------------------------------------


@command.command("rebuild")
@_names_option
@config_option
@json_option
@workspace_option
@click.pass_context
def rebuild(ctx: click.Context, names: tuple[str, ...], *, every: bool) -> None:
    """Rebuild projections from the first event, beside those that serve, and put them in force.

    Embeddings (vector) that are there already stay; what is missing is made, and what failed is tried again. Exit code
    1 where something is left that could not be embedded.
    """
    _check_usage(names, every=every)
    settings = embeddings.named()
    rows: list[dict[str, Any]] = []
    with opened_store() as journal:
        for scope in _scopes(journal):
            with _opened(journal, scope) as projections:
                chosen = _chosen(_known(projections, has_embeddings=settings is not None), names, every=every)
                rows += _rebuilt(journal, scope, projections, [name for name in chosen if name in projections.names])
                if settings is not None and embeddings.NAME in chosen:
                    found = embeddings.rebuild(journal, projections, settings)
                    rows.append(_named(scope, embeddings.NAME, **found))
    columns = ("name", "version", "cursor", "generation", *(("state",) if any("state" in row for row in rows) else ()))
    give(rows, lambda: _table(rows, *columns))
    ctx.exit(0 if embeddings.is_whole(rows) else REFUSED)


def _rebuilt(
    journal: Journal, scope: Scope, projections: Projections, names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    from replay.rebuild import collecting_seldom, rebuild_all

    with progress.bar("rebuild") as report_progress, collecting_seldom():
        rebuilt = rebuild_all(projections, names, progress=report_progress, wait=True, ahead=journal)
    for done in rebuilt:
        generation, held = done.generation, list(done.held)
        more = {"version": done.version, "generation": generation, "cursor": str(done.cursor), "held": held}
        yield _named(scope, done.name, **more)

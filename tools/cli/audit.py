"""engram audit: the whole store checked, and nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journal import layout
from journal.checkpointfiles import Anchor
from journal.checkpointing import Checkpoints
from journal.errors import JournalCorrupt, StoreUnavailable
from tools.cli import explaining, progress, terminal
from tools.cli.claims import Gathered, public_key, scopes_with_keys
from tools.cli.counting import counted
from tools.cli.failures import REFUSED
from tools.cli.opening import reading
from tools.cli.options import config_file, config_option, json_option
from tools.cli.output import give, note
from tools.damage import RESTORE
from tools.host.file import HostFile, load_host_file
from tools.host.place import default_anchor

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import Store
    from replay.comparison import Compared
    from replay.report import AuditReport, Finding, ScopeReport


_PLACES_MAX = 4  # where the same is said in more places, they are counted


@click.command()
@config_option
@json_option
@click.option(
    "--store",
    "named_store",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A store or a copy of one; no host file is needed, and no key is loaded.",
)
@click.option("--headers-only", is_flag=True, help="Chain, order, legality, identities and tree; needs no key.")
@click.option(
    "--checkpoint",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A signed checkpoint that the journal must go on from; may be given more than once.",
)
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="The key that signed it, or a file with it; else the one beside the anchor.",
)
@click.option("--authority", is_flag=True, help="Say of each event by whose authority it stands; needs the keys.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    named_store: Path | None,
    headers_only: bool,
    files: tuple[Path, ...],
    keys: tuple[str, ...],
    authority: bool,
) -> None:
    """Check the whole store: chain, legality, identities, sealed parts, indexes, projections, checkpoints.

    Writes nothing. It is compared with the checkpoints in the store, with the anchor outside it and with what the state
    folder knows of it; an anchor that cannot be read is a finding. Where the root
    key cannot be had, a checkpoint is checked with the public key alone, against the headers.

    Exit codes: 0 clean, 1 findings, 2 could not run.
    """
    if authority and (named_store is not None or headers_only):
        raise click.UsageError("--authority needs the store's keys: leave out --store and --headers-only")
    named = {key.name: key for key in map(public_key, keys)}
    host_file = None if named_store is not None else load_host_file(config_file())
    store = named_store if host_file is None else host_file.store_path
    anchor = default_anchor() if host_file is None else host_file.anchor
    assert store is not None
    gathered = Gathered(
        store, None if anchor is None else Anchor(anchor), named, None, list(files), host_file is not None
    )
    try:
        report = _headers(gathered) if host_file is None or headers_only else _whole(host_file, gathered)
    except JournalCorrupt as error:
        place = store / layout.JOURNAL
        raise JournalCorrupt(f"{place} cannot be audited: {error.detail}: {RESTORE}") from error
    for line in dict.fromkeys(gathered.said):
        note(f"engram: {line}")
    explained = explaining.authority_of(host_file) if authority and host_file is not None else None
    value = report.as_json() if explained is None else {**report.as_json(), "authority": explained}
    give(value, lambda: "\n".join([*_told(report), *explaining.told(explained or [])]))
    ctx.exit(0 if report.ok else REFUSED)


def _whole(host_file: HostFile, gathered: Gathered) -> AuditReport:
    """Audit with the store's keys; without them only where a checkpoint was named, which needs none."""
    from journal.rootchange import root_key_in_force
    from projections.serving import make_projections
    from replay.audit import audit

    try:
        root_key_in_force(host_file.store_path, host_file.root_key)
    except StoreUnavailable as error:
        if not gathered.files:
            raise
        gathered.said.append(f"{error.detail}: only the headers are checked")
        return _headers(gathered)
    with reading(host_file) as journal, progress.bar("audit") as report_progress:
        gathered.own = Checkpoints(journal).key
        _say_lockless(journal.store, gathered)
        gathered.compare(journal.store)
        more = _claimed(gathered, journal.store)
        report = audit(journal, journal.path / layout.PROJECTIONS, make_projections, report_progress, gathered.of, more)
        return replace(report, elsewhere=[*report.elsewhere, *gathered.finish()])


def _headers(gathered: Gathered) -> AuditReport:
    from journal.clock import SystemClock
    from journal.store.lmdb.engine import LmdbStore
    from replay.audit import audit_all_headers

    layout.check(gathered.store)
    store = LmdbStore(gathered.store / layout.JOURNAL, SystemClock(), readonly=True)
    try:
        _say_lockless(store, gathered)
        gathered.compare(store)
        with progress.bar("audit") as report_progress:
            report = audit_all_headers(store, report_progress, gathered.of, _claimed(gathered, store))
    finally:
        store.close()
    return replace(report, elsewhere=[*report.elsewhere, *gathered.finish()])


def _claimed(gathered: Gathered, store: Store) -> list[Scope]:
    """Return the scopes without an event of which a checkpoint says that they had some."""
    present = store.scopes()
    return [scope for scope in scopes_with_keys(gathered.store) if scope not in present and gathered.of(scope)]


def _say_lockless(store: Store, gathered: Gathered) -> None:
    from journal.store.lmdb.engine import LmdbStore

    if isinstance(store, LmdbStore) and store.environment.lockless:
        gathered.said.append("the journal cannot be written here and is read without locks: let nobody write it")


def _told(report: AuditReport) -> Iterator[str]:
    for scope in report.scopes:
        yield from _told_scope(scope)
    for one in report.projections:
        place = f"{one.scope.tenant_id} / {one.scope.workspace_id}"
        yield terminal.one_line(f"projection {one.name} of {place}: {_compared(one)}")
    for finding in report.elsewhere:
        yield terminal.one_line(f"{finding.code}: {finding.detail}")
    findings = len(report.elsewhere) + sum(len(scope.findings) + scope.unlisted for scope in report.scopes)
    differing = sum(one.is_compared and not one.ok for one in report.projections)
    if report.ok:
        yield "clean" if report.scopes else "clean: the store is empty"
    else:
        yield f"{counted(findings, 'findings')}, {counted(differing, 'differing projections', 'differing projection')}"


def _compared(one: Compared) -> str:
    if not one.is_compared:
        return "not compared: the journal cannot be replayed whole"
    if not one.ok:
        return "DIFFERS from a fresh replay"
    return "not served now; rebuilt by the next who reads" if one.live_digest is None else "equals a fresh replay"


def _told_scope(scope: ScopeReport) -> Iterator[str]:
    counts = scope.bodies or {}
    bodies = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()) or "not looked at"
    yield terminal.one_line(
        f"scope {scope.scope.tenant_id} / {scope.scope.workspace_id}: {counted(scope.events, 'events')}, "
        f"sealed parts: {bodies}; compared with {counted(scope.checkpoints, 'checkpoints')}"
    )
    if scope.root is not None:
        yield f"  head {scope.head.hash.hex()}"
        yield f"  root {scope.root.hex()}"
    yield from _told_findings(scope.findings)
    if scope.unlisted:
        yield f"  and {counted(scope.unlisted, 'further findings', 'further finding')}"


def _told_findings(findings: list[Finding]) -> Iterator[str]:
    """Yield a line for each run; where the same is said in many places, one line with their number."""
    alike: dict[tuple[str, str], list[list[Finding]]] = {}
    for run in _runs(findings):
        alike.setdefault((run[0].code, _words(run[0])), []).append(run)
    for (code, detail), runs in alike.items():
        if len(runs) > _PLACES_MAX:
            count = sum(map(len, runs))
            cursors = [each.cursor for run in runs for each in run if each.cursor is not None]
            places = f" between cursor {min(cursors)} and {max(cursors)} ({count} findings)"
            yield terminal.one_line(f"  {code}{places}: {detail}")
            continue
        for run in runs:
            yield terminal.one_line(f"  {code}{_place(run)}: {run[0].detail}")


def _words(finding: Finding) -> str:
    """Return what a finding says without its own place."""
    return finding.detail.replace(f" at cursor {finding.cursor}", "")


def _runs(findings: list[Finding]) -> Iterator[list[Finding]]:
    """Yield the findings, those together that say the same of one cursor after another: one loss has many places."""
    run: list[Finding] = []
    for finding in findings:
        if run and not _goes_on(run[-1], finding):
            yield run
            run = []
        run.append(finding)
    if run:
        yield run


def _goes_on(before: Finding, after: Finding) -> bool:
    if before.cursor is None or after.cursor is None:
        return False
    is_same = (before.code, before.detail) == (after.code, after.detail)
    return is_same and after.cursor - before.cursor in (0, 1)  # both parts of an event may be lost


def _place(run: list[Finding]) -> str:
    first, last = run[0].cursor, run[-1].cursor
    if first is None:
        return ""
    if len(run) == 1:
        return f" at cursor {first}"
    return f" at cursor {first}{'' if first == last else f' to {last}'} ({len(run)} findings)"

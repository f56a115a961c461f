"""engram audit: the whole store checked, and nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from journal import layout
from tools.cli import progress, terminal
from tools.cli.failures import REFUSED
from tools.cli.opening import opened_store
from tools.cli.options import config_option, json_option
from tools.cli.output import give

if TYPE_CHECKING:
    from replay.audit import AuditReport, Finding, ScopeReport


@click.command()
@config_option
@json_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """Check the whole store: chain, legality, identities, sealed parts, indexes, projections. Writes nothing.

    Exit codes: 0 clean, 1 findings, 2 could not run.
    """
    from projections.serving import make_projections
    from replay.audit import audit

    with opened_store() as journal, progress.bar("audit") as report_progress:
        report = audit(journal, journal.path / layout.PROJECTIONS, make_projections, report_progress)
    give(report.as_json(), lambda: "\n".join(_told(report)))
    ctx.exit(0 if report.ok else REFUSED)


def _told(report: AuditReport) -> Iterator[str]:
    for scope in report.scopes:
        yield from _told_scope(scope)
    for one in report.projections:
        place = f"{one.scope.tenant_id} / {one.scope.workspace_id}"
        said = "not served now; rebuilt by the next who reads" if one.live_digest is None else "equals a fresh replay"
        yield terminal.one_line(
            f"projection {one.name} of {place}: {said if one.ok else 'DIFFERS from a fresh replay'}"
        )
    findings = sum(len(scope.findings) + scope.unlisted for scope in report.scopes)
    differing = sum(not one.ok for one in report.projections)
    if report.ok:
        yield "clean" if report.scopes else "clean: the store is empty"
    else:
        yield f"{findings} findings, {differing} differing projections"


def _told_scope(scope: ScopeReport) -> Iterator[str]:
    bodies = ", ".join(f"{count} {verdict.value}" for verdict, count in scope.bodies.items())
    yield terminal.one_line(
        f"scope {scope.scope.tenant_id} / {scope.scope.workspace_id}: {scope.events} events, sealed parts: {bodies}"
    )
    if scope.root is not None:
        yield f"  head {scope.head.hash.hex()}"
        yield f"  root {scope.root.hex()}"
    for run in _runs(scope.findings):
        yield terminal.one_line(f"  {run[0].code}{_place(run)}: {run[0].detail}")
    if scope.unlisted:
        yield f"  and {scope.unlisted} further findings"


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

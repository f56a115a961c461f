"""engram records proposals: pairs of records that assert different things; a person applies or dismisses each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from journal import limits
from tools.cli import subjects, terminal
from tools.cli.opening import opened_engine, opened_journal
from tools.cli.options import check_size, config_option, json_option, workspace_option
from tools.cli.output import give
from tools.cli.shortids import CANDIDATE, RECORD, whole

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import View
    from tools.memory.proposals import Proposal

_SAID = {
    "contradicts": "contradicts",
    "supersedes": "takes the place of",
    "needs_adjudication": "is to be compared with",
}
_CURSOR = click.IntRange(min=1)


@click.group("proposals")
@config_option
@json_option
@workspace_option
def command() -> None:
    """Look at records that assert different things of one matter, and settle it."""


@command.command("list")
@click.option("--all", "also_closed", is_flag=True, help="Those that are dismissed or settled, too.")
@config_option
@json_option
@workspace_option
def list_proposals(*, also_closed: bool) -> None:
    """List the proposals that are open. Its number names a proposal."""
    from tools.memory.proposals import proposals

    with opened_journal() as (journal, scope):
        found = [each for each in proposals(journal, scope) if also_closed or each.standing == "open"]
        give([each.as_json() for each in found], lambda: _table(journal, scope, found))


def _table(journal: Journal, scope: Scope, found: list[Proposal]) -> str:
    if not found:
        return "No proposal is open."
    with journal.store.view(scope) as view:
        cells = [
            (
                str(each.cursor),
                each.standing,
                _says(journal, view, scope, each.superseding_id or each.candidate_id),
                _SAID.get(each.relation, each.relation),
                _says(journal, view, scope, each.superseded_id or each.other_id),
            )
            for each in found
        ]
    return terminal.table(("proposal", "standing", "record", "", "other record"), cells)


def _says(journal: Journal, view: View, scope: Scope, candidate_id: str) -> str:
    subject = view.subject(candidate_id)
    if subject is None:
        return subjects.ERASED
    return subjects.excerpt_of(journal, scope, subjects.row_of(view, candidate_id, subject))


@command.command("apply")
@click.argument("proposal", metavar="NUMBER", type=_CURSOR)
@click.option("--keep", metavar="ID", help="The record that takes the other's place.")
@click.option("--dispute", "disputed", is_flag=True, help="Mark both as disputed; agents find neither meanwhile.")
@config_option
@json_option
@workspace_option
def apply(*, proposal: int, keep: str | None, disputed: bool) -> None:
    """Follow a proposal. One that says which record takes the other's place needs no more."""
    from replay.history import find_subject
    from tools.memory.proposals import dispute, proposal_at, supersede

    if keep is not None and disputed:
        raise click.UsageError("give one of --keep, --dispute")
    with opened_engine(readonly=False) as (engine, bound):
        found = proposal_at(engine.journal, bound.scope, proposal)
        kept = found.superseding_id
        if keep is not None:
            with engine.journal.store.view(bound.scope) as view:
                kept = find_subject(view, whole(view, keep, RECORD, CANDIDATE))[0]
            if kept not in (found.candidate_id, found.other_id):
                raise click.UsageError("--keep names neither record of the proposal")
        if disputed:
            done = dispute(engine, bound.scope, bound.operator, found)
        elif kept is not None:
            done = supersede(engine, bound.scope, bound.operator, found, kept)
        else:
            raise click.UsageError("the proposal does not say which record stays: give --keep ID, or --dispute")
    value = [each.as_json() for each in done]
    give(value, lambda: "\n".join(f"{each['record_id']} is {each['to_state'].replace('_', ' ')}" for each in value))


@command.command("dismiss")
@click.argument("proposal", metavar="NUMBER", type=_CURSOR)
@click.option("--reason", metavar="TEXT", help="Kept for good: do not quote from the records.")
@config_option
@json_option
@workspace_option
def dismiss(proposal: int, reason: str | None) -> None:
    """Dismiss a proposal: both records stay as they are."""
    from tools.memory.proposals import dismiss as dismissed
    from tools.memory.proposals import proposal_at

    check_size("--reason", reason, limits.REF_MAX_BYTES)
    with opened_engine(readonly=False) as (engine, bound):
        found = proposal_at(engine.journal, bound.scope, proposal)
        event = dismissed(engine, bound.scope, bound.operator, found, reason)
    value = {"proposal": str(proposal), "cursor": str(event.header.cursor)}
    give(value, lambda: f"dismissed, cursor {value['cursor']}")

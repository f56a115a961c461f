"""engram records revoked: records whose trust was given under an older revocation epoch than the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tools.cli import terminal
from tools.cli.failures import Refused
from tools.cli.invocation import place_words, word
from tools.cli.opening import opened_engine
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give

if TYPE_CHECKING:
    from tools.memory.revocation import Revoked


@click.command("revoked")
@click.option("--invalidate", is_flag=True, help="Take their trust away, for good: agents find them no more.")
@config_option
@json_option
@workspace_option
def command(*, invalidate: bool) -> None:
    """List the records whose trust counts no more, since verification.revocation_epoch was raised."""
    from journal.lifecycle import Operation
    from tools.memory.maintenance import Order, carry_out
    from tools.memory.revocation import revoked_records

    with opened_engine(readonly=not invalidate) as (engine, bound):
        if engine.verifier is None:
            raise Refused("the host file names no verifier, and so no revocation epoch")
        found = list(revoked_records(engine, bound.scope))
        reason = f"revocation epoch {engine.verifier.revocation_epoch}"
        for each in found if invalidate else ():
            order = Order(operation=Operation.TRUST_INVALIDATE, candidate_id=each.candidate_id, reason=reason)
            carry_out(engine, bound.scope, bound.operator, order)
    give([each.as_json() for each in found], lambda: _told(found, invalidated=invalidate))


def _told(found: list[Revoked], *, invalidated: bool) -> str:
    if not found:
        return "No record's trust is revoked."
    table = terminal.table(
        ("epoch", "state", "record"), [(str(each.epoch), each.state.label, each.record_id) for each in found]
    )
    if invalidated:
        return f"{table}\n\nTheir trust was taken away."
    return f"{table}\n\nThis takes their trust away:\n  {word()} records revoked --invalidate{place_words()}"

"""engram records copy: a record becomes a candidate of another workspace."""

from __future__ import annotations

from typing import Any

import click

from journal.scope import Scope
from tools.cli.choices import known
from tools.cli.failures import Refused
from tools.cli.invocation import config_words, scope_words, word
from tools.cli.opening import Bound, opened_engine
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give
from tools.cli.shortids import CANDIDATE, RECORD, whole
from tools.cli.tenancy import workspaces_of


@click.command("copy")
@click.argument("record_id", metavar="ID")
@click.option("--to", "target", metavar="WORKSPACE", required=True, help="A workspace that the host file lists.")
@click.option("--admit", is_flag=True, help="Ask the admission policy at once; else the copy waits for a decision.")
@config_option
@json_option
@workspace_option
def copy_record(record_id: str, target: str, *, admit: bool) -> None:
    """Copy a record into another workspace, as a new pending candidate.

    What agents sent is copied, what the host made of it is not: the policy decides anew, and the host's verifier looks
    anew. Where it came from is kept for the operator alone. The same command again changes nothing. Forgetting a record
    does not forget its copies; engram records show lists them.
    """
    from replay.history import find_subject
    from tools.memory.copying import copy, source_of

    with opened_engine(readonly=False) as (engine, bound):
        scope = _scope(bound, target)
        with engine.journal.store.view(bound.scope) as view:
            candidate_id, _ = find_subject(view, whole(view, record_id, RECORD, CANDIDATE))
        source = source_of(engine.journal, bound.scope, candidate_id, engine.clock.now())
        value = copy(engine, source, scope, bound.operator, admit=admit).as_json()
    give(value, lambda: _told(value, scope))


def _scope(bound: Bound, workspace: str) -> Scope:
    workspaces = workspaces_of(bound.host_file, bound.scope.tenant_id)
    if workspace not in workspaces:
        raise Refused(
            f"{bound.host_file.path} lists no such workspace of the tenant: add it under [[workspaces]]; "
            f"{known(workspace, workspaces)}"
        )
    return Scope.of(bound.scope.tenant_id, workspace)


def _told(value: dict[str, Any], scope: Scope) -> str:
    where = f"candidate {value['candidate_id']} of {scope.tenant_id} / {scope.workspace_id}, cursor {value['cursor']}"
    said = f"copied to {where}"
    if value["replayed"]:
        said = f"it was copied already, to {where}"
        asked_now = value["outcome_replayed"] is False
        said = f"{said}; its admission was asked now" if asked_now else f"nothing was changed: {said}"
    state = f"it is {value['state'].replace('_', ' ')}"
    if value["outcome"] is not None and "record_id" in value["outcome"]:
        state += f": {value['outcome']['record_id']}"
    if value["state"] != "pending":
        return f"{said}\n{state}"
    show = f"{word()} candidates show {value['candidate_id']}{scope_words(scope)}{config_words()}"
    return f"{said}\n{state}: {show}"

"""engram records: what was admitted, what became of it, and what the operator makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tools.cli import copying, lifecycle, proposals, revoked, story, subjects, terminal
from tools.cli.masking import masked
from tools.cli.opening import bound, opened_journal, reading
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give
from tools.cli.shortids import CANDIDATE, RECORD, whole
from tools.cli.tenancy import workspaces_of
from tools.memory.records import record_of


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Look at records and their history, and move them through their lifecycle."""


for _part in (story.history, copying.copy_record, *lifecycle.COMMANDS, proposals.command, revoked.command):
    command.add_command(_part)


@command.command("list")
@config_option
@json_option
@workspace_option
def list_records() -> None:
    """List all records, the forgotten ones too."""
    with opened_journal() as (journal, scope):
        rows = subjects.records(journal, scope)
        give(
            [
                {
                    "record_id": row.subject.record_id,
                    "candidate_id": row.candidate_id,
                    "state": row.state,
                    "cursor": str(row.subject.born),
                    "recorded_at": row.captured_at,
                    "changed_cursor": str(row.subject.changed),
                }
                for row in rows
            ],
            lambda: (
                terminal.table(
                    ("recorded", "state", "says", "record"),
                    [
                        (
                            terminal.local_time(row.captured_at),
                            row.state,
                            subjects.excerpt_of(journal, scope, row),
                            row.subject.record_id or "",
                        )
                        for row in rows
                    ],
                )
                if rows
                else "No record yet."
            ),
        )


@command.command("show")
@click.argument("record_id", metavar="ID")
@config_option
@json_option
@workspace_option
def show(record_id: str) -> None:
    """Show a record whole, as the journal holds it. A candidate's id will do, too."""
    from replay.history import find_subject
    from tools.memory.copying import copies_of

    command_bound = bound()
    scope = command_bound.scope
    with reading(command_bound.host_file) as journal:
        with journal.store.view(scope) as view:
            name, subject = find_subject(view, whole(view, record_id, RECORD, CANDIDATE))
            row = subjects.row_of(view, name, subject)
            content = journal.content(view, row.capture)
        if content is not None and subject.record_id is None:
            content = masked(content).content  # nobody admitted it yet
        workspaces = workspaces_of(command_bound.host_file, scope.tenant_id)
        copies = [] if subject.record_id is None else list(copies_of(journal, scope, subject.record_id, workspaces))
        value = {
            "record_id": subject.record_id,
            "candidate_id": name,
            "state": row.state,
            "cursor": str(subject.born),
            "recorded_at": row.captured_at,
            "changed_cursor": str(subject.changed),
            "record": None if content is None or subject.record_id is None else record_of(row.capture, content),
            "evidence": None if content is None else content["evidence"],
            "copies": copies,
        }
        give(value, lambda: "\n".join(_told(row, content, copies)))


def _told(row: subjects.Row, content: dict[str, Any] | None, copies: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        ("record", row.subject.record_id or "(not one yet)"),
        ("candidate", row.candidate_id),
        ("state", row.state),
        ("recorded", f"{terminal.local_time(row.captured_at)}, cursor {row.subject.born}"),
        ("changed", f"cursor {row.subject.changed}"),
        *(("copy", f"{each['candidate_id']} of {each['workspace_id']}, {each['state']}") for each in copies),
    ]
    if content is None:
        yield terminal.fields(rows)
        yield "Its content was erased."
    else:
        yield from subjects.told(content, rows)

"""engram audit --authority: by whose authority each event of the store stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tools.cli import terminal
from tools.cli.opening import reading

if TYPE_CHECKING:
    from tools.host.file import HostFile

_BASES = {
    "grant": "granted at cursor {grant_cursor}",
    "host_file": "granted by the host file",
    "operator": "at this machine",
    "form": "by a form of the client",
    "engine": "of itself",
    "restored": "brought by a restore",
}


def authority_of(host_file: HostFile) -> list[dict[str, Any]]:
    """Return, of each scope, the authority of each event: {tenant_id, workspace_id, events}.

    Raises:
        CursorGap, JournalCorrupt, RegistryVersionUnavailable: an event cannot be read.
    """
    from replay.authority import explained

    with reading(host_file) as journal:
        return [
            {
                "tenant_id": scope.tenant_id,
                "workspace_id": scope.workspace_id,
                "events": [each.as_json() for each in explained(journal, scope)],
            }
            for scope in journal.store.scopes()
        ]


def told(scopes: list[dict[str, Any]]) -> Iterator[str]:
    """Tell it to a person, a line for each event."""
    for scope in scopes:
        yield terminal.one_line(f"authority in {terminal.scope_name(scope)}:")
        yield from (terminal.one_line(f"  {_line(event)}") for event in scope["events"])


def _line(event: dict[str, Any]) -> str:
    agent = "" if event["agent_id"] is None else f" ({event['agent_id']})"
    said = [
        _BASES[event["basis"]].format(**event),
        f"epoch {event['authorization_epoch']}",
        *_decided(event),
        *(
            []
            if event["authorization_receipt_digest"] is None
            else [f"receipt {event['authorization_receipt_digest']}"]
        ),
        *(f"AMISS: {words}" for words in event["amiss"]),
    ]
    done = event["type"] if event["operation"] is None else f"{event['type']} by {event['operation']}"
    target = "".join(f" {name}" for name in _targets(event))
    when = terminal.local_time(event["recorded_at"])
    return f"{event['cursor']}  {when}  {event['principal']}{agent}: {done}{target}, {', '.join(said)}"


def _targets(event: dict[str, Any]) -> Iterator[str]:
    """Yield the ids of what an event is about: the record, else its candidate or another subject; and the other one."""
    about = event["record_id"] or event["subject"]
    if about is not None:
        yield about
    if event["related"] not in (None, about, event["subject"]):
        yield f"({event['related']})"


def _decided(event: dict[str, Any]) -> Iterator[str]:
    """Yield who decided: a policy, or a person who was asked."""
    policy, confirmation = event["policy"], event["confirmation"]
    if policy is not None:
        yield f"decided by {policy['policy_id']} version {policy['policy_version']}"
    if confirmation is not None and confirmation["approved_by"] is not None:
        channel = "" if confirmation["channel"] is None else f" ({confirmation['channel']})"
        yield f"approved by {confirmation['approved_by']}{channel} at cursor {confirmation['approved_cursor']}"
    elif confirmation is not None:
        yield f"asked for at cursor {confirmation['requested_cursor']}"

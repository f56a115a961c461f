"""The commands by which the host's operator moves a record through its lifecycle: part of engram records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from journal import limits
from journal.events import EventType
from journal.lifecycle import Operation, State
from tools.cli.failures import Refused
from tools.cli.opening import opened_engine
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give, note
from tools.cli.shortids import CANDIDATE, RECORD, whole

if TYPE_CHECKING:
    from journal.store.port import View

_FOUND_AFTERWARDS = (Operation.SUPERSEDE, Operation.RESOLVE_DISPUTE, Operation.REWIND)
_AGAIN = "The same command again changes nothing."


def _reason(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    if given is None:
        return None
    try:
        size_bytes = len(given.encode())
    except UnicodeEncodeError:
        raise click.UsageError("--reason is no text") from None
    if not 1 <= size_bytes <= limits.REF_MAX_BYTES:
        raise click.UsageError(f"--reason takes 1 to {limits.REF_MAX_BYTES} bytes")
    return given


def _ordering(function: Callable[..., None]) -> Callable[..., None]:
    """Add what every order takes: the record, a reason, and the options of every command."""
    for option in (
        workspace_option,
        json_option,
        config_option,
        click.option(
            "--reason", metavar="TEXT", callback=_reason,
            help="Kept for good, also when the content is erased: do not quote from it.",
        ),
        click.argument("record_id", metavar="ID"),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command("supersede", help=f"Let another record take a record's place; agents find the other only. {_AGAIN}")
@_ordering
@click.option("--by", "successor", metavar="ID", required=True, help="The record that takes its place.")
def supersede(record_id: str, successor: str, reason: str | None) -> None:
    """Supersede a record."""
    _order(Operation.SUPERSEDE, record_id, reason, successor)


@click.command("rewind", help=f"Make a historical record current again, and its successor historical. {_AGAIN}")
@_ordering
@click.option(
    "--successor", metavar="ID", help="The record that becomes historical instead; else the one that took its place."
)
def rewind(record_id: str, successor: str | None, reason: str | None) -> None:
    """Rewind to a record."""
    _order(Operation.REWIND, record_id, reason, successor)


def _alone(name: str, operation: Operation, summary: str) -> click.Command:
    """Return the command of an order that needs no other record."""

    @click.command(name, help=f"{summary} {_AGAIN}")
    @_ordering
    def order_alone(record_id: str, reason: str | None) -> None:
        _order(operation, record_id, reason)

    return order_alone


COMMANDS: tuple[click.Command, ...] = (
    supersede,
    _alone("dispute", Operation.DISPUTE, "Mark a record as disputed; agents find it no more until that is resolved."),
    _alone("resolve", Operation.RESOLVE_DISPUTE, "Resolve a dispute in the record's favour; agents find it again."),
    rewind,
    _alone("expire", Operation.EXPIRE, "Let a record expire before its time, for good."),
    _alone("mark-non-current", Operation.MARK_NON_CURRENT, "Make a record historical without a successor."),
    _alone("trust-invalidate", Operation.TRUST_INVALIDATE, "Take a record's trust away, for good."),
)


def _order(operation: Operation, given: str, reason: str | None, given_successor: str | None = None) -> None:
    from tools.memory.maintenance import Order, carry_out, hidden_by_clock

    with opened_engine(readonly=False) as (engine, bound):
        with engine.journal.store.view(bound.scope) as view:
            candidate_id = _candidate(view, given)
            successor_id = None if given_successor is None else _candidate(view, given_successor)
            if operation is Operation.REWIND and successor_id is None:
                successor_id = _known_successor(view, candidate_id)
        order = Order(operation=operation, candidate_id=candidate_id, successor_id=successor_id, reason=reason)
        value = carry_out(engine, bound.scope, bound.operator, order).as_json()
        name, found = "record_id", candidate_id
        if operation is Operation.SUPERSEDE and successor_id is not None:
            name, found = "successor", successor_id
        hidden = None
        if operation in _FOUND_AFTERWARDS:
            hidden = hidden_by_clock(engine.journal, bound.scope, found, engine.clock.now())
    give(value, lambda: _told(operation, value, hidden=hidden is not None))
    if hidden is not None:
        note(f"warning: agents do not find {value[name]}: {hidden}")


def _candidate(view: View, given: str) -> str:
    """Return the candidate id of a record, by either of its ids or the beginning of one.

    Raises:
        Refused: several ids begin so. NotFound: this scope has none of that id.
    """
    from replay.history import find_subject

    return find_subject(view, whole(view, given, RECORD, CANDIDATE))[0]


def _known_successor(view: View, candidate_id: str) -> str | None:
    """Return the candidate id of the record that the newest event about a historical record put in its place.

    None where the record is not historical, which the order itself refuses in words.

    Raises:
        Refused: it is historical, and nothing took its place.
    """
    subject = view.subject(candidate_id)
    event = None if subject is None else view.event(subject.changed)
    if subject is None or event is None:
        return None
    header = event.header
    if header.type in (EventType.SUPERSEDE, EventType.REWIND) and header.related is not None:
        return header.related if header.subject == candidate_id else header.subject
    if subject.state == State.HISTORICAL:
        raise Refused("no record took its place: name with --successor the one that becomes historical instead")
    return None


def _told(operation: Operation, value: dict[str, Any], *, hidden: bool) -> str:
    from tools.memory.maintenance import DONE

    if value["replayed"]:
        return f"nothing was changed: it is {DONE[operation]} already, since cursor {value['cursor']}"
    is_current = value["to_state"] == State.ACCEPTED_CURRENT.label
    agents = "agents find it again" if is_current and not hidden else "agents do not find it"
    beside = ""
    if operation is Operation.SUPERSEDE:
        beside = f"; its successor is {value['successor']}"
    elif operation is Operation.REWIND:
        beside = f"; {value['successor']} is historical now"
    return f"{DONE[operation]}, cursor {value['cursor']}: {agents}{beside}"

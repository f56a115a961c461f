"""A confirmation request as its events tell it: what is asked for, until when, and whether it may still be approved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.authority import AUTHORITY
from journal.clock import instant, parse_instant
from journal.errors import BlobMissing, JournalCorrupt
from journal.events import Header, RequestState

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.store.port import View


@dataclass(frozen=True, slots=True)
class Request:
    """An open confirmation request, as a human sees it."""

    confirmation_id: str
    capability: str
    target: str | None
    principal: str
    requested_at: str
    expires_at: str
    arguments: dict[str, Any]
    header: Header
    is_voided: bool = False  # authority was taken or the epoch raised since: nobody may approve it any more
    readable: bool = True  # False where its arguments are lost: it can be denied and it expires, no more


def read_request(journal: Journal, view: View, confirmation_id: str) -> Request | None:
    """Return an open request with its arguments, or None where it is decided, be it since this view began."""
    row = view.subject(confirmation_id)
    if row is None or row.state != RequestState.OPEN:
        return None
    event = view.event(row.born)
    if event is None:
        raise JournalCorrupt("a confirmation request's event is missing")
    try:
        content = journal.content(view, event.header)
    except (BlobMissing, JournalCorrupt):
        return _unreadable(confirmation_id, event.header, is_voided=is_voided(view, confirmation_id))
    if content is None:
        return None
    return Request(
        confirmation_id=confirmation_id, capability=content["capability"], target=content["target"],
        principal=content["principal"], requested_at=instant(event.header.recorded_at),
        expires_at=content["expires_at"],
        arguments=content["arguments"], header=event.header, is_voided=is_voided(view, confirmation_id),
    )  # fmt: skip


def _unreadable(confirmation_id: str, header: Header, *, is_voided: bool) -> Request:
    """Return a request whose arguments or key are lost: it cannot be approved, and must keep nothing else open."""
    latest = header.recorded_at + limits.CONFIRMATION_TTL_SECONDS * 1000
    return Request(
        confirmation_id=confirmation_id, capability="(unreadable)", target=header.related,
        principal=header.actor.principal, requested_at=instant(header.recorded_at), expires_at=instant(latest),
        arguments={}, header=header, is_voided=is_voided, readable=False,
    )  # fmt: skip


def is_over(request: Request, now: int) -> bool:
    """Whether a request's time is up; exactly at its end it is."""
    return now >= parse_instant(request.expires_at)


def is_voided(view: View, confirmation_id: str) -> bool:
    """Whether the authorization epoch was raised while a request was open (CONTRACT §8): it is approved by nobody.

    Who asked was authorised before the request's own event, and the epoch is the cursor of the event that raised it;
    so the two cursors say it, and nothing more need be kept.
    """
    row, authority = view.subject(confirmation_id), view.subject(AUTHORITY)
    if row is None or authority is None or not row.born < authority.decided:
        return False
    return row.state == RequestState.OPEN or (row.state == RequestState.EXPIRED and authority.decided < row.changed)

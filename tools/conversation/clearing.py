"""Erasing messages for good by the host's own hand: some by their ids, or all that are older than a moment.

The events, the destruction of keys and the cleaning of projections are those of an agent's erasure; the person at the
terminal is the confirmation. An agent that waits for a person to approve the same erasure finds it done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal import limits
from journal.chain import has_ended
from journal.errors import AlreadyTerminal, EngramError
from journal.events import EventType
from journal.messages import MessageState
from journal.systemfaults import faults_told
from projections.timeline_reader import Filter
from tools.conversation.erasing import erasure_identity
from tools.conversation.utterances import message_row, state_draft
from tools.lazylog import LazyLog
from tools.memory.erasure import finish_erasures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.events import Draft
    from journal.store.port import View
    from tools.memory.call import Call
    from tools.memory.engine import Engine

    Progress = Callable[[int, int], None]

_log = LazyLog()


def erasable(engine: Engine, call: Call, message_ids: Sequence[str]) -> None:
    """Check that all of these messages can be erased.

    Raises:
        NotFound: one is none of this user's. AlreadyTerminal: one is erased already.
    """
    with engine.journal.store.view(call.scope) as view:
        for message_id in message_ids:
            row = message_row(view, message_id, call.binding.conversation.user)
            if has_ended(message_id, row.state):
                raise AlreadyTerminal(f"{message_id} was erased at cursor {row.changed}")


def older_than(engine: Engine, call: Call, before: int, *, pinned_too: bool) -> tuple[list[str], int]:
    """Return the ids of this user's messages said before an instant (epoch ms), and how many pinned ones are spared.

    One whose content is lost is not among them: nothing says any more when it was said.
    """
    owners = call.binding.conversation.user
    old = Filter(owners=owners, until=before, archived=True)
    pinned = Filter(owners=owners, until=before, pinned_only=True)
    with engine.projections(call.scope).snapshot(call.deadline, ["timeline"]) as snapshot:
        timeline = snapshot.reader("timeline")
        mask = timeline.mask(old)
        spared = 0
        if not pinned_too:
            spared = timeline.count(pinned)
            mask = mask & ~timeline.mask(pinned)
        rows = [timeline.at(int(cursor)) for cursor in mask.nonzero()[0]]
    return [row.message_id for row in rows if row is not None], spared


def erase_messages(
    engine: Engine, call: Call, message_ids: Sequence[str], *, spare_pinned: bool, progress: Progress
) -> list[str]:
    """Commit the erasure of messages, batch by batch; return the ids of those that were erased.

    One that somebody erased meanwhile is passed over, and with ``spare_pinned`` one that somebody pinned.
    ``progress`` is told (done, total).
    """
    erased: list[str] = []
    for start in range(0, len(message_ids), limits.BATCH_MAX_EVENTS):
        progress(start, len(message_ids))
        part = message_ids[start : start + limits.BATCH_MAX_EVENTS]

        def decide(view: View, part: Sequence[str] = part) -> Sequence[Draft]:
            return _drafts(engine, call, view, part, spare_pinned=spare_pinned)

        erased += [str(event.header.subject) for event in engine.journal.commit(call.scope, decide)]
    progress(len(message_ids), len(message_ids))
    return erased


def _drafts(engine: Engine, call: Call, view: View, message_ids: Sequence[str], *, spare_pinned: bool) -> list[Draft]:
    drafts = []
    for message_id in message_ids:
        row = message_row(view, message_id, call.binding.conversation.user)
        if has_ended(message_id, row.state) or (spare_pinned and row.state == MessageState.PINNED):
            continue
        event_id, intent = erasure_identity(engine, call, message_id)
        kind = EventType.MESSAGE_ERASED
        drafts.append(
            state_draft(
                engine.journal, call.scope, call.actor, kind, message_id, row.state, event_id=event_id, intent=intent
            )
        )
    return drafts


def finish(engine: Engine, call: Call, message_ids: Sequence[str], progress: Progress) -> dict[str, str]:
    """Destroy the keys of erased messages and clean the projections; return {key_destruction, projection_invalidation}.

    Each is ``complete`` or ``pending``: another process that has old projections open lets go of them soon, and
    whoever serves this scope then finishes, as where it could not be done now. ``progress`` is told (cursor, head) of
    each projection built anew.
    """
    try:
        with faults_told():
            clean = finish_erasures(engine, call.scope, progress=progress)
    except EngramError as error:  # the erasure stands
        _log.warning("erasure_postponed", code=error.code)
        clean = False
    destroyed = all(engine.journal.key_is_destroyed(call.scope, message_id) for message_id in message_ids)
    return {
        "key_destruction": "complete" if destroyed else "pending",
        "projection_invalidation": "complete" if clean else "pending",
    }

"""What becomes of a form, as events: shown to a client, and how its user answered where that decided nothing.

What a form decides is told by the event that it leads to, an approval or a denial with the channel ``elicitation``;
what it does not decide would be told by nothing. So each such step is an event of its own, of the confirmation request
that the form was about, while that is open.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from journal import limits
from journal.actors import CLIENT, ENGINE
from journal.events import Actor, Draft, EventType, RequestState
from tools.server.service import Form, FormAnswer

if TYPE_CHECKING:
    from journal.store.port import View
    from tools.host.requests import Request
    from tools.memory.call import Call
    from tools.memory.engine import Engine

CHANNEL: Final = "elicitation"

SHOWN: Final = "shown"
TIMED_OUT: Final = "timed_out"  # nobody answered while the call waited; the form was taken back
TAKEN_BACK: Final = "taken_back"  # the call was given up by its client, and the form with it


class FormsShown:
    """How often a form was shown for each request by this process, so that no caller fills the journal with them."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._shown: Counter[str] = Counter()

    def take(self, confirmation_id: str) -> bool:
        """Count a form that is to be shown; return False where the request had as many as it may have."""
        with self._mutex:
            if self._shown[confirmation_id] >= limits.FORMS_OF_REQUEST_MAX:
                return False
            if len(self._shown) > limits.REQUESTS_REMEMBERED:
                self._shown.clear()  # a request lives for minutes
            self._shown[confirmation_id] += 1
            return True


def form_of(call: Call, confirmation_id: str, request: Request | None) -> Form:
    """Return the form for a request: what is to be done, to what, for whom, until when. It holds no content.

    ``request`` is None where it is decided already.
    """
    if request is None:
        return Form(confirmation_id, "The request is decided already.")
    lines = [
        f"An agent asks for {request.capability}, for {request.principal}.",
        f"Workspace: {call.scope.workspace_id}",
        *([] if request.target is None else [f"Target: {request.target}"]),
        f"Request: {confirmation_id}, open until {request.expires_at}",
        "engram confirm list shows what the target says. Approve it?",
    ]
    return Form(confirmation_id, "\n".join(lines))


def note_answer(engine: Engine, call: Call, confirmation_id: str, answer: FormAnswer) -> None:
    """Commit that the client's user answered a form and decided nothing by it."""
    assert not answer.decides
    _note(engine, call, confirmation_id, answer.value, CLIENT + (call.client_name or ""))


def note_step(engine: Engine, call: Call, confirmation_id: str, step: str) -> None:
    """Commit what became of a form without its user: ``SHOWN``, ``TIMED_OUT`` or ``TAKEN_BACK``."""
    _note(engine, call, confirmation_id, step, ENGINE + "system")


def _note(engine: Engine, call: Call, confirmation_id: str, step: str, principal: str) -> None:
    """Commit a step, unless the request has ended meanwhile: then its end says what there is to say.

    Raises:
        StoreUnavailable and the like: nothing can be committed now.
    """
    journal, scope = engine.journal, call.scope
    event_id = journal.random_event_id(scope)
    said = {"channel": CHANNEL, "client": call.client_name or "", "form": step}
    draft = Draft(
        type=EventType.CONFIRMATION_FORM, event_id=event_id, actor=Actor(principal), subject=confirmation_id,
        from_state=RequestState.OPEN, to_state=RequestState.OPEN,
        ledger=journal.seal_ledger(scope, event_id, confirmation_id, said),
    )  # fmt: skip

    def decide(view: View) -> Sequence[Draft]:
        row = view.subject(confirmation_id)
        return [] if row is None or row.state != RequestState.OPEN else [draft]

    journal.commit(scope, decide, deadline=time.monotonic() + limits.CALL_DEADLINE_SECONDS)

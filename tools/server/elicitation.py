"""Asking the client's user by a form, in both protocol eras.

In the eras with a handshake the server asks while the call runs: ``elicitation/create``, and the call waits meanwhile,
so that the console may be first. Since 2026-07-28 a server asks nobody: the call is answered with ``input_required``,
and the client makes it again with the answer and with the state that it was given, the id of the request.

An answer counts only for the request to which it was asked, and only where the user chose: whoever declines, cancels,
goes away or sends something else has decided nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools.server.logs import note
from tools.server.service import Form, FormAnswer, FormNeeded

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, ClientCapabilities

FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "approve: it is done at once. deny: it is not done, and the request is closed.",
            "enum": ["approve", "deny"],
        }
    },
    "required": ["decision"],
}
"""The form: one choice of two, without a default."""

_QUESTION: Final = "confirmation"  # the name under which an answer comes back
_CHOICES: Final = {"approve": FormAnswer.APPROVED, "deny": FormAnswer.DENIED}
_ACTIONS: Final = {"decline": FormAnswer.DECLINED, "cancel": FormAnswer.CANCELLED}


def asking_of(
    context: ServerRequestContext[Any, Any], params: CallToolRequestParams
) -> AskingBetween | AskingWithin | None:
    """Return how the user of a call's client is asked; None where the client shows no forms."""
    if not shows_forms(context.session.client_capabilities):
        return None
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return AskingBetween(params)
    return AskingWithin(context) if context.session.can_send_request else None


def shows_forms(capabilities: ClientCapabilities | None) -> bool:
    """Whether a client declares that it shows forms; before 2025-11-25 there was no other way, and none was named."""
    declared = None if capabilities is None else capabilities.elicitation
    return declared is not None and (declared.form is not None or declared.url is None)


class AskingBetween:
    """Asks between two calls: since 2026-07-28 (``tools.server.service.Asking``)."""

    def __init__(self, params: CallToolRequestParams) -> None:
        brought = (params.input_responses or {}).get(_QUESTION)
        self._brought = brought if isinstance(brought, ElicitResult) else None
        self.answers = None if self._brought is None else params.request_state
        self._answer: FormAnswer | None = None

    def ask(self, form: Form) -> None:
        """Take the answer that the call brings to this form, or have the form shown."""
        if self._brought is None or self.answers != form.confirmation_id:
            raise FormNeeded(form)
        self._answer, self._brought = _read(self._brought), None

    def answer(self) -> FormAnswer | None:
        """Return what was answered, once."""
        answer, self._answer = self._answer, None
        return answer


def input_required(form: Form) -> InputRequiredResult:
    """Return the answer that has the client show a form and make its call again."""
    request = ElicitRequest(params=ElicitRequestFormParams(message=form.message, requested_schema=FORM))
    return InputRequiredResult(input_requests={_QUESTION: request}, request_state=form.confirmation_id)


class AskingWithin:
    """Asks while the call runs: the eras with a handshake (``tools.server.service.Asking``)."""

    answers = None

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._session = context.session
        self._request_id = context.request_id
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._form: Form | None = None
        self._answer: FormAnswer | None = None

    def ask(self, form: Form) -> None:
        """Have the form shown; safe from any thread, and it never waits."""
        self._form = form
        self._loop.call_soon_threadsafe(self._asked.set)

    def answer(self) -> FormAnswer | None:
        """Return what was answered, once."""
        answer, self._answer = self._answer, None
        return answer

    @asynccontextmanager
    async def showing(self) -> AsyncIterator[None]:
        """Show the form once it is asked for; what is still shown when the block ends is taken back."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._show)
            yield
            beside.cancel_scope.cancel()

    async def _show(self) -> None:
        await self._asked.wait()
        assert self._form is not None
        try:
            self._answer = _read(await self._session.elicit_form(self._form.message, FORM, self._request_id))
        except Exception as error:  # noqa: BLE001 - whatever the client did, it decided nothing
            note("form not answered", error=type(error).__name__)
            self._answer = FormAnswer.UNANSWERED


def _read(brought: ElicitResult) -> FormAnswer:
    if brought.action != "accept":
        return _ACTIONS.get(brought.action, FormAnswer.UNREADABLE)
    chosen = (brought.content or {}).get("decision")
    return _CHOICES.get(chosen, FormAnswer.UNREADABLE) if isinstance(chosen, str) else FormAnswer.UNREADABLE

"""The MCP server: the SDK's low-level server in front of a memory service, and that server over stdio.

The SDK checks no input against a schema, and an exception that reaches it may be answered with its text. So every
handler here catches everything, and answers with an envelope or with a protocol error of constant words.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, InputRequiredResult, ListToolsResult, PaginatedRequestParams, Tool
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from journal.errors import EngramError, StoreUnavailable
from journal.limits import CALL_DEADLINE_SECONDS, CALLS_IN_FLIGHT_MAX, INSTRUCTIONS_WAIT_SECONDS
from tools.damage import DamageTold
from tools.lazylog import LazyLog
from tools.server.direct import (
    Client,
    DirectCalls,
    Elicited,
    RequestId,
    Running,
    WriteAtOnce,
    elicits_nobody,
    error_line,
    result_line,
    trace_parent_of,
)
from tools.server.elicitation import AskingWithin, asking_of, input_required
from tools.server.envelope import AuditIds, failure, random_audit_id
from tools.server.instructions import CONVERSATION_TOOLS, instructions
from tools.server.logs import note, quieten_libraries, warn
from tools.server.pumping import ProgressPump
from tools.server.schemas import definitions
from tools.server.service import (
    CallContext,
    Form,
    FormNeeded,
    ProtocolRefusal,
    Remembered,
    Service,
    UnknownTool,
    UntrustedContext,
)
from tools.server.stdio import StdioTransport, claimed_descriptors

SERVER_NAME: Final = "engram-memory"  # the connector's name (CONTRACT)
SERVER_TITLE: Final = "Engram memory"
CONTRACT_VERSION: Final = "1.0.0"

_GREETINGS: Final = ("initialize", "server/discover")  # in one era and in the other

_SESSION_HEADER: Final = "mcp-session-id"

RequestContext = ServerRequestContext[Any, Any]
Answer = dict[str, Any] | type[ProtocolRefusal] | Form


class Handlers:
    """The two handlers of one server, and the calls that they are running."""

    def __init__(
        self, service: Service, audit_ids: AuditIds = random_audit_id, workers: ThreadPoolExecutor | None = None
    ) -> None:
        """Take over a service; ``workers`` are threads that several servers share, each of which may end them."""
        self._service = service
        self.purposes = service.purposes()
        self.server_info: dict[str, Any] = {}  # what the server says of itself, once there is one over these handlers
        self._audit_ids = audit_ids
        self._session_id = random_audit_id()  # of a transport that names no sessions
        # One more, for the list that a refused line asks for: it is answered without being in flight.
        self._workers = workers or ThreadPoolExecutor(CALLS_IN_FLIGHT_MAX + 1, thread_name_prefix="engram-call")
        self._damage = DamageTold(LazyLog())
        self._running: set[threading.Event] = set()
        self._ending = threading.Event()  # no call is served any more: not by this server, or not for this principal

    async def list_tools(self, _context: RequestContext, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """Answer ``tools/list``: all of them on one page.

        Raises:
            MCPError: the service cannot tell what is granted.
        """
        granted = await self.granted_tools()
        if granted is None:
            raise _refusal(UntrustedContext)
        return ListToolsResult(tools=[Tool.model_validate(tool) for tool in definitions(granted, self.purposes)])

    async def granted_tools(self) -> Collection[str] | None:
        """Return the names of the tools that are granted and enabled; None where the service cannot tell."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, self._granted)

    async def greet(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Put the instructions of this moment into the answers that carry them (a middleware of the SDK's server)."""
        answer = await call_next(ctx)
        if ctx.method not in _GREETINGS or not isinstance(answer, dict):
            return answer
        return answer | {"instructions": await self._instructions()}

    async def call_tool(
        self, context: RequestContext, params: CallToolRequestParams
    ) -> dict[str, Any] | InputRequiredResult:  # fmt: skip
        """Answer ``tools/call`` with an envelope, or with a form that the client's user has to answer first.

        Raises:
            MCPError: a refusal of the protocol (CONTRACT §1).
        """
        cancelled = threading.Event()
        progress = ProgressPump(context) if context.meta and "progress_token" in context.meta else None
        asking = asking_of(context, params)
        call = CallContext(
            client_name=_client_name(context),
            session_id=_transport_session(context) or self._session_id,
            protocol_version=context.protocol_version,
            deadline=time.monotonic() + CALL_DEADLINE_SECONDS,
            cancelled=cancelled,
            ending=self._ending,
            progress=progress.report if progress else _no_progress,
            asking=asking,
            trace_parent=trace_parent_of(context.meta),
        )
        work = partial(self._call, params.name, params.arguments or {}, call)
        self._running.add(cancelled)
        try:
            async with AsyncExitStack() as beside:
                if progress:
                    await beside.enter_async_context(progress.sending())
                if isinstance(asking, AskingWithin):
                    await beside.enter_async_context(asking.showing())
                answer = await self._run(work, cancelled)
        finally:
            self._running.discard(cancelled)
        if isinstance(answer, Form):
            return input_required(answer)
        if isinstance(answer, dict):
            return answer
        raise _refusal(answer)

    def begin(
        self, request_id: RequestId, name: str, arguments: dict[str, Any], client: Client, write_at_once: WriteAtOnce,
        trace_parent: str | None,
    ) -> Running:  # fmt: skip
        """Begin a call that goes past the SDK, in a worker thread, which writes the answer itself where it can."""
        cancelled = threading.Event()
        call = self._context(client, self._session_id, cancelled, trace_parent)
        self._running.add(cancelled)

        def work() -> bytes | None:
            try:
                line = self.line_of(request_id, self._call(name, arguments, call), client)
            finally:
                self._running.discard(cancelled)
            if cancelled.is_set() and not self._ending.is_set():  # nobody waits for an answer
                return None
            return None if write_at_once(line) else line

        return Running(self._workers.submit(work), cancelled)

    async def answer(
        self, name: str, arguments: dict[str, Any], client: Client, session_id: str | None,
        cancelled: threading.Event, trace_parent: str | None,
    ) -> Answer:  # fmt: skip
        """Answer a call that goes past the SDK; ``session_id`` is the transport's, None where it names none."""
        call = self._context(client, session_id or self._session_id, cancelled, trace_parent)
        self._running.add(cancelled)
        try:
            return await self._run(partial(self._call, name, arguments, call), cancelled)
        finally:
            self._running.discard(cancelled)

    def line_of(self, request_id: RequestId, answer: Answer, client: Client) -> bytes:
        """Return the line of an answer to a call that went past the SDK."""
        if isinstance(answer, dict):
            return result_line(request_id, answer, client.protocol_version, self.server_info)
        assert not isinstance(answer, Form)  # nobody is asked on this way
        return error_line(request_id, answer.code, answer.message)

    def _context(
        self, client: Client, session_id: str, cancelled: threading.Event, trace_parent: str | None
    ) -> CallContext:  # fmt: skip
        return CallContext(
            client_name=client.name, session_id=session_id, protocol_version=client.protocol_version,
            deadline=time.monotonic() + CALL_DEADLINE_SECONDS, cancelled=cancelled, progress=_no_progress,
            ending=self._ending, trace_parent=trace_parent,
        )  # fmt: skip

    def close(self) -> None:
        """Wait for the last call and let its worker go; nobody waits for what is elsewhere any more."""
        self._stop_service()
        self._workers.shutdown()

    def cancel_all(self) -> None:
        """Tell every running call that the server ends, so that it answers soon."""
        self._ending.set()
        for cancelled in list(self._running):
            cancelled.set()
        self._stop_service()

    def _stop_service(self) -> None:
        try:
            self._service.stop()
        except Exception as error:  # noqa: BLE001 - no exception of the service may keep the server from ending
            warn("service not stopped", error=type(error).__name__)

    async def _instructions(self) -> str:
        """Return the instructions; with what is remembered, if the service tells that in time."""
        listed = await self.granted_tools() or ()
        remembered = None
        if not CONVERSATION_TOOLS.isdisjoint(listed):
            asked = asyncio.get_running_loop().run_in_executor(self._workers, self._remembered)
            # A service that takes longer than it was allowed goes on alone; its answer is dropped.
            done, _ = await asyncio.wait([asked], timeout=INSTRUCTIONS_WAIT_SECONDS)
            remembered = asked.result() if done else None
        return instructions(self.purposes, listed, remembered)

    async def _run(self, work: Callable[[], Answer], cancelled: threading.Event) -> Answer:
        """Run a call in a worker thread, and to its end whatever happens to its client: a commit is never torn.

        The bare executor costs 60 us a call; worker threads under a task group that watches for the cancellation, 200.
        """
        running = self._workers.submit(work)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            cancelled.set()
            if not running.cancelled():  # it began
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([asyncio.wrap_future(running)])
            raise

    def _granted(self) -> Collection[str] | None:
        try:
            return self._listed()
        except Exception as error:  # noqa: BLE001 - no exception of the service may reach the SDK
            warn("tools not listed", error=type(error).__name__)
            return None

    def _listed(self) -> Collection[str]:
        """Return the tools that are granted and enabled; damage that keeps the service from telling is logged."""
        try:
            return self._service.listed_tools()
        except EngramError as error:
            self._damage.tell(error)
            raise

    def _remembered(self) -> Remembered | None:
        try:
            return self._service.remembered(INSTRUCTIONS_WAIT_SECONDS)
        except Exception as error:  # noqa: BLE001 - no exception of the service may reach the SDK
            warn("nothing remembered", error=type(error).__name__)
            return None

    def _call(self, tool_name: str, arguments: dict[str, Any], call: CallContext) -> Answer:
        """Run one call, in a worker thread, to its result as it goes on the wire. Nothing is raised out of it."""
        try:
            if tool_name not in self._listed():
                return UnknownTool
            return self._service.call(tool_name, arguments, call).to_result()
        except FormNeeded as needed:
            return needed.form
        except ProtocolRefusal as refusal:
            if not refusal.is_logged:
                note("refused", tool=tool_name, code=refusal.code, detail=refusal.detail, audit_id=refusal.audit_id)
            return type(refusal)
        except EngramError as error:
            audit_id = self._audit_ids()
            note("refused", tool=tool_name, code=error.code, detail=error.detail, audit_id=audit_id)
            return failure(error, audit_id).to_result()
        except Exception as error:  # noqa: BLE001 - no exception of the service may reach the SDK
            audit_id = self._audit_ids()
            warn("call failed", error=type(error).__name__, audit_id=audit_id)
            return failure(StoreUnavailable, audit_id).to_result()


def _no_progress(_done: float, _total: float | None, _message: str | None) -> None:
    """Report to nobody."""


def _client_name(context: RequestContext) -> str | None:
    """Return what the client calls itself: in the handshake, or since 2026-07-28 in each request."""
    client = context.session.client_params
    return client.client_info.name if client else None


def _transport_session(context: RequestContext) -> str | None:
    """Return the session that the transport named; None over stdio.

    None also since 2026-07-28: nothing opens a session there, and the header is whatever a client wrote.
    """
    if context.request is None or context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    session: str | None = context.request.headers.get(_SESSION_HEADER)
    return session


def _refusal(refusal: type[ProtocolRefusal]) -> MCPError:
    return MCPError(code=refusal.code, message=refusal.message)


def build_server(handlers: Handlers, version: str = CONTRACT_VERSION) -> Server[Any]:
    """Return the SDK's server over these handlers, for any transport."""
    server: Server[Any] = Server(
        SERVER_NAME,
        version=version,
        title=SERVER_TITLE,
        instructions=instructions(handlers.purposes),
        on_list_tools=handlers.list_tools,
    )
    handlers.server_info = server.server_info_stamp
    # Without its own tracing, which would put tools and ids into spans before anybody configured any.
    server.middleware[:] = [handlers.greet]
    server.add_request_handler("tools/call", CallToolRequestParams, handlers.call_tool)
    return server


async def _stop_on_signal(stop: Callable[[], None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop()


async def _serve(
    service: Service, read_fd: int, write_fd: int, version: str, audit_ids: AuditIds, elicited: Elicited
) -> None:  # fmt: skip
    handlers = Handlers(service, audit_ids)
    server = build_server(handlers, version)
    transport = StdioTransport(
        read_fd,
        write_fd,
        granted_tools=handlers.granted_tools,
        cancel_calls=handlers.cancel_all,
        audit_ids=audit_ids,
        server_info=lambda: server.server_info_stamp,
        direct=DirectCalls(handlers.begin, elicited),
    )
    try:
        async with anyio.create_task_group() as beside:
            beside.start_soon(_stop_on_signal, transport.stop)
            await server.run(transport.requests, transport.answers, server.create_initialization_options())
            beside.cancel_scope.cancel()
    finally:
        handlers.close()
    if transport.refused_lines:
        note("lines refused", count=transport.refused_lines)


def serve_stdio(
    service: Service,
    *,
    version: str = CONTRACT_VERSION,
    audit_ids: AuditIds = random_audit_id,
    elicited: Elicited = elicits_nobody,
) -> None:
    """Serve one client over stdin and stdout until it closes its end, hangs up, or SIGTERM comes.

    ``elicited`` names the tools whose calls may have a client of a name show a form. The service is closed at the end.
    Nothing but protocol is written to stdout meanwhile, whoever prints.

    Raises:
        SystemExit: with 1, when the server itself failed; the log says how.
    """
    quieten_libraries()
    try:
        with claimed_descriptors() as (read_fd, write_fd):
            anyio.run(_serve, service, read_fd, write_fd, version, audit_ids, elicited)
    except Exception as error:  # noqa: BLE001 - its text and traceback may quote a message
        warn("server failed", error=type(error).__name__)
        raise SystemExit(1) from None
    finally:
        service.close()

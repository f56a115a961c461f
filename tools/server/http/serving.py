"""One process, one open store, many principals: streamable HTTP from its first request to an orderly end."""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import uvicorn
from anyio.to_thread import run_sync

from journal import limits
from journal.errors import StoreUnavailable
from journal.scope import Scope
from tools.host.http import Http
from tools.server.http import site
from tools.server.http.ending import Ending
from tools.server.http.endpoints import Endpoint
from tools.server.http.gate import Gate
from tools.server.http.metrics import Metrics
from tools.server.http.roster import Reread, Roster
from tools.server.http.tokens import TokenVerifier
from tools.server.http.wire import ImpatientProtocol
from tools.server.logs import note, quieten_libraries, warn
from tools.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is served: ``services`` are those of the host file's principals, in the same order."""

    http: Http
    verifier: TokenVerifier
    services: Sequence[Service]
    look: Callable[[], None]  # reads a little of the store, and raises where it cannot; in a worker thread
    version: str
    home: Scope  # of a principal that names no other
    reread: Reread = lambda: None  # looks whether others are to be served


class _Uvicorn(uvicorn.Server):
    """A uvicorn that leaves signals to us: it would close its port at once, and who is late gets no answer."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        StoreUnavailable: the address cannot be taken; the detail says why.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for asyncio sets TCP_NODELAY only where it is; without it each answer is 40 ms late.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(limits.HTTP_CONNECTIONS_MAX)
    except (OSError, UnicodeError) as error:
        listening.close()
        words = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise StoreUnavailable(f"{host}:{port} cannot be listened at: {words}") from None
    return listening


def make_room_for_files(scopes: int) -> None:
    """Have the process open as many files as its connections and scopes may need, as far as it may."""
    wanted = limits.HTTP_CONNECTIONS_MAX + limits.FILES_OF_PROCESS + scopes * limits.FILES_OF_SCOPE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if most < wanted:
            warn("few files may be open", wanted=wanted, allowed=most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def serve_http(served: Served, host: str, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; calls under way then have some seconds. The services are not closed.

    Args:
        served: what is served.
        host: the address, as the host file or the command line names it.
        listening: the socket, bound to it.

    Raises:
        SystemExit: with 1, when the server itself failed; the log says how.
    """
    quieten_libraries()
    try:
        anyio.run(_serve, served, host, listening)
    except Exception as error:  # noqa: BLE001 - its text and traceback may quote a message
        warn("server failed", error=_kind(error))
        raise SystemExit(1) from None


def _kind(error: BaseException) -> str:
    """Return the type of an exception, or of the one that a task group raised for it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return type(error).__name__


async def _serve(served: Served, host: str, listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    metrics = Metrics()
    ending = Ending(metrics)
    workers = ThreadPoolExecutor(limits.HTTP_WORKERS_MAX, thread_name_prefix="engram-call")
    endpoints: Sequence[Endpoint] = ()
    try:
        async with anyio.create_task_group() as keeping:
            roster = Roster(keeping, workers, metrics, ending, served.version, served.home)
            endpoints = roster.endpoints
            await roster.take(served.http.principals, served.services)
            server = _Uvicorn(_settings(_site(served, host, port, roster, metrics, ending)))
            async with anyio.create_task_group() as beside:
                beside.start_soon(_end_on_signal, server, ending, endpoints)
                beside.start_soon(roster.follow, served.reread, served.verifier)
                note("serving", transport="http", host=host, port=port, principals=len(endpoints))
                await server.serve(sockets=[listening])
                beside.cancel_scope.cancel()
            keeping.cancel_scope.cancel()
    finally:
        _cancel(endpoints)
        await run_sync(workers.shutdown)
    note("ended")


def _site(
    served: Served, host: str, port: int, roster: Roster, metrics: Metrics, ending: Ending
) -> site.Site:  # fmt: skip
    resource = site.resource_of(served.http, host, port)
    gate = Gate(
        security=site.security_of(served.http, host, port),
        verifier=served.verifier,
        principals=roster.principals,
        endpoints=roster.endpoints,
        metrics=metrics,
        ending=ending,
        challenge=site.challenge_of(resource),
    )

    looking = anyio.CapacityLimiter(1)  # a store that hangs holds one thread, however often it is asked for

    async def is_ready() -> bool:
        try:
            with anyio.fail_after(limits.HTTP_READY_SECONDS):
                await run_sync(served.look, abandon_on_cancel=True, limiter=looking)
        except Exception as error:  # noqa: BLE001 - whatever it is, the store cannot be read
            warn("not ready", error=type(error).__name__)
            return False
        return True

    return site.Site(gate, served.http, resource, metrics, ending, is_ready)


def _settings(of: site.Site) -> uvicorn.Config:
    return uvicorn.Config(
        of.application(),
        http=ImpatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a forwarded address is nobody's here
        limit_concurrency=limits.HTTP_CONNECTIONS_MAX,
        h11_max_incomplete_event_size=limits.HTTP_HEAD_MAX_BYTES,
        timeout_graceful_shutdown=limits.STOP_GRACE_SECONDS,
    )


async def _end_on_signal(server: uvicorn.Server, ending: Ending, endpoints: Sequence[Endpoint]) -> None:
    """Drain at the first signal; end at once at the second."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with anyio.create_task_group() as draining:
            async for _ in signals:
                if ending.draining:
                    break
                ending.begin()
                note("draining", calls=ending.calls)
                draining.start_soon(_drain, server, ending, endpoints)
            _cancel(endpoints)
            server.should_exit = True
            draining.cancel_scope.cancel()


async def _drain(server: uvicorn.Server, ending: Ending, endpoints: Sequence[Endpoint]) -> None:
    if not await ending.idle(limits.HTTP_DRAIN_SECONDS):
        _cancel(endpoints)
        await ending.idle(limits.STOP_GRACE_SECONDS)
    note("drained", calls=ending.calls)
    server.should_exit = True


def _cancel(endpoints: Sequence[Endpoint]) -> None:
    """Tell every call that the server ends."""
    for endpoint in endpoints:
        endpoint.handlers.cancel_all()

"""One request to an endpoint and its answer, bounded in time and in size.

The standard library's client is used, and no pool: it follows no redirect, asks no proxy, reads no file of passwords
and writes no log, and each of these would be a way for a text or a key to go where nobody sent it.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager, suppress
from typing import NamedTuple

from projections.address import Address

_LET_GO = "let go"


class Answer(NamedTuple):
    """What an endpoint answered."""

    status: int
    retry_after: str | None
    body: bytes
    is_whole: bool  # False: the body is over the bound, and cut there


class Requests:
    """Requests that can be let go of all at once, whatever each is at: a look-up, a connection, an answer.

    Each runs in a thread of its own; whoever waits for one that is let go is told so, and the thread ends by itself.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._awaited: set[Future[Answer]] = set()
        self._over = False

    def run(self, request: Callable[[], Answer], seconds: float | None = None) -> Answer:
        """Return what a request answers, waiting at most ``seconds`` for it; None: as long as it takes.

        Raises:
            Unanswered: there is no whole answer within its time, or it was let go.
        """
        awaited: Future[Answer] = Future()
        with self._mutex:
            if self._over:
                raise Unanswered(_LET_GO)
            self._awaited.add(awaited)
        try:
            threading.Thread(target=_run, args=(request, awaited), name="engram-request", daemon=True).start()
            return awaited.result(seconds)
        except FutureTimeout:
            raise Unanswered(TimeoutError.__name__) from None
        finally:
            with self._mutex:
                self._awaited.discard(awaited)
            del awaited  # it holds what is raised, and that this frame: a ring that would keep a connection open

    def end(self) -> None:
        """Let go of what is awaited, and begin nothing more."""
        with self._mutex:
            self._over = True
            for awaited in self._awaited:
                with suppress(InvalidStateError):  # it was answered just now
                    awaited.set_exception(Unanswered(_LET_GO))


def _run(request: Callable[[], Answer], awaited: Future[Answer]) -> None:
    try:
        answer = request()
    except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
        with suppress(InvalidStateError):
            awaited.set_exception(error)
    else:
        with suppress(InvalidStateError):
            awaited.set_result(answer)


class Unanswered(Exception):
    """No answer came, or not in time; whether the request arrived is not known. The text is the kind of failure."""


def post(address: Address, body: bytes, headers: Mapping[str, str], *, seconds: float, max_bytes: int) -> Answer:
    """Send one request over a connection of its own and return its answer.

    Args:
        address: where it goes.
        body: what is sent.
        headers: what is sent before it; nothing of them shows in an error.
        seconds: for all of it, however the answer trickles; the look-up of the host's name and the greeting of TLS
            are bounded step by step.
        max_bytes: how much of an answer is read.

    Raises:
        Unanswered: there is no whole answer within the time.
    """
    return _exchange("POST", address, body, headers, seconds, max_bytes)


def fetch(address: Address, headers: Mapping[str, str], *, seconds: float, max_bytes: int) -> Answer:
    """Ask for what stands at an address, as :func:`post` sends.

    Raises:
        Unanswered: there is no whole answer within the time.
    """
    return _exchange("GET", address, None, headers, seconds, max_bytes)


def _exchange(
    method: str, address: Address, body: bytes | None, headers: Mapping[str, str], seconds: float, max_bytes: int
) -> Answer:
    ends = time.monotonic() + seconds
    connection = _connection(address, seconds)
    try:
        connection.connect()
        with _ended_after(connection.sock, ends - time.monotonic()):
            connection.request(method, address.path, body, {**headers, "Connection": "close"})
            with connection.getresponse() as response:
                return _answer(response, max_bytes)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # ValueError: the library refuses a header by quoting it; it may be the key
        raise Unanswered(type(error).__name__) from None
    finally:
        connection.close()


def _answer(response: http.client.HTTPResponse, max_bytes: int) -> Answer:
    read = response.read(max_bytes + 1)
    is_whole = len(read) <= max_bytes
    if is_whole and response.length:  # read(n) does not say that an answer broke off
        raise http.client.IncompleteRead(b"", response.length)
    return Answer(response.status, response.headers.get("Retry-After"), read[:max_bytes], is_whole)


def _connection(address: Address, seconds: float) -> http.client.HTTPConnection:
    if not address.secure:
        return http.client.HTTPConnection(address.host, address.port, timeout=seconds)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(address.host, address.port, timeout=seconds, context=context)


@contextmanager
def _ended_after(connected: socket.socket, seconds: float) -> Iterator[None]:
    """End a connection when the time is over. The time-out of a socket counts anew for every byte."""

    def end() -> None:
        over.set()
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    over = threading.Event()
    timer = threading.Timer(max(seconds, 0), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if over.is_set():
        raise TimeoutError

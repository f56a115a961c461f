"""Lines over two file descriptors: read within a bound, written whole.

Neither descriptor is made non-blocking, for a terminal or a log may share it. Instead nothing is read before there is
something to read, and never more is written than what the pipe is known to take without waiting.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import stat
import termios
import threading
from collections.abc import Callable
from typing import Final

import anyio

from journal.limits import LINE_MAX_BYTES
from tools.server.outline import Outline

_CHUNK_BYTES: Final = 65_536  # what a pipe holds
_INT_BYTES: Final = 4
_HUNG_UP: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class LineReader:
    """Reads lines from a descriptor. Memory stays within one line of ``max_bytes`` and one chunk."""

    def __init__(self, fd: int, max_bytes: int = LINE_MAX_BYTES) -> None:
        self._fd = fd
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0  # no line end stands before
        self._ended = False
        self._stopped = False
        self._watching: asyncio.AbstractEventLoop | None = None  # the loop that tells of what there is to read
        self._waiter: asyncio.Future[None] | None = None

    def stop(self) -> None:
        """Read no further: what is not yet received counts as never sent."""
        self._stopped = True
        self._wake()

    async def receive(self) -> bytes | Outline | None:
        """Return the next line without its line end, the outline of one over the bound, or None at the end."""
        outline: Outline | None = None
        while not self._stopped:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                return self._whole(line, outline)
            if outline or len(self._buffer) > self._max_bytes:
                outline = outline or Outline()
                outline.feed(bytes(self._buffer))
                self._buffer.clear()
            self._searched = len(self._buffer)
            if self._ended:
                return self._half_line(outline)
            await self._fill()
        return None

    def _whole(self, line: bytes, outline: Outline | None) -> bytes | Outline:
        if outline is None and len(line) <= self._max_bytes:
            return line
        outline = outline or Outline()
        outline.feed(line)
        return outline

    def _half_line(self, outline: Outline | None) -> bytes | Outline | None:
        """Return what stood before the end without a line end behind it, once."""
        line = bytes(self._buffer)
        self._buffer.clear()
        return outline or line or None

    async def _fill(self) -> None:
        """Wait until something was read. The descriptor stays watched from one wait to the next: that is half of it."""
        loop = asyncio.get_running_loop()
        if self._watching is None:
            try:
                loop.add_reader(self._fd, self._readable)
                self._watching = loop
            except PermissionError:  # a regular file: always readable, and epoll does not take it
                await anyio.lowlevel.checkpoint()
                self._read()
                return
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self._stopped or self._ended:
                self._unwatch()

    def _readable(self) -> None:
        """Read, if somebody waits; else look away, or the loop would tell of it again and again."""
        if self._waiter is None or self._waiter.done():
            self._unwatch()
            return
        self._read()
        self._wake()

    def _read(self) -> None:
        if self._stopped:
            return
        try:
            chunk = os.read(self._fd, _CHUNK_BYTES)
        except OSError:
            chunk = b""  # a terminal that went away
        self._ended = not chunk
        self._buffer += chunk

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.remove_reader(self._fd)
            self._watching = None


class LineWriter:
    """Writes lines to a descriptor, each whole and in order. A writer of a line waits until it is written."""

    def __init__(self, fd: int, on_gone: Callable[[], None]) -> None:
        """``on_gone`` is called once, when nobody reads any more."""
        self._fd = fd
        self._on_gone = on_gone
        self._gone = False
        self._finishing = False
        self._turn = anyio.Lock(fast_acquire=True)  # among those who wait
        self._wire = threading.Lock()  # between them and the threads that do not
        self._room = select.poll()  # asked by whoever holds the wire: two threads at once it refuses
        self._room.register(fd, select.POLLOUT)
        self._end = select.poll()  # asked by the loop alone, whoever is writing
        self._end.register(fd, 0)
        self._holds_bytes = _capacity_bytes(fd)

    def hung_up(self) -> bool:
        """Tell whether nobody reads any more."""
        return self._gone or any(events & _HUNG_UP for _fd, events in self._end.poll(0))

    def finish(self) -> None:
        """Wait no longer: from now on a line that the pipe does not take at once is given up, and all behind it."""
        self._finishing = True
        anyio.notify_closing(self._fd)

    def write_at_once(self, line: bytes) -> bool:
        """Write a line from any thread, if nobody else is writing and the pipe takes it whole; return whether.

        It is written or not at all: a pipe that is ready takes ``PIPE_BUF`` in one piece, an empty one all it holds.
        """
        if len(line) > self._holds_bytes or self._gone or not self._wire.acquire(blocking=False):
            return False
        try:
            ready = self._room.poll(0)
            if not ready or ready[0][1] & _HUNG_UP:
                return False
            if len(line) > select.PIPE_BUF and self._unread():
                return False
            return os.write(self._fd, line) == len(line)
        except OSError:
            return False  # whoever writes next finds out
        finally:
            self._wire.release()

    def _unread(self) -> bool:
        """Tell whether anything of what was written stands in the pipe still."""
        return fcntl.ioctl(self._fd, termios.FIONREAD, bytes(_INT_BYTES)) != bytes(_INT_BYTES)

    async def write(self, make_line: Callable[[], bytes]) -> None:
        """Write a line, its line end included. It is written whole also where the caller is cancelled meanwhile.

        The line is made when its turn comes, so that what waits is not held twice.

        Raises:
            BrokenResourceError: nobody reads any more.
        """
        with anyio.CancelScope(shield=True):
            async with self._turn:
                rest = memoryview(make_line())
                while not self._wire.acquire(blocking=False):  # a thread is at its one short write
                    await anyio.lowlevel.checkpoint()
                try:
                    while rest := rest[self._push(rest) :]:
                        await self._wait_for_room()
                finally:
                    self._wire.release()

    def _push(self, data: memoryview) -> int:
        """Write what the pipe takes without waiting, and return how many bytes that was."""
        sent = 0
        while sent < len(data) and not self._gone:
            ready = self._room.poll(0)
            if not ready:
                break
            if ready[0][1] & _HUNG_UP:
                self._lose()
                break
            # A pipe that is ready takes this much without waiting; a socket that is ready takes far more.
            try:
                sent += os.write(self._fd, data[sent : sent + select.PIPE_BUF])
            except OSError:
                self._lose()
        if self._gone:
            raise anyio.BrokenResourceError
        return sent

    async def _wait_for_room(self) -> None:
        if not self._finishing:
            try:
                await anyio.wait_writable(self._fd)
            except anyio.ClosedResourceError:
                pass  # finish() was called
            else:
                return
        self._lose()
        raise anyio.BrokenResourceError

    def _lose(self) -> None:
        if not self._gone:
            self._gone = True
            self._on_gone()


def _capacity_bytes(fd: int) -> int:
    """Return what a descriptor takes in one piece once it is empty: of anything but a pipe of Linux that is unknown."""
    get_size = getattr(fcntl, "F_GETPIPE_SZ", None)
    if get_size is None or not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return select.PIPE_BUF
    return max(fcntl.fcntl(fd, get_size), select.PIPE_BUF)

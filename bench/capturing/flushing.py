"""A machine whose medium takes longer to flush: the flushes of a process and its children are held so long before.

A virtual machine's disk, or one with a battery, flushes in a tenth of a millisecond; other media take one to ten. The
kernel holds each fdatasync and fsync, and LMDB's write of its meta page, 120 bytes through a descriptor whose writes
are durable at once; every other call goes its way untouched.
"""

from __future__ import annotations

import heapq
import os
import select
import socket
import time
import traceback
from collections.abc import Callable
from typing import Final

from tests.faults.seccomp import Asked, answer, receive, watch

_FLUSHES: Final = ("fdatasync", "fsync", "pwrite64")
_LENGTH_AT, _META_BYTES = 2, 120


def with_slow_flushes(seconds: float, work: Callable[[], object]) -> tuple[int, int]:
    """Let a function run in a process of its own, each flush held so long before.

    Returns its exit status, and how many flushes were held, those before a measurement begins among them.

    Raises:
        OSError: the system has no such means, or does not allow them.
    """
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        _in_child(theirs, work)
    theirs.close()
    _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    flushes = sum(_hold(listener, seconds) for listener in listeners)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flushes


def _in_child(theirs: socket.socket, work: Callable[[], object]) -> None:
    status = 1
    try:
        listener = watch(_FLUSHES, {"pwrite64": (_LENGTH_AT, _META_BYTES)})
        socket.send_fds(theirs, [b"x"], [listener])
        os.close(listener)
        theirs.close()
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(status)


def _hold(listener: int, seconds: float) -> int:
    """Let each held call happen after so long, until nobody is watched any more; return how many there were."""
    polled = select.poll()
    polled.register(listener, select.POLLIN)
    held: list[tuple[float, int, Asked]] = []
    flushes = 0
    while True:
        left = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready = polled.poll(None if left is None else left * 1000)  # in milliseconds, rounded up
        while held and held[0][0] <= time.monotonic():
            answer(listener, heapq.heappop(held)[2])
        for _, event in ready:
            if event & select.POLLIN:
                asked = receive(listener)
                if asked is not None:
                    flushes += 1
                    heapq.heappush(held, (time.monotonic() + seconds, asked.id, asked))
            elif event & (select.POLLHUP | select.POLLERR):
                os.close(listener)
                return flushes

"""The second process of a rebuild: ``python -m replay.ahead_process``, told by ``replay.ahead`` what to prepare."""

from __future__ import annotations

import ctypes
import signal
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from journal.log import Journal
from projections.serving import make_projections
from projections.tail import Tail
from replay.ahead import Opening, prepare, receive, send
from replay.rebuild import collecting_seldom

_PR_SET_PDEATHSIG: Final = 1  # Linux's prctl


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Prepare pages until no more are asked for.

    Raises:
        EngramError: the journal cannot be opened.
    """
    raw = receive(requests)
    if raw is None:
        return
    opening = msgspec.msgpack.decode(raw, type=Opening)
    with closing(Journal.open(Path(opening.store), opening.root_key, readonly=True)) as source:
        made = make_projections(source, opening.scope)
        projections = [each for each in made if opening.versions.get(each.name) == each.version]
        tail = Tail(source, opening.scope, opening.page_events)
        while (raw := receive(requests)) is not None:
            send(answers, prepare(tail, projections, msgspec.msgpack.decode(raw, type=int)))


def _end_with_parent() -> None:
    """Have the system end this process with the one that asks, even while it is stopped.

    Where there is no such thing, it ends when it next reads.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serve on stdin and stdout. Ctrl-C is for the process that asks: it ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    with suppress(BrokenPipeError), collecting_seldom():
        serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()

"""Weighing ahead: a second process takes documents apart while the first reads, opens and writes.

To weigh documents is half of what a rebuild does, and it needs nothing but their texts and the scope's token key. Both
reach the other process through its standard input and nothing else: neither a file, nor an argument, nor the
environment. What comes back is what this process would have found itself, and whatever does not come back it finds
itself: a worker that cannot be started, or dies, costs time alone.

    a message   its size u32, big-endian, then so many bytes of MessagePack
    first       the token key
    then        [[fields, main, source, labels], ...]  answered by  [[tokens, impacts, group, label, traits], ...]
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final, Self

import msgspec

from journal import limits
from projections.lexical.documents import Document, Weighed, Weigher
from projections.lexical.keyed import TokenKey
from projections.lexical.profile import RECORD_FIELDS
from projections.lexical.standing import Standing

_SIZE: Final = struct.Struct(">I")
_CLOSE_SECONDS: Final = 5.0
_PIPE_BYTES: Final = 1 << 20
_KEPT_MAX: Final = 4 * limits.CATCHUP_PAGE_EVENTS
_ROOT: Final = Path(__file__).resolve().parents[2]

Found = tuple[Weighed, Standing]
_Row = tuple[bytes, bytes, bytes, int, int]
_Asked = tuple[tuple[tuple[str, str], ...], str, str, tuple[str, ...]]


class Ahead:
    """A worker of one scope. Several threads may take what one asks for; close it."""

    def __init__(self, key: bytes) -> None:
        """Start the worker and give it the token key."""
        self._asked: deque[list[Document]] = deque()  # batches not answered yet, oldest first
        self._waiting: set[Document] = set()  # all that is in them
        self._found: dict[Document, Found] = {}
        self._mutex = threading.Lock()
        self._answers: SimpleQueue[list[_Row] | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "projections.lexical.ahead"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, cwd=_ROOT, env=_environment(),
            )  # fmt: skip
            _widen(self._process.stdin)
            threading.Thread(target=_receive, args=(self._process.stdout, self._answers), daemon=True).start()
            self._send(key)

    def ask(self, documents: Sequence[Document]) -> None:
        """Have documents weighed, to be taken soon: of what nobody takes only so much is kept."""
        rows = [(document.fields, document.main, document.source, document.labels) for document in documents]
        with self._mutex:
            if rows and self._send(rows):
                self._asked.append(list(documents))
                self._waiting.update(documents)

    def take(self, document: Document, order: int) -> Found | None:
        """Return what ``Weigher.arriving`` does of a document that was asked for; None where it must be weighed here.

        It is kept no longer: who wants it again weighs it.
        """
        with self._mutex:
            while document in self._waiting:
                self._receive_one()
            found = self._found.pop(document, None)
        return None if found is None else (found[0], found[1]._replace(order=order))

    def _receive_one(self) -> None:
        """Wait for the answer to the oldest batch."""
        answer = self._answers.get()
        if answer is None:
            self._give_up()
            return
        batch = self._asked.popleft()
        if len(self._found) > _KEPT_MAX:
            self._found.clear()
        for document, row in zip(batch, answer, strict=True):
            self._found[document] = Weighed(row[0], row[1]), Standing(row[2], 0, row[3], row[4])
        self._waiting.difference_update(batch)

    def _send(self, message: Any) -> bool:
        """Send a message; return whether it went out."""
        if self._process is None or self._process.stdin is None:
            return False
        try:
            _write(self._process.stdin, msgspec.msgpack.encode(message))
        except (OSError, ValueError):  # it ended; or a text that is no Unicode, of which nothing was sent
            self._give_up()
            return False
        return True

    def _give_up(self) -> None:
        """Ask no more, and wait for nothing."""
        self._asked.clear()
        self._waiting.clear()
        self.close()

    def close(self) -> None:
        """End the worker."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Assisted:
    """A weigher that looks first whether a worker has weighed a document already."""

    def __init__(self, weigher: Weigher, ahead: Ahead) -> None:
        self._weigher = weigher
        self._ahead = ahead

    def arriving(self, document: Document, order: int) -> Found:
        """Return what ``Weigher.arriving`` does."""
        return self._ahead.take(document, order) or self._weigher.arriving(document, order)


def _widen(pipe: IO[bytes] | None) -> None:
    """Let a pipe hold a batch or two, where the system has a way: who asks then need not wait for who weighs."""
    if pipe is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _environment() -> dict[str, str]:
    """Return what an interpreter needs to find its libraries, and nothing else: a root key may stand beside it."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "LD_", "DYLD_"))}


def _write(stream: IO[bytes], message: bytes) -> None:
    stream.write(_SIZE.pack(len(message)) + message)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """Return the next message, None at the end."""
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    size = _SIZE.unpack(head)[0]
    message = stream.read(size)
    return message if len(message) == size else None


def _receive(stream: IO[bytes], answers: SimpleQueue[list[_Row] | None]) -> None:
    """Pass on what the worker answers, so that it never waits for who is still asking; None at the end."""
    decoder = msgspec.msgpack.Decoder(list[_Row])
    with stream, suppress(msgspec.DecodeError, OSError):
        while (message := _read(stream)) is not None:
            answers.put(decoder.decode(message))
    answers.put(None)


def main() -> None:
    """Weigh what is asked until the input ends."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    key = _read(source)
    if key is None:
        return
    weigher = Weigher(TokenKey(msgspec.msgpack.decode(key, type=bytes)), RECORD_FIELDS)
    decoder, encoder = msgspec.msgpack.Decoder(list[_Asked]), msgspec.msgpack.Encoder()
    while (message := _read(source)) is not None:
        found = [weigher.arriving(Document(*asked), 0) for asked in decoder.decode(message)]
        rows = [(weighed.tokens, weighed.impacts, at.group, at.label, at.traits) for weighed, at in found]
        _write(sink, encoder.encode(rows))


if __name__ == "__main__":
    main()

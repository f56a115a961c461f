"""The log: one JSON object a line on stderr, and never a word of content.

What is logged is an event's name, counts, codes and the types of exceptions; not their texts, which may quote what a
caller sent. The library behind it is imported when the first line is written, which costs 80 ms that a starting server
does not have. A reader of stderr who does not read cannot stop the server: a line that does not fit its pipe is lost.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from functools import cache
from typing import Any, Final

STDERR: Final = 2


class StderrPipe:
    """A text file over stderr whose writes never wait."""

    def __init__(self, fd: int = STDERR) -> None:
        self.lost_lines = 0
        self._fd = fd
        self._lock = threading.Lock()
        self._room = select.poll()
        self._room.register(fd, select.POLLOUT)

    def write(self, text: str) -> int:
        """Write one line, cut at what a pipe takes in one piece, or lose it."""
        line = text.encode(errors="backslashreplace")
        if len(line) > select.PIPE_BUF:
            line = line[: select.PIPE_BUF - 1] + b"\n"
        with self._lock:
            try:
                if self._room.poll(0):
                    os.write(self._fd, line)
                else:
                    self.lost_lines += 1
            except OSError:
                self.lost_lines += 1  # nobody is left to tell
        return len(text)

    def flush(self) -> None:
        """Do nothing: every write is a whole line."""


@cache
def _settings() -> dict[str, Any]:
    import structlog

    return {
        "processors": [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        "wrapper_class": structlog.make_filtering_bound_logger(logging.INFO),
    }


@cache
def _logger() -> Any:
    import structlog

    writer = structlog.WriteLogger(file=StderrPipe())  # type: ignore[arg-type]  # it is only written to
    return structlog.wrap_logger(writer, **_settings())


def configure() -> None:
    """Let what the engine logs through structlog come here too."""
    import structlog

    pipe = StderrPipe()
    structlog.configure(
        logger_factory=lambda *_: structlog.WriteLogger(file=pipe),  # type: ignore[arg-type]  # it is only written to
        **_settings(),
    )


def note(event: str, **facts: object) -> None:
    """Log that something happened that an operator may want to know."""
    _logger().info(event, **facts)


def warn(event: str, **facts: object) -> None:
    """Log that something went wrong; pass an exception's type as ``error``, never the exception."""
    _logger().warning(event, **facts)


class _Libraries(logging.Handler):
    """Says that a library logged something, and where; its words may quote a message of the client."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        warn("library", logger=record.name, line=record.lineno, error=error)


def quieten_libraries() -> None:
    """Let the standard library's loggers pass through here, from warnings up."""
    root = logging.getLogger()
    if not any(isinstance(handler, _Libraries) for handler in root.handlers):
        root.handlers[:] = [_Libraries(logging.WARNING)]
        root.setLevel(logging.WARNING)

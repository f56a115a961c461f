"""Ctrl-C at any moment ends a command with exit code 130 and without a word.

Before a command began, and after it ended, there is nothing to undo, and an exception thrown into the middle of an
import comes out as anything, or as a stack trace: so the process leaves at once. In between a command gets its
KeyboardInterrupt, and undoes what is half done.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing it from typing takes longer than all of the rest here
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

EXIT_INTERRUPTED = 130


def leave_at_once() -> None:
    """From here on Ctrl-C ends the process. Whoever has a handler of their own keeps it."""
    _exchange(signal.default_int_handler, _leave)


def raise_again() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt again, if it was this module that changed that."""
    _exchange(_leave, signal.default_int_handler)


def is_behind(error: BaseException) -> bool:
    """Whether an exception is a KeyboardInterrupt, or what others made of one on its way."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        if isinstance(each, KeyboardInterrupt):
            return True
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return False


def send_swallowed_again() -> None:
    """Send an interrupt again that was thrown into a callback, where Python prints it and goes on."""
    plain = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            leave_at_once()  # the second is no exception, so that it cannot be swallowed
            os.kill(os.getpid(), signal.SIGINT)
        else:
            plain(unraisable)

    sys.unraisablehook = hook


def _exchange(before: Any, after: Any) -> None:
    try:
        if signal.getsignal(signal.SIGINT) == before:
            signal.signal(signal.SIGINT, after)
    except ValueError:
        pass  # not the main thread: signals are somebody else's


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_INTERRUPTED)

"""Is ``engram serve``, with its calls held once it has imported what it needs: launch.py SOCKET WORD...

The listener is sent over the Unix socket SOCKET; the words are those of the command.
"""

from __future__ import annotations

import os
import socket
import sys

import tools.cli.opening
import tools.cli.serve
import tools.conversation.save_message
import tools.conversation.search_memory
import tools.memory.capture
import tools.memory.dispatch
import tools.memory.search
import tools.memory.transition  # noqa: F401 - these are imported so that the thousands of calls of it are not held
from tests.faults.seccomp import watch
from tools.cli.main import main


def become(words: list[str]) -> None:
    """Send the listener, then serve."""
    with socket.socket(socket.AF_UNIX) as to:
        to.connect(words[0])
        listener = watch()
        socket.send_fds(to, [b"x"], [listener])
        os.close(listener)
    sys.argv = ["engram", *words[1:]]
    main()


if __name__ == "__main__":
    become(sys.argv[1:])

"""Throw nonsense at the real server and at the service, and say what was seen.

python -m tests.hostile.run_nonsense 20000 --seed 1
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from tests.hostile.expected import Book, Right
from tests.hostile.in_process import throw_in_process
from tests.hostile.nonsense_lines import Nonsense
from tests.hostile.served import PeakMemory, ServedStore, Store

BATCH_LINES = 60


def throw(server: ServedStore, count: int, seed: int) -> Book:
    """Send ``count`` lines in batches; hold each batch's answers against its lines.

    Behind each batch comes a ping. Lines that are refused are answered in turn, so whatever comes after the ping can
    only belong to a call.
    """
    book, lines = Book(), Nonsense(seed).lines(count)
    number = 0
    while batch := list(islice(lines, BATCH_LINES)):
        number += 1
        marker = f"marker-{number}"
        server.send_raw(b"".join(line.raw for line in batch))
        server.send({"id": marker, "method": "ping"})
        owed = {line.request_id for line in batch if line.right not in {Right.SILENCE, Right.NAMELESS, Right.EITHER}}
        book.settle(batch, _answers(server, owed, marker))
    return book


def _answers(server: ServedStore, owed: set[Any], marker: str) -> list[dict[str, Any]]:
    """Return the answers up to the marker's and all that are owed; then those that come before another ping's."""
    answers: list[dict[str, Any]] = []
    pinged = False
    while owed or not pinged:
        answer = server.receive()
        owed.discard(answer["id"])
        if answer["id"] == marker:
            pinged = True
        else:
            answers.append(answer)
    server.send({"id": f"{marker}-end", "method": "ping"})
    while (answer := server.receive())["id"] != f"{marker}-end":
        answers.append(answer)
    return answers


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))  # 20,000 refusals
    with tempfile.TemporaryDirectory(prefix="engram-hostile-") as folder:
        store = Store.make(Path(folder))
        before = store.head()
        server = store.serve()
        server.read().handshake()
        began = time.monotonic()
        with PeakMemory(server) as memory:
            book = throw(server, asked.count, asked.seed)
        took = time.monotonic() - began
        assert server.process.poll() is None
        assert server.end() == 0
        assert server.impure == []
        assert b"Traceback" not in server.log
        in_process = throw_in_process(store, asked.count, asked.seed)
        assert store.head() == before
    _say(f"seed {asked.seed}: {asked.count:,} lines in {took:.0f} s; server RssAnon {memory.before_bytes >> 20} MiB,")
    _say(f"at most {memory.peak_bytes >> 20} MiB; head {before.cursor} before and after; stdout pure")
    for title, counted in (("sent", book.sent), ("answered", book.answered), ("in process", in_process)):
        _say(f"\n{title}")
        for kind, times in sorted(counted.items(), key=lambda each: -each[1]):
            _say(f"{times:>8,}  {kind}")


if __name__ == "__main__":
    main()

"""A process that works on a store until it dies: ``python -m tests.journal.mortal STORE NAME``.

It says what it is about to do, and what was acknowledged. Every kind of step comes round, in a fixed order, so that a
failpoint's count says where it strikes.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from journal.lifecycle import Operation
from tests.journal.stores import ACTOR, SCOPE, capture, move, opened


def say(*words: object) -> None:
    """Tell the parent, in one piece."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Work for ever."""
    path, name = Path(sys.argv[1]), sys.argv[2]
    with opened(path) as journal:
        say("open")
        for number in itertools.count():
            candidates = []
            for letter in "abcd":
                key = f"{name}-{number:08}-{letter}-key"
                say("captures", key)
                candidate_id, _ = capture(journal, key, f"text of {key}")
                say("captured", key, candidate_id)
                candidates.append(candidate_id)
            for operation, at in (
                (Operation.ACCEPT, 0), (Operation.ACCEPT, 1), (Operation.WITHDRAW, 2), (Operation.TOMBSTONE, 1),
            ):  # fmt: skip
                say("moves", operation.label, candidates[at])
                event = move(journal, operation, candidates[at])
                say("moved", operation.label, candidates[at], event.header.cursor)
            journal.finish_destructions(SCOPE)
            say("finished")
            if number % 3 == 1:
                say("rotated", journal.rotate_keys(SCOPE, ACTOR))


if __name__ == "__main__":
    main()

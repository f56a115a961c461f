"""What the tests of catch-up share."""

from __future__ import annotations

from contextlib import contextmanager


def cursors(projections, word, deadline=None):
    with projections.snapshot(deadline) as snapshot:
        return snapshot.reader("words").cursors(word)


def persisted(projections):
    return {status["name"]: status["cursor"] for status in projections.statuses()}


@contextmanager
def busy(projections, *names):
    """Hold the write claims of some projections, as another process that folds does."""
    held = []
    for name in names or projections.names:
        generation = projections.generations(name).open_or_begin(0, None)
        assert generation.environment.claim(None)
        held.append(generation)
    try:
        yield held
    finally:
        for generation in held:
            generation.environment.unclaim()
            generation.release()

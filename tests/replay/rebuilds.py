"""What the tests of rebuilding share."""

from __future__ import annotations

from tests.projections.histories import SCOPE

REBUILDER = """
from pathlib import Path
from journal import limits
from replay.rebuild import rebuild, compact
from tests.projections.stores import Store
from projections.generations import BuildingBusy, Generations
limits.CATCHUP_PAGE_EVENTS, limits.REBUILD_PAGES = 5, 1
build = Generations.build
def told(*arguments, **options):
    try:
        return build(*arguments, **options)
    except BuildingBusy:
        say("busy")
        raise
Generations.build = told
store = Store(Path(sys.argv[1]))
projections = store.projections()
def progress(cursor, head):
    say(cursor, head)
    if sys.argv[2] == "stepwise":
        wait()
done = rebuild(projections, "words", progress=progress, wait="wait" in sys.argv)
say("done", done.generation, done.cursor)
projections.close()
"""

HOLDER = """
from pathlib import Path
from tests.projections.stores import Store
store = Store(Path(sys.argv[1]))
projections = store.projections()
with projections.snapshot() as snapshot:
    say(*(snapshot.generation(name) for name in snapshot.names))
while wait() == "refresh":
    projections.refresh()
    say("refreshed")
"""


class Stopped(Exception):
    """Raised by a progress callback."""


def served(projections):
    with projections.snapshot() as snapshot:
        return {name: snapshot.digest(name) for name in snapshot.names}


def generation_of(projections, name="words"):
    with projections.snapshot() as snapshot:
        return snapshot.generation(name)


def head_of(projections):
    return projections.journal.store.head(SCOPE).cursor


def stopped_after(pages):
    left = iter(range(pages))

    def progress(cursor, head):
        if next(left, None) is None:
            raise Stopped

    return progress


def builder_says(builder):
    builder.tell()
    line = builder.hear()
    return None if line.startswith("done") else line


def bytes_on_disk(path):
    return b"".join(found.read_bytes() for found in path.rglob("*") if found.is_file())

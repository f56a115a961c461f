"""The walk over the projections of a store that is served, in a process that may die of what it reads.

    python -m projections.pagewalk PROJECTIONS

looks, at the lowest priority, at every generation that is in force: at its pages' structure, and whether its rows are
those that its folds wrote (``projections.summing``). It writes nothing and needs no key. It reads in one transaction a
generation, so that no page is used again meanwhile, and takes none of the locks by which generations are marked and
removed: what is found of one that goes meanwhile means nothing, for it is out of force.

It says ``begun`` in a line, then each generation in a line before it looks at it, as ``<scope tag>/<name>/<number>``,
and at the end in a line of JSON what is not as it was written: {the same: why}. What it dies of is laid on the last
one that it named.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec

from journal.errors import JournalCorrupt
from journal.store.lmdb.filesystem import check_length, structure_problems
from journal.walks import BEGUN
from projections import summing
from projections.environment import DATA, Unusable, is_broken
from projections.inforce import InForce
from projections.mapping import open_for_looking
from projections.port import META

_ATTEMPTS: Final = 4
_PAUSE_SECONDS: Final = 0.02


def main(arguments: Sequence[str]) -> int:
    """Walk what is in force in a ``projections`` directory; print what was found."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a SIGBUS is an answer, not an accident
    os.nice(19)
    _say(BEGUN)
    broken = {}
    for name in in_force(Path(arguments[0])):
        _say(name.encode() + b"\n")
        directory = Path(arguments[0]) / name
        if _problem_of(directory) and (why := _problem_of(directory)):  # what is found once is looked at again
            broken[name] = why
    _say(msgspec.json.encode(broken) + b"\n")
    return 0


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def in_force(projections_path: Path) -> Iterator[str]:
    """Yield each generation in force as ``<scope tag>/<name>/<number>``."""
    for directory in sorted(projections_path.glob("*/*/")):
        number = InForce(directory).current()
        if number is not None:
            yield str((directory / number).relative_to(projections_path))


def _problem_of(directory: Path) -> str:
    """Return what is not as it was written in a generation; empty where nothing is, or nothing can be said of it.

    Its mark is not asked: who has it mapped serves from it, whatever that says by now.
    """
    try:
        check_length(directory / DATA)
        with closing(open_for_looking(directory)) as env:
            tables = _tables_of(env)
            with env.begin(buffers=True) as txn:
                return _structure(directory) or _content(txn, tables)
    except (JournalCorrupt, Unusable) as error:
        return str(error)
    except lmdb.Error as error:
        return type(error).__name__ if is_broken(error) else ""
    except OSError:  # it was removed, say
        return ""


def _tables_of(env: lmdb.Environment) -> dict[bytes, Any]:
    with env.begin() as txn:
        names = [bytes(name) for name in txn.cursor().iternext(keys=True, values=False)]
    return {name: env.open_db(name, create=False) for name in names}


def _structure(directory: Path) -> str:
    """Return what is wrong with the pages; while a read transaction keeps those of now from being used again."""
    problems = structure_problems(directory / DATA)
    for _ in range(_ATTEMPTS):
        if not problems:
            return ""
        time.sleep(_PAUSE_SECONDS)  # the two meta pages are read one after the other, and commits may come in between
        problems = structure_problems(directory / DATA)
    return problems[0] if problems else ""


def _content(txn: lmdb.Transaction[memoryview], tables: Mapping[bytes, Any]) -> str:
    if META not in tables:
        return "it has no table of its own"
    stated = summing.stated_in(txn, tables[META])
    found = summing.walked(txn, tables)
    wrong = [name for name, total in found.items() if total != stated.get(name, summing.NOTHING)]
    wrong += stated.keys() - found.keys()
    return f"rows are not what was written: {', '.join(sorted(wrong))}" if wrong else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

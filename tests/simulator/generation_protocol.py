"""Generations as a model: a reader, one who rebuilds, one who erases, one who condemns, over one projection.

The steps are those of ``Generations.open``, ``build``, ``adopt``, ``condemn``, ``open_or_begin`` and ``sweep``, and of
``finish_erasures`` above them. One record is forgotten on the way. A generation's rows hold it until its fold is past
the forgetting; its bytes hold it for good if its rows ever did, for LMDB leaves deleted bytes in free pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.simulator.interleavings import END, Process, State, Step


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation, in its directory or deleted and still open. Its floor is the head when it was begun."""

    number: int
    floor: int = 0
    rows_hold: bool = False
    bytes_hold: bool = False
    is_there: bool = True
    holders: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Disk:
    """A projection's directory, and what of the journal matters to it."""

    generations: tuple[Generation, ...] = (Generation(1, rows_hold=True, bytes_hold=True),)
    current: int = 1
    is_void: bool = False  # CURRENT says that its generation is out of force
    out: frozenset[int] = frozenset()  # the numbers that ever went out of force
    lock: str = ""
    head: int = 1
    forgotten_at: int = 0  # cursor of the forgetting; 0: none yet
    is_complete: bool = False  # the erasure was said to be complete

    def at(self, number: int) -> Generation | None:
        """Return the generation that stands under a number."""
        return next((each for each in self.generations if each.number == number and each.is_there), None)

    def put(self, changed: Generation) -> Disk:
        """Return the disk with a generation changed, or added; what is deleted and held by nobody is gone."""
        rest = tuple(each for each in self.generations if each.number != changed.number)
        kept = (changed,) if changed.is_there or changed.holders else ()
        return replace(self, generations=tuple(sorted((*rest, *kept), key=lambda each: each.number)))

    def hold(self, number: int, name: str) -> Disk:
        """Return the disk with one holder more; the number was opened, so it is there or deleted and open."""
        return self.put(replace(self.standing(number), holders=self.standing(number).holders | {name}))

    def let_go(self, number: int, name: str) -> Disk:
        """Return the disk with one holder less."""
        found = self.standing(number)
        return self.put(replace(found, holders=found.holders - {name}))

    def standing(self, number: int) -> Generation:
        """Return a generation, be it deleted and open."""
        return next((each for each in self.generations if each.number == number), Generation(number, is_there=False))

    def folded(self, number: int) -> Disk:
        """Return the disk with a generation's fold at the journal's head."""
        found = self.standing(number)
        holds = not self.forgotten_at
        return self.put(replace(found, rows_hold=holds, bytes_hold=found.bytes_hold or holds))


def _lock(name: str, label: str) -> Step:
    def act(disk: Disk, own: Any) -> Iterator[Any]:
        if not disk.lock:
            yield replace(disk, lock=name), own

    return Step(f"lock to {label}", act)


def _unlock(label: str) -> Step:
    def act(disk: Disk, own: Any) -> Iterator[Any]:
        yield replace(disk, lock=""), own

    return Step(f"unlock after {label}", act)


# --- reading --------------------------------------------------------------------------------------


def reading(name: str) -> list[Step]:
    """Return the steps of a read. Its own: the number, and whether that was out of force when its lock was had."""

    def name_it(disk: Disk, own: Any) -> Iterator[Any]:
        yield (disk, own, END) if disk.is_void else (disk, (disk.current, False))

    def share(disk: Disk, own: Any) -> Iterator[Any]:
        number, _ = own
        if disk.at(number) is None:
            yield disk, (), "read CURRENT"
        else:
            yield disk.hold(number, name), (number, number in disk.out)

    def look_again(disk: Disk, own: Any) -> Iterator[Any]:
        number, _ = own
        if disk.current == number and not disk.is_void:
            yield disk, own
        else:
            yield disk.let_go(number, name), (), "read CURRENT"

    def serve(disk: Disk, own: Any) -> Iterator[Any]:
        yield disk.folded(own[0]), own

    def release(disk: Disk, own: Any) -> Iterator[Any]:
        yield disk.let_go(own[0], name), ()

    return [Step("read CURRENT", name_it), Step("share its lock", share), Step("read CURRENT again", look_again),
            Step("serve", serve), Step("release", release)]  # fmt: skip


# --- building -------------------------------------------------------------------------------------


def building(name: str, *, copies: bool = False, folds_first: bool = True) -> list[Step]:
    """Return the steps of a rebuild. Its own: the number that it builds, or the head that it read before.

    With ``copies`` the rows of the generation in force are taken, once its own fold is at the head.
    """

    def read_head(disk: Disk, own: Any) -> Iterator[Any]:
        yield disk, disk.head

    def begin(disk: Disk, floor: int) -> Iterator[Any]:
        begun = [each for each in disk.generations if each.is_there and each.number > disk.current]
        if any(each.holders for each in begun):
            yield replace(disk, lock=""), floor, "read the head"  # another builds it: busy, and waited for
            return
        for each in begun:
            disk = disk.put(replace(each, is_there=False))
        number = max([disk.current, *(each.number for each in disk.generations)]) + 1
        yield disk.put(Generation(number, floor, holders=frozenset({name}))), number

    def fold(disk: Disk, number: int) -> Iterator[Any]:
        source = disk.at(disk.current)
        if not copies or source is None or disk.is_void:
            yield disk.folded(number), number
            return
        disk = disk.folded(source.number) if folds_first else disk
        holds = any(each.rows_hold for each in disk.generations if each.number == source.number)
        yield disk.put(replace(disk.standing(number), rows_hold=holds, bytes_hold=holds)), number

    def adopt(disk: Disk, number: int) -> Iterator[Any]:
        if disk.at(number) is None or disk.current >= number:
            yield replace(disk.let_go(number, name), lock=""), 0, "read the head"
        else:
            yield replace(disk, current=number, is_void=False, out=disk.out | {disk.current}), number

    def let_go(disk: Disk, number: int) -> Iterator[Any]:
        yield disk.let_go(number, name), number

    return [Step("read the head", read_head), _lock(name, "begin"), Step("begin", begin), _unlock("begin"),
            Step("fold", fold), _lock(name, "adopt"), Step("adopt", adopt), _unlock("adopt"),
            Step("let go", let_go)]  # fmt: skip


def sweeping(name: str) -> list[Step]:
    """Return the steps that remove what was replaced and nobody holds, one a lock."""

    def remove(disk: Disk, own: Any) -> Iterator[Any]:
        for each in disk.generations:
            if each.is_there and each.number < disk.current and not each.holders:
                disk = disk.put(replace(each, is_there=False))
        yield disk, own

    return [_lock(name, "sweep"), Step("remove what nobody holds", remove), _unlock("sweep")]


# --- erasing and condemning -----------------------------------------------------------------------


def erasing(name: str, built: list[Step], swept: list[Step]) -> list[Step]:
    """Return the steps of a forgetting and its erasure; where it cannot be complete, the sweeper comes once more."""

    def forget(disk: Disk, own: Any) -> Iterator[Any]:
        yield replace(disk, head=disk.head + 1, forgotten_at=disk.head + 1), own

    def need(disk: Disk, own: Any) -> Iterator[Any]:
        found = None if disk.is_void else disk.at(disk.current)
        is_later = found is not None and found.floor >= disk.forgotten_at
        yield (disk, own, "lock to sweep") if is_later else (disk, own)

    return [Step("commit the forgetting", forget), Step("look at the floor", need), *built, *swept,
            Step("say complete", say_complete)]  # fmt: skip


def say_complete(disk: Disk, own: Any) -> Iterator[Any]:
    """Say it where the generation in force was begun later, and none from before is left, or open."""
    found = None if disk.is_void else disk.at(disk.current)
    is_later = found is not None and found.floor >= disk.forgotten_at
    older = [each for each in disk.generations if each.number < disk.current]
    yield replace(disk, is_complete=is_later and not older), own


def condemning(name: str) -> list[Step]:
    """Return the steps that take the generation in force out of force, and put an empty one in its place."""

    def void(disk: Disk, own: Any) -> Iterator[Any]:
        yield replace(disk, is_void=True, out=disk.out | {disk.current}), own

    def begin(disk: Disk, own: Any) -> Iterator[Any]:
        if not disk.is_void:
            yield disk, own
            return
        number = max([disk.current, *(each.number for each in disk.generations)]) + 1
        yield replace(disk.put(Generation(number, disk.head)), current=number, is_void=False), own

    return [_lock(name, "condemn"), Step("say out of force", void), _unlock("condemn"),
            _lock(name, "begin anew"), Step("begin an empty one", begin), _unlock("begin anew")]  # fmt: skip


# --- the whole ------------------------------------------------------------------------------------


def die(disk: Disk, name: str) -> Disk:
    """The kernel releases every lock of a dead process; what it began stays where it is."""
    for each in disk.generations:
        if name in each.holders:
            disk = disk.let_go(each.number, name)
    return replace(disk, lock="") if disk.lock == name else disk


def check(state: State) -> str | None:
    """Say what is wrong."""
    disk: Disk = state.shared
    if not disk.is_void and disk.at(disk.current) is None:
        return "CURRENT names what is not there"
    if disk.is_complete and any(each.bytes_hold for each in disk.generations):
        return "complete was said, and bytes of what was forgotten are there or open"
    if max(disk.out, default=0) > disk.current:
        return "CURRENT went back"
    return _wrong_reader(state)


def _wrong_reader(state: State) -> str | None:
    at, own = state.places[0]
    if SERVING <= at < SERVING + 2 and own:
        if state.shared.at(own[0]) is None:
            return "what is served was removed"
        if own[1]:
            return "what was out of force before its lock was had is served"
    return None


SERVING = [step.name for step in reading("reader")].index("serve")


def processes(**mistaken: list[Step]) -> list[Process]:
    """Return the four; ``mistaken`` replaces steps. The reader is the first."""
    built = mistaken.get("building", building("builder"))
    erased = erasing("eraser", mistaken.get("building_eraser", building("eraser", copies=True)),
                     mistaken.get("sweeping", sweeping("eraser")))  # fmt: skip
    return [
        Process("reader", mistaken.get("reading", reading("reader"))),
        Process("eraser", mistaken.get("erasing", erased)),
        Process("builder", [*built, *sweeping("builder")]),
        Process("condemner", condemning("condemner")),
    ]

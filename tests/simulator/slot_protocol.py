"""Slots and events as a model: two writers, and an opener that sweeps, over one slot file and one journal.

The steps are those of ``SlotFile.append``, ``SlotFile.destroy``, ``Journal.commit``, ``finish_destructions`` and
``admit``; a test holds their order beside the product's. The slot file is a page cache over a medium: what is written
and not flushed may be there after a power cut, slot by slot, or not. A commit of the journal is one durable step, as
LMDB makes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from tests.simulator.interleavings import END, Process, State, Step

BLANK = "blank"
Slots = tuple[str, ...]  # of each slot its key's name, or BLANK behind it


@dataclass(frozen=True, slots=True)
class Disk:
    """The slot file as written, and as it is on the medium; the journal; who holds the key lock."""

    cached: Slots = ()
    durable: Slots = ()
    generation: int = 0
    generation_durable: int = 0
    lock: str = ""
    captured: tuple[tuple[str, int], ...] = ()  # key, slot: committed
    ended: tuple[str, ...] = ()  # keys of subjects that ended, in order
    marks: tuple[str, ...] = ()  # of those, whose destruction the journal does not know
    mirrored: int = 0  # the file's generation, as the journal knows it
    copy: tuple[Slots, int] | None = None  # somebody's copy of the slot file


def _lock(name: str) -> Step:
    def act(disk: Disk, own: Any) -> Iterator[Any]:
        if not disk.lock:
            yield replace(disk, lock=name), own

    return Step("lock keys", act)


def _unlock(disk: Disk, own: Any) -> Iterator[Any]:
    yield replace(disk, lock=""), own


def _flush_slots(disk: Disk, own: Any) -> Iterator[Any]:
    yield replace(disk, durable=disk.cached), own


def _raise(disk: Disk, own: Any) -> Iterator[Any]:
    yield replace(disk, generation=disk.generation + 1), own


def _flush_header(disk: Disk, own: Any) -> Iterator[Any]:
    yield replace(disk, generation_durable=disk.generation, durable=disk.cached), own


FILE_STEPS = (Step("flush slots", _flush_slots), Step("raise generation", _raise), Step("flush header", _flush_header),
              Step("unlock keys", _unlock))  # fmt: skip


def capturing(name: str) -> list[Step]:
    """Return the steps of a capture under a fresh key. Its own variable: the number of its slot."""

    def count(disk: Disk, own: Any) -> Iterator[Any]:
        yield disk, len(disk.cached)

    def write(disk: Disk, number: int) -> Iterator[Any]:
        yield replace(disk, cached=(*disk.cached[:number], name, *disk.cached[number + 1 :])), number

    def commit(disk: Disk, number: int) -> Iterator[Any]:
        captured = (*disk.captured, (name, number))
        yield replace(disk, captured=captured, mirrored=max(disk.mirrored, disk.generation_durable)), number

    return [
        _lock(name), Step("count slots", count), Step("write slot", write), *FILE_STEPS, Step("commit capture", commit)
    ]  # fmt: skip


def ending(name: str) -> list[Step]:
    """Return the step that ends the subject whose key has this name, and marks it; only where it was captured."""

    def commit(disk: Disk, own: Any) -> Iterator[Any]:
        if any(key == name for key, _ in disk.captured):
            yield replace(disk, ended=(*disk.ended, name), marks=(*disk.marks, name)), own

    return [Step("commit end", commit)]


def finishing(name: str) -> list[Step]:
    """Return the steps that destroy what has ended. Its own variable: (key, slot) of the marks seen."""

    def look(disk: Disk, own: Any) -> Iterator[Any]:
        if disk.marks:
            yield disk, tuple((key, number) for key, number in disk.captured if key in disk.marks)
        else:
            yield disk, (), END

    def overwrite(disk: Disk, doomed: Any) -> Iterator[Any]:
        yield replace(disk, cached=blanked(disk.cached, doomed)), doomed

    def done(disk: Disk, doomed: Any) -> Iterator[Any]:
        """Take away the marks that were seen, and none that came since."""
        seen = {key for key, _ in doomed}
        marks = tuple(key for key in disk.marks if key not in seen)
        yield replace(disk, marks=marks, mirrored=max(disk.mirrored, disk.generation_durable)), doomed

    return [Step("look for marks", look), _lock(name), Step("overwrite slots", overwrite), *FILE_STEPS,
            Step("commit done", done)]  # fmt: skip


def blanked(slots: Slots, doomed: Any, *, trusting: bool = False) -> Slots:
    """Return the slots with the keys of some overwritten; ``trusting``: whatever stands at their numbers."""
    made = list(slots)
    for key, number in doomed:
        for at, found in enumerate(made):
            if (at == number) if trusting else (found == key):
                made[at] = BLANK + key
    return tuple(made)


def opening(name: str) -> list[Step]:
    """Return the steps of a process that opens the store beside the others: it compares, then finishes what is left."""

    def mirror(disk: Disk, own: Any) -> Iterator[Any]:
        yield disk, disk.mirrored

    def compare(disk: Disk, mirrored: int) -> Iterator[Any]:
        # No older file was put back while processes live, so whoever finds one has misjudged a live file.
        yield (disk, ()) if disk.generation >= mirrored else (replace(disk, captured=(("misjudged", -1),)), ())

    return [Step("read the mirror", mirror), Step("compare generations", compare), *finishing(name)]


def copying() -> list[Step]:
    """Return the step of somebody who copies the slot file, to put it back one day."""

    def copy(disk: Disk, own: Any) -> Iterator[Any]:
        if not disk.lock:
            yield replace(disk, copy=(disk.cached, disk.generation)), own

    return [Step("copy the slot file", copy)]


def die(disk: Disk, name: str) -> Disk:
    """The kernel releases what a dead process held."""
    return replace(disk, lock="") if disk.lock == name else disk


def power_cuts(disk: Disk) -> Iterator[Disk]:
    """Yield what may be on the medium after a power cut: each unflushed slot and header written, or not."""
    size = len(disk.cached)
    before = (*disk.durable, *([""] * (size - len(disk.durable))))
    choices = [{old, new} for old, new in zip(before, disk.cached, strict=True)]
    for slots in product(*choices):
        for generation in {disk.generation, disk.generation_durable}:
            yield replace(disk, cached=slots, durable=slots, generation=generation, generation_durable=generation,
                          lock="")  # fmt: skip


def reopened(disk: Disk, *, compares: bool = True) -> Disk:
    """Return what stands when the next process has opened the store (``Journal.admit``)."""
    doomed = [(key, number) for key, number in disk.captured if key in disk.marks]
    if compares and disk.generation < disk.mirrored:
        doomed = [(key, number) for key, number in disk.captured if key in disk.ended]
        disk = replace(disk, generation=disk.mirrored)
    slots = blanked(disk.cached, doomed)
    return replace(disk, cached=slots, durable=slots, marks=(), generation=disk.generation + 1)


def wrong_on(disk: Disk, *, whole: bool = True) -> str | None:
    """Say what is wrong with a disk at rest; ``whole``: no older file was put back, so nothing may be lost."""
    slots = [number for _, number in disk.captured]
    if whole and len(set(slots)) < len(slots):
        return "two subjects under one slot"
    for key, number in disk.captured:
        stands = disk.cached[number] if number < len(disk.cached) else ""
        if key in disk.ended and key not in disk.marks and key in disk.cached:
            return "a key that was destroyed is there"
        if key not in disk.ended and whole and stands != key:
            return "the key of what lives is lost"
    return None


def check(state: State, *, compares: bool = True, trusting: bool = False) -> str | None:
    """Say what is wrong: now, after a power cut now, or when an older slot file is put back now."""
    return _wrong(state.shared, compares, trusting)


@cache
def _wrong(disk: Disk, compares: bool, trusting: bool) -> str | None:
    for cut in power_cuts(disk):
        wrong = wrong_on(cut) or wrong_on(reopened(cut, compares=compares))
        if wrong is not None:
            return wrong
    if disk.copy is None:
        return None
    slots, generation = disk.copy
    older = replace(disk, cached=slots, durable=slots, generation=generation, lock="")
    older = reopened(older, compares=compares)
    return wrong_on(older, whole=False) or _wrong_later(older, trusting=trusting)


def _wrong_later(disk: Disk, *, trusting: bool) -> str | None:
    """After an older file was put back, a key is written where a lost one stood, and what lost its key is forgotten."""
    slots = (*disk.cached, "new")
    doomed = [(key, number) for key, number in disk.captured if key not in disk.ended]
    return None if "new" in blanked(slots, doomed, trusting=trusting) else "another's key was destroyed"


def processes(**mistaken: list[Step]) -> list[Process]:
    """Return two writers, an opener that sweeps, and somebody who copies; ``mistaken`` replaces steps."""
    return [
        Process("one", [*mistaken.get("capturing_one", capturing("one")), *ending("one"),
                        *mistaken.get("finishing_one", finishing("one"))]),
        Process("two", [*mistaken.get("capturing_two", capturing("two")), *ending("two")]),
        Process("opener", mistaken.get("opening", opening("opener"))),
        Process("copier", copying()),
    ]  # fmt: skip

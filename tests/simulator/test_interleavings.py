"""Every interleaving of the steps by which keys and generations come and go: nothing wrong, and each mistake found."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.simulator import generation_protocol as gens
from tests.simulator import slot_protocol as slots
from tests.simulator.interleavings import END, Explored, Process, Step, explore, swapped, without

LONG = "ENGRAM_SIMULATOR_STEPS" in os.environ
pytestmark = pytest.mark.timeout(1_800 if LONG else 120)


def of_slots(names: str, check: Any = slots.check, **mistaken: list[Step]) -> Explored:
    """Explore the slots with the processes of these names."""
    chosen = [process for process in slots.processes(**mistaken) if process.name in names.split()]
    return explore(chosen, slots.Disk(), check, slots.die)


def of_generations(names: str, **mistaken: list[Step]) -> Explored:
    """Explore the generations with the processes of these names; the reader is among them."""
    chosen = [process for process in gens.processes(**mistaken) if process.name in names.split()]
    return explore(chosen, gens.Disk(), gens.check, gens.die)


def changed(steps: list[Step], name: str, act: Any) -> list[Step]:
    """Return the steps with one doing something else: a planted mistake."""
    assert any(step.name == name for step in steps)
    return [Step(name, act) if step.name == name else step for step in steps]


# --- the checker ----------------------------------------------------------------------------------


def _counter() -> list[Step]:
    def read(shared: int, own: int) -> Any:
        yield shared, shared

    def write(shared: int, own: int) -> Any:
        yield own + 1, own

    return [Step("read", read), Step("write", write)]


def test_every_interleaving_is_visited():
    seen: set[int] = set()
    both = [Process("a", _counter(), 0), Process("b", _counter(), 0)]

    def check(state: Any) -> None:
        if all(at == 2 for at, _ in state.places):
            seen.add(state.shared)

    explored = explore(both, 0, check)
    assert seen == {1, 2}
    assert explored.wrong is None
    one = explore(
        both, 0, lambda state: "lost" if all(at == 2 for at, _ in state.places) and state.shared == 1 else None
    )
    assert one.wrong == "lost"
    assert sorted(one.way) == ["a: read", "a: write", "b: read", "b: write"]
    dying = explore(both, 0, lambda _: None, lambda shared, _: shared)
    assert dying.states > explored.states


def test_a_process_waits_ends_and_goes_back():
    def wait(shared: int, own: int) -> Any:
        if shared == 3:
            yield shared, own, END

    def grow(shared: int, own: int) -> Any:
        yield (shared + 1, own, "grow") if shared < 3 else (shared, own)

    ended = []
    explore([Process("a", [Step("wait", wait)], 0), Process("b", [Step("grow", grow)], 0)], 0,
            lambda state: ended.append(state) if all(at == 1 for at, _ in state.places) else None)  # fmt: skip
    assert [state.shared for state in ended] == [3]


# --- slots ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["one two opener", "one two opener copier"])
def test_keys_and_events_agree_at_every_moment(names, record_property):
    explored = of_slots(names)
    record_property("states", explored.states)
    assert (explored.wrong, explored.way) == (None, ())
    assert explored.states > 2_000


def _given_back(disk: slots.Disk, number: int) -> Any:
    captured = (*disk.captured, ("one", number), ("again", number))
    yield replace(disk, captured=captured), number


def _all_done(disk: slots.Disk, doomed: Any) -> Any:
    yield replace(disk, marks=()), doomed


def _overwritten_by_number(disk: slots.Disk, doomed: Any) -> Any:
    yield replace(disk, cached=slots.blanked(disk.cached, doomed, trusting=True)), doomed


def _unlocked(steps: list[Step]) -> list[Step]:
    return without(without(steps, "lock keys"), "unlock keys")


def _unflushed(steps: list[Step]) -> list[Step]:
    return without(without(steps, "flush slots"), "flush header")


ONE, TWO, END_OF_ONE = slots.capturing("one"), slots.capturing("two"), slots.finishing("one")
SLOT_MISTAKES: dict[str, Any] = {
    "a slot is not flushed before its event": partial(of_slots, "one", capturing_one=_unflushed(ONE)),
    "the event comes before the flush": partial(
        of_slots, "one", capturing_one=swapped(ONE, "commit capture", "flush slots")
    ),
    "writers take no lock": partial(of_slots, "one two", capturing_one=_unlocked(ONE), capturing_two=_unlocked(TWO)),
    "slots are counted before the lock": partial(
        of_slots, "one two", capturing_one=swapped(ONE, "lock keys", "count slots"),
        capturing_two=swapped(TWO, "lock keys", "count slots"),
    ),
    "a slot whose event may stand is given to another": partial(
        of_slots, "one", capturing_one=changed(ONE, "commit capture", _given_back)
    ),
    "a destruction is told before it is done": partial(
        of_slots, "one", finishing_one=swapped(END_OF_ONE, "commit done", "overwrite slots")
    ),
    "a destruction is not flushed": partial(of_slots, "one", finishing_one=_unflushed(END_OF_ONE)),
    "what was marked since is told done": partial(
        of_slots, "one two", finishing_one=changed(END_OF_ONE, "commit done", _all_done)
    ),
    "an older slot file is not noticed": partial(of_slots, "one copier", partial(slots.check, compares=False)),
    "numbers are taken on trust": partial(of_slots, "one copier", partial(slots.check, trusting=True)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", SLOT_MISTAKES)
def test_a_mistake_with_keys_is_found(mistake):
    explored = SLOT_MISTAKES[mistake]()
    assert explored.wrong is not None
    assert explored.way


# --- generations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    ["reader eraser builder", "reader eraser condemner", *(["reader eraser builder condemner"] if LONG else [])],
)
def test_generations_come_and_go_under_readers(names, record_property):
    explored = of_generations(names)
    record_property("states", explored.states)
    assert (explored.wrong, explored.way) == (None, ())
    assert explored.states > 2_000


def _shared_unlooked(disk: gens.Disk, own: Any) -> Any:
    yield disk.hold(own[0], "reader"), (own[0], own[0] in disk.out)


def _not_looked(disk: Any, own: Any) -> Any:
    yield disk, own


def _all_removed(disk: gens.Disk, own: Any) -> Any:
    for each in disk.generations:
        if each.is_there and each.number < disk.current:
            disk = disk.put(replace(each, is_there=False))
    yield disk, own


def _complete_though_held(disk: gens.Disk, own: Any) -> Any:
    found = disk.at(disk.current)
    yield replace(disk, is_complete=found is not None and found.floor >= disk.forgotten_at), own


def _complete_whatever_is_in_force(disk: gens.Disk, own: Any) -> Any:
    yield replace(disk, is_complete=all(each.number >= disk.current for each in disk.generations)), own


def _adopted_unlooked(disk: gens.Disk, number: int) -> Any:
    yield replace(disk, current=number, is_void=False, out=disk.out | {disk.current}), number


def _late(disk: gens.Disk, number: int) -> Any:
    yield disk.put(replace(disk.standing(number), floor=disk.head)), number


READ, BUILT, SWEPT = gens.reading("reader"), gens.building("builder"), gens.sweeping("eraser")
ERASED = gens.erasing("eraser", gens.building("eraser", copies=True), SWEPT)
UNLOOKED = changed(changed(READ, "share its lock", _shared_unlooked), "read CURRENT again", _not_looked)
GENERATION_MISTAKES: dict[str, Any] = {
    "a reader does not look again": partial(
        of_generations, "reader condemner", reading=without(READ, "read CURRENT again")
    ),
    "a lock on what was removed counts": partial(of_generations, "reader builder", reading=UNLOOKED),
    "what is held is removed": partial(
        of_generations, "reader eraser", sweeping=changed(SWEPT, "remove what nobody holds", _all_removed)
    ),
    "complete is said though an older one is held": partial(
        of_generations, "reader eraser", erasing=changed(ERASED, "say complete", _complete_though_held)
    ),
    "complete is said whatever is in force": partial(
        of_generations, "reader eraser",
        erasing=[ERASED[0], *ERASED[-4:-1], Step("say complete", _complete_whatever_is_in_force)],
    ),
    "an older one is put in force over a newer": partial(
        of_generations, "reader builder condemner", building=changed(BUILT, "adopt", _adopted_unlooked)
    ),
    "the floor is read when it is built": partial(
        of_generations, "reader eraser builder",
        building=[step for at in BUILT for step in ([at, Step("late", _late)] if at.name == "fold" else [at])],
    ),
    "rows are copied from one whose fold is behind": partial(
        of_generations, "reader eraser", building_eraser=gens.building("eraser", copies=True, folds_first=False)
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", GENERATION_MISTAKES)
def test_a_mistake_with_generations_is_found(mistake):
    explored = GENERATION_MISTAKES[mistake]()
    assert explored.wrong is not None
    assert explored.way

"""An explicit-state checker: every interleaving of a few processes' steps, each process able to die before each step.

A process is a row of steps. A step looks at what is shared and at its process's own variables, and yields what may come
of it: (shared, own) goes on to the next step, (shared, own, name) to the step of that name, ``END`` ends the process.
Nothing yielded means that the process waits. States are compared by value, so each is visited once however it was come
to; what is found wrong comes with a shortest row of steps that leads there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

END = "end"
Came = Iterable[tuple[Any, ...]]


class Step(NamedTuple):
    """One step: atomic in the product, or made so by the lock that it is taken under."""

    name: str
    act: Callable[[Any, Any], Came]


class Process(NamedTuple):
    """A process: its name, its steps, and its own variables at first."""

    name: str
    steps: Sequence[Step]
    own: Any = ()


class State(NamedTuple):
    """What is shared, and of each process where it stands and its own variables."""

    shared: Any
    places: tuple[tuple[int, Any], ...]


@dataclass
class Explored:
    """How much was visited, and the first wrong thing that was come to: what, and how."""

    states: int = 0
    transitions: int = 0
    wrong: str | None = None
    way: tuple[str, ...] = ()


def explore(
    processes: Sequence[Process], shared: Any, check: Callable[[State], str | None],
    die: Callable[[Any, str], Any] | None = None,
) -> Explored:  # fmt: skip
    """Visit every state; ``check`` says what is wrong with one, ``die`` what is left when a process dies."""
    first = State(shared, tuple((0, process.own) for process in processes))
    parents: dict[State, tuple[State, str] | None] = {first: None}
    queue, seen = deque([first]), Explored()
    while queue:
        state = queue.popleft()
        seen.states += 1
        wrong = check(state)
        if wrong is not None:
            seen.wrong, seen.way = wrong, _way(parents, state)
            return seen
        for after, name in _following(processes, state, die):
            seen.transitions += 1
            if after not in parents:
                parents[after] = (state, name)
                queue.append(after)
    return seen


def _following(
    processes: Sequence[Process], state: State, die: Callable[[Any, str], Any] | None
) -> Iterable[tuple[State, str]]:
    for number, process in enumerate(processes):
        at, own = state.places[number]
        if at >= len(process.steps):
            continue
        step = process.steps[at]
        for shared, own_after, *jump in step.act(state.shared, own):
            yield _moved(state, number, shared, (_target(process, at, jump), own_after)), f"{process.name}: {step.name}"
        if die is not None:
            dead = _moved(state, number, die(state.shared, process.name), (len(process.steps), process.own))
            yield dead, f"{process.name} dies before: {step.name}"


def _target(process: Process, at: int, jump: Sequence[str]) -> int:
    if not jump:
        return at + 1
    names = [step.name for step in process.steps]
    return len(names) if jump[0] == END else names.index(jump[0])


def _moved(state: State, number: int, shared: Any, place: tuple[int, Any]) -> State:
    return State(shared, (*state.places[:number], place, *state.places[number + 1 :]))


def _way(parents: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := parents[state]) is not None:
        state, name = before
        steps.append(name)
    return tuple(reversed(steps))


def without(steps: Sequence[Step], name: str) -> list[Step]:
    """Return the steps with one left out: a planted mistake."""
    left = [step for step in steps if step.name != name]
    assert len(left) < len(steps), name
    return left


def swapped(steps: Sequence[Step], one: str, other: str) -> list[Step]:
    """Return the steps with two in each other's place: a planted mistake."""
    names = [step.name for step in steps]
    made = list(steps)
    made[names.index(one)], made[names.index(other)] = steps[names.index(other)], steps[names.index(one)]
    return made

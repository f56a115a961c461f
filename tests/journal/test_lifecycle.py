"""The lifecycle table, all 120 cells, typed here apart from the product (CONTRACT §5)."""

from __future__ import annotations

import itertools

import pytest

from journal.errors import AlreadyTerminal, IllegalTransition
from journal.events import EventType
from journal.lifecycle import KEY_DESTROYING, LEGAL, TERMINAL, Operation, State, next_state

# The contract's table as it stands there: operation, from, to. "-" is a subject that does not exist yet.
TABLE = """
capture          | -                                                                         | pending
accept           | pending                                                                   | accepted_current
reject           | pending                                                                   | rejected
withdraw         | pending                                                                   | withdrawn
dispute          | accepted_current                                                          | accepted_disputed
resolve_dispute  | accepted_disputed                                                         | accepted_current
supersede        | accepted_current accepted_disputed                                        | historical
mark_non_current | accepted_current accepted_disputed                                        | historical
rewind           | historical                                                                | accepted_current
expire           | accepted_current accepted_disputed historical                             | expired
trust_invalidate | accepted_current accepted_disputed historical                             | trust_invalid
tombstone        | accepted_current accepted_disputed historical expired trust_invalid       | tombstoned
"""
STATES = """
- pending rejected withdrawn accepted_current accepted_disputed historical expired trust_invalid tombstoned
""".split()
OPERATIONS = [line.split("|")[0].strip() for line in TABLE.strip().splitlines()]
LEGAL_CELLS = {
    (operation.strip(), from_state): to_state.strip()
    for operation, from_states, to_state in (line.split("|") for line in TABLE.strip().splitlines())
    for from_state in from_states.split()
}
ILLEGAL_CELLS = [cell for cell in itertools.product(OPERATIONS, STATES) if cell not in LEGAL_CELLS]


def _state(name: str) -> State:
    return State.ABSENT if name == "-" else State[name.upper()]


def test_the_table_is_whole():
    assert (len(OPERATIONS), len(STATES)) == (12, 10)
    assert (len(LEGAL_CELLS), len(ILLEGAL_CELLS)) == (22, 98)
    assert {operation.label for operation in Operation} == set(OPERATIONS)
    assert {state.label for state in State} == set(STATES) - {"-"} | {"absent"}
    assert len(LEGAL) == 22


@pytest.mark.parametrize(("operation", "from_state"), LEGAL_CELLS, ids="-".join)
def test_legal_cells(operation, from_state):
    expected = _state(LEGAL_CELLS[operation, from_state])
    assert next_state(Operation[operation.upper()], _state(from_state)) is expected


@pytest.mark.parametrize(("operation", "from_state"), ILLEGAL_CELLS, ids="-".join)
def test_illegal_cells(operation, from_state):
    terminal = from_state in ("rejected", "withdrawn", "tombstoned")
    with pytest.raises(AlreadyTerminal if terminal else IllegalTransition) as caught:
        next_state(Operation[operation.upper()], _state(from_state))
    assert caught.value.code == ("ALREADY_TERMINAL" if terminal else "ILLEGAL_TRANSITION")


def test_terminal_states_lead_nowhere():
    assert {state.label for state in TERMINAL} == {"rejected", "withdrawn", "tombstoned"}
    assert not [cell for cell in LEGAL if cell[1] in TERMINAL]


def test_a_key_dies_exactly_where_a_life_ends():
    assert {operation.label for operation in KEY_DESTROYING} == {"reject", "withdraw", "tombstone"}
    assert {LEGAL[cell] for cell in LEGAL if cell[0] in KEY_DESTROYING} == TERMINAL


def test_state_numbers_are_the_formats():
    # They stand in frames on people's disks: a number may be added, never changed.
    assert [(_state(name), number) for number, name in enumerate(STATES)] == [(state, int(state)) for state in State]


def test_operations_are_event_types_of_the_same_name_and_number():
    assert [(operation.name, int(operation)) for operation in Operation] == [
        (kind.name, int(kind)) for kind in EventType if kind < 32
    ]

"""Bounds of the contract, typed here apart from the product, and the relations that other code relies on."""

from __future__ import annotations

import ast
import inspect

import pytest

from journal import limits

CONTRACT = {
    # section 2
    "SAFE_INTEGER_MAX": 9_007_199_254_740_991,
    "CURSOR_MAX": 18_446_744_073_709_551_615,
    "REF_MAX_BYTES": 512,
    "ARGUMENTS_MAX_BYTES": 1_048_576,
    "IDEMPOTENCY_KEY_MIN_BYTES": 16,
    "IDEMPOTENCY_KEY_MAX_BYTES": 256,
    # section 3
    "QUERY_MAX_BYTES": 8_192,
    "SEARCH_LIMIT_MAX": 50,
    "SEARCH_LIMIT_DEFAULT": 10,
    "PACKET_MIN_BYTES": 4_096,
    "PACKET_MAX_BYTES": 1_048_576,
    "PACKET_DEFAULT_BYTES": 65_536,
    "COMPONENTS_MAX": 64,
    "COMPONENT_TEXT_MAX_BYTES": 65_536,
    "CITATIONS_MAX": 256,
    "FAMILY_REFS_MAX": 64,
    "ATTESTATION_MAX_BYTES": 4_096,
    # sections 1 and 8
    "PURPOSE_ENUM_MAX_BYTES": 256,
    "RECEIPT_TTL_SECONDS": 300,
    "CONFIRMATION_TTL_SECONDS": 300,
    "POLICY_AGE_MAX_SECONDS": 300,
    # what clients take
    "INSTRUCTIONS_MAX_BYTES": 2_000,
    "TOOLS_LIST_MAX_BYTES": 12_288,
    "TOOL_DESCRIPTION_MAX_BYTES": 1_000,
}


@pytest.mark.parametrize(("name", "value"), CONTRACT.items(), ids=list(CONTRACT))
def test_the_contracts_bounds(name, value):
    assert getattr(limits, name) == value


def test_bounds_are_positive_whole_numbers():
    names = [name for name in vars(limits) if name.isupper()]
    assert len(names) > len(CONTRACT)
    for name in names:
        value = getattr(limits, name)
        assert isinstance(value, int | float), name
        assert value > 0, name


def test_every_bound_is_final():
    tree = ast.parse(inspect.getsource(limits))
    loose = [node.lineno for node in tree.body if isinstance(node, ast.Assign)]
    assert loose == []
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            assert ast.unparse(node.annotation).startswith("Final"), node.lineno


def test_a_packet_has_room():
    assert limits.PACKET_MIN_BYTES < limits.PACKET_DEFAULT_BYTES < limits.PACKET_MAX_BYTES
    assert limits.SEARCH_LIMIT_DEFAULT < limits.SEARCH_LIMIT_MAX <= limits.WINDOW_RECORDS


def test_a_line_holds_the_longest_legal_call():
    # the arguments are bounded as received; around them stands a JSON-RPC frame with an id of the client's choice
    assert limits.LINE_MAX_BYTES >= limits.ARGUMENTS_MAX_BYTES + 64 * limits.KIB


def test_a_slot_is_never_torn():
    assert 512 % limits.SLOT_BYTES == 0  # the smallest sector that a disk writes whole


def test_a_waiting_call_answers_before_clients_give_up():
    assert limits.PROGRESS_INTERVAL_SECONDS < limits.CONFIRMATION_WAIT_SECONDS < 60


def test_a_confirmation_outlives_its_wait():
    assert limits.CONFIRMATION_WAIT_SECONDS < limits.CONFIRMATION_TTL_SECONDS

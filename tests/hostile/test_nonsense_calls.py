"""Nonsense against the real server and the service: each call answered as it must be, and nothing is written.

The long form is ``python -m tests.hostile.run_nonsense 20000``; what it saw stands in docs/hostile.md.
"""

from __future__ import annotations

import random

import pytest

from tests.hostile.expected import Book, Line, Right, WrongAnswerError, envelope_code
from tests.hostile.in_process import throw_in_process
from tests.hostile.legal_calls import legal_calls
from tests.hostile.nonsense_lines import Nonsense
from tests.hostile.run_nonsense import throw
from tests.hostile.served import ServedStore, Store
from tools.host.capabilities import CAPTURE, SEARCH

CALLS = 1_500


@pytest.fixture
def store(tmp_path):
    return Store.make(tmp_path)


@pytest.fixture
def server(store):
    served = store.serve()
    served.read().handshake()
    yield served
    served.kill()


def ended_well(server: ServedStore) -> None:
    assert server.process.poll() is None
    assert server.end() == 0
    assert server.impure == []
    assert b"Traceback" not in server.log


def test_nonsense_on_the_wire_is_answered_and_writes_nothing(store, server):
    before = store.head()
    book = throw(server, CALLS, seed=random.randrange(1 << 32))
    assert book.sent.total() == CALLS
    assert book.answered["INVALID_SCHEMA"] > CALLS / 4
    ended_well(server)
    assert store.head() == before


def test_nonsense_for_the_service_is_refused_and_writes_nothing(store):
    before = store.head()
    seen = throw_in_process(store, CALLS, seed=random.randrange(1 << 32))
    assert seen.total() == CALLS
    assert store.head() == before


def test_what_the_nonsense_is_made_of_is_legal(store, server):
    """Else all of it would be refused for one and the same reason."""
    for number, (tool, arguments) in enumerate(legal_calls().items()):
        answer = server.ask({"id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        envelope = answer["result"]["structuredContent"]
        right = {CAPTURE: "ok", SEARCH: "STALE_PAGE"}.get(tool, "NOT_FOUND")
        assert (tool, envelope_code(envelope)) == (tool, right)
    ended_well(server)


def test_one_seed_gives_one_sequence():
    first, second, other = (list(Nonsense(seed).lines(300)) for seed in (7, 7, 8))
    assert first == second
    assert first != other


ANSWER = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "not a JSON-RPC request"}}


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        (Line("lost", b"", Right.PROTOCOL, 1), []),
        (Line("twice", b"", Right.PROTOCOL, 1), [ANSWER, ANSWER]),
        (Line("another's", b"", Right.PROTOCOL, 1), [ANSWER, ANSWER | {"id": 2}]),
        (Line("silence broken", b"", Right.SILENCE), [ANSWER | {"id": None}]),
        (Line("nameless lost", b"", Right.NAMELESS), []),
        (Line("another code", b"", Right.PROTOCOL, 1, frozenset({-32602})), [ANSWER]),
        (Line("no envelope", b"", Right.INVALID_SCHEMA, 1), [ANSWER]),
        (Line("told too much", b"", Right.PROTOCOL, 1),
         [ANSWER | {"error": {"code": -32600, "message": "KeyError('x')"}}]),
    ],
)  # fmt: skip
def test_the_book_finds_what_is_wrong(line, answers):
    with pytest.raises((WrongAnswerError, AssertionError)):
        Book().settle([line], answers)


@pytest.mark.parametrize(
    "cut", [b"", b'{"jsonrpc":"2.0","id":1', b'{"jsonrpc":"2.0","method":"ping","id":1}', b"\xff\xfe"]
)
def test_a_pipe_that_closes_in_a_line_ends_the_server_in_order(store, server, cut):
    before = store.head()
    server.send_raw(cut)
    ended_well_code = server.end()
    assert ended_well_code == 0
    assert server.impure == []
    assert store.head() == before


def test_a_reader_that_goes_away_ends_the_server_in_order(store):
    """The client closes its end of stdout and keeps sending."""
    before = store.head()
    served = store.serve()
    try:
        served.stdout.close()
        try:
            for number in range(10_000):
                served.send({"id": number, "method": "ping"})
        except BrokenPipeError:
            pass
        assert served.process.wait(timeout=30) == 0
        assert b"Traceback" not in served.log
    finally:
        served.kill()
    assert store.head() == before

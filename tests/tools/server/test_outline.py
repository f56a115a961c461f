"""The outline of a line that cannot be parsed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.limits import REQUEST_ID_MAX_BYTES
from tools.server.outline import Outline


def outline_of(line: bytes, chunk_bytes: int = 1 << 30) -> Outline:
    outline = Outline()
    for at in range(0, len(line), chunk_bytes):
        outline.feed(line[at : at + chunk_bytes])
    return outline


def told(outline: Outline) -> tuple[object, ...]:
    return (
        outline.request_id,
        outline.method,
        outline.tool,
        outline.arguments_bytes,
        outline.closed,
        outline.trailing,
        [outline.holds(member) for member in ("id", "method", "params", "result", "error")],
    )


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"id":1}', 1),
        (b'{"id" : "a\\"b" , "x":1}', 'a"b'),
        (b'{"\\u0069d":7}', 7),
        (b'{"params":{"id":5},"id":6}', 6),
        (b'{"params":[[{"id":5}]],"id":6}', 6),
        (b'{"id":1.0}', 1),
        (b'{"id":1', None),  # it might go on
        (b'{"id":1 ', 1),
        (b'{"id":1,garbage', 1),
        (b'{"id":1}{"id":2}', 1),
        (b'{"id":1,"id":1}', None),
        (b'{"id":null}', None),
        (b'{"id":true}', None),
        (b'{"id":1.5}', None),
        (b'{"id":-0}', None),
        (b'{"id":9007199254740992}', None),
        (b'{"id":{"id":1}}', None),
        (b'{"id":[1]}', None),
        (b'{"id":"\\ud800"}', None),
        (b'{"id":"\xff"}', None),
        (b'[{"id":1}]', None),
        (b'x{"id":1}', None),
        (b'"id":1', None),
        (b"", None),
        (b'{"id"1}', None),
        (b'{"a","id":1}', None),
        (b'{"params.id":3,"params":{"id":4}}', None),
        (b'{"id":"' + b"a" * REQUEST_ID_MAX_BYTES + b'"}', "a" * REQUEST_ID_MAX_BYTES),
        (b'{"id":"' + b"a" * (REQUEST_ID_MAX_BYTES + 1) + b'"}', None),
        (b'{"id":"' + b"a" * 1_000_000 + b'"}', None),
        (b'{"id":' + b"1" * 1_000_000 + b"}", None),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b',"id":9}', 9),
        (b'{"a":' + b'[{"b":"]}"' * 1000 + b"}]" * 1000 + b',"id":9}', 9),
        (b'{"a":"' + b'\\"' * 100_000 + b'","id":9}', 9),
        (b'{"a":"' + b"\\\\" * 100_000 + b'","id":9}', 9),
        (b'{"a":[],"b":{},"c":[{}],"d":[[],[]],"id":9}', 9),
    ],
)
def test_the_id_is_read_where_it_can_be_read(line, request_id):
    for chunk_bytes in {len(line) or 1, 1, 7} if len(line) < 10_000 else {len(line), 4096}:
        outline = outline_of(line, chunk_bytes)

        assert outline.request_id == request_id
        assert type(outline.request_id) is type(request_id)


def test_the_tool_of_a_call():
    line = b'{"params":{"x":{"name":"no"},"name":"yes","arguments":{"name":"no"}},"method":"tools/call","name":"no"}'

    outline = outline_of(line)

    assert (outline.method, outline.tool) == ("tools/call", "yes")


@pytest.mark.parametrize(
    "line",
    [
        b'{"params":{"name":"a","name":"a"}}',
        b'{"params":{"name":"a"},"params":{}}',
        b'{"params":{"name":["a"]}}',
        b'{"params":[{"name":"a"}]}',
        b'{"other":{"name":"a"}}',
    ],
)
def test_no_tool_is_believed(line):
    assert outline_of(line).tool is None


@pytest.mark.parametrize("arguments", [b"{}", b'{"a":"}"}', b"[ 1 ]", b'{"a":{"b":[]} }'])
def test_the_arguments_are_measured_as_received(arguments):
    line = b'{"params": {"arguments" :  ' + arguments + b'  ,"name":"a"}, "arguments":{"not":"these"}}'

    for chunk_bytes in range(1, len(line) + 1):
        assert outline_of(line, chunk_bytes).arguments_bytes == len(arguments)


@pytest.mark.parametrize(
    ("line", "closed", "trailing"),
    [
        (b'{"a":1} \r', True, False),
        (b'{"a":1} x', True, True),
        (b'{"a":1}{', True, True),
        (b'{"a":1', False, False),
        (b"x", False, False),
    ],
)
def test_whether_the_object_is_all_there_is(line, closed, trailing):
    outline = outline_of(line)

    assert (outline.closed, outline.trailing) == (closed, trailing)


messages = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers(0, 10**6) | st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
        "method": st.sampled_from(["tools/call", "ping"]),
        "params": st.fixed_dictionaries(
            {}, optional={"name": st.text(max_size=5), "arguments": st.recursive(st.text(), st.lists, max_leaves=5)}
        ),
        "other": st.recursive(st.text() | st.integers(), st.lists, max_leaves=9),
    },
)


@given(messages.flatmap(lambda message: st.permutations(list(message.items()))), st.data())
def test_an_outline_tells_what_a_parser_tells_in_any_chunks(members, data):
    message = dict(members)
    line = json.dumps(message, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")

    outline = outline_of(line, data.draw(st.integers(1, 40)))

    assert told(outline) == told(outline_of(line))
    assert outline.request_id == message.get("id")
    assert outline.method == message.get("method")
    assert outline.closed
    assert not outline.trailing


@given(st.lists(st.sampled_from([*'{}[]",:\\ 1a', '"id"', '"params"', '"name"'])), st.integers(1, 5))
def test_chunks_never_matter(pieces, chunk_bytes):
    line = "".join(pieces).encode()

    assert told(outline_of(line, chunk_bytes)) == told(outline_of(line))

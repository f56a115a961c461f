"""RFC 8785: the published vectors, and the two encoders held equal."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from journal.canonical import canonical_bytes, canonical_json
from journal.limits import SAFE_INTEGER_MAX

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "rfc8785.json").read_text(encoding="utf-8"))

ASCII_KEYS = st.text(st.characters(max_codepoint=127), max_size=8)
SAFE_INTEGERS = st.integers(-SAFE_INTEGER_MAX, SAFE_INTEGER_MAX)
VALUES = st.recursive(
    st.none() | st.booleans() | SAFE_INTEGERS | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(ASCII_KEYS, inner, max_size=5),
    max_leaves=30,
)
JSON = st.recursive(
    st.none() | st.booleans() | SAFE_INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)


def _double(bits: str) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    return value


@pytest.mark.parametrize("vector", [v for v in VECTORS["numbers"] if v["json"] is not None], ids=lambda v: v["ieee754"])
def test_numbers_of_appendix_b(vector):
    assert canonical_json(_double(vector["ieee754"])) == vector["json"].encode()


@pytest.mark.parametrize("vector", [v for v in VECTORS["numbers"] if v["json"] is None], ids=lambda v: v["ieee754"])
def test_numbers_of_appendix_b_without_a_form(vector):
    with pytest.raises(ValueError, match="not representable"):
        canonical_json(_double(vector["ieee754"]))


def test_appendix_b_is_whole():
    assert len(VECTORS["numbers"]) == 26
    assert sum(vector["json"] is None for vector in VECTORS["numbers"]) == 2


@pytest.mark.parametrize("vector", VECTORS["documents"], ids=lambda v: v["name"])
def test_published_documents(vector):
    assert canonical_json(json.loads(vector["input"])).hex() == vector["utf8_hex"]


def test_astral_keys_sort_by_code_unit_not_by_code_point():
    # U+FFFF is the unit 0xFFFF; U+1F600 begins with the unit 0xD83D and so comes first, with a greater code point
    value = {"\uffff": 1, "\U0001f600": 2, "\ud7ff": 3}
    assert list(json.loads(canonical_json(value))) == ["\ud7ff", "\U0001f600", "\uffff"]


def test_every_control_character_in_its_shortest_escape():
    text = "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028'
    short = {8: r"\b", 9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r"}
    expected = '"' + "".join(short.get(code, f"\\u{code:04x}") for code in range(0x20)) + '\\"\\\\/\x7f\u2028"'
    assert canonical_bytes(text) == expected.encode()
    assert canonical_json(text) == expected.encode()


@given(VALUES)
@example({"a": {"B": [], "b": {}, "": None}, "A": [True, -1, "\x00\x1f\x7f\x80\ue000\U00010000"]})
@example(SAFE_INTEGER_MAX)
@example(-SAFE_INTEGER_MAX)
def test_two_encoders_one_form(value):
    assert canonical_bytes(value) == canonical_json(value)


@given(JSON)
def test_canonical_form_is_a_fixed_point(value):
    once = canonical_json(value)
    # a JSON parser of ECMAScript reads every number as a double
    assert canonical_json(json.loads(once, parse_int=float)) == once


@given(st.dictionaries(ASCII_KEYS, SAFE_INTEGERS, min_size=2), st.randoms())
def test_order_of_insertion_never_shows(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert canonical_bytes(dict(items)) == canonical_bytes(value)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        SAFE_INTEGER_MAX + 1,
        -SAFE_INTEGER_MAX - 1,
        "\ud800",
        "a\udfffb",
        {"\ud800": 1},
        {"deep": [{"x": math.nan}]},
        {1: "a key that is no string"},
        b"bytes",
    ],
    ids=repr,
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are the library's
        canonical_json(value)


@pytest.mark.parametrize("value", ["\ud800", {"\udc00": 1}], ids=repr)
def test_the_fast_encoder_refuses_unpaired_surrogates(value):
    with pytest.raises(UnicodeEncodeError):
        canonical_bytes(value)

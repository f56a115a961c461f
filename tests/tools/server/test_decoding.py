"""JSON with exactly one meaning."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.limits import JSON_DEPTH_MAX, JSON_DIGITS_MAX, JSON_KEY_MAX_CHARACTERS, SAFE_INTEGER_MAX
from tools.server.decoding import Flaw, Reason, decode


def flaw_of(text: bytes) -> Reason:
    with pytest.raises(Flaw) as caught:
        decode(text)
    return caught.value.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'"\xff"', Reason.NOT_UTF8),
        (b'"\xed\xa0\x80"', Reason.NOT_UTF8),  # a surrogate written as if it were a character
        (b'"\xc0\x80"', Reason.NOT_UTF8),  # an overlong NUL
        (b"", Reason.NOT_JSON),
        (b"{", Reason.NOT_JSON),
        (b'{"a":1,}', Reason.NOT_JSON),
        (b"{'a':1}", Reason.NOT_JSON),
        (b'{"a":1} {"a":1}', Reason.NOT_JSON),
        (b"\xef\xbb\xbf{}", Reason.NOT_JSON),
        (b'"a\nb"', Reason.NOT_JSON),
        (b"01", Reason.NOT_JSON),
        (b"+1", Reason.NOT_JSON),
        (b"NaN", Reason.NOT_A_NUMBER),
        (b'{"a":[-Infinity]}', Reason.NOT_A_NUMBER),
        (b"1e400", Reason.INFINITE),
        (b'{"a":1,"a":1}', Reason.DUPLICATE_KEY),
        (b'[{"b":{"a":1,"c":2,"a":3}}]', Reason.DUPLICATE_KEY),
        (b'{"a":1,"\\u0061":2}', Reason.DUPLICATE_KEY),
        ('{"\u00e9":1,"e\u0301":2}'.encode(), Reason.DUPLICATE_KEY),
        (b'{"\\u00e9":1,"e\\u0301":2}', Reason.DUPLICATE_KEY),
        ('{"\uac00":1,"\u1100\u1161":2}'.encode(), Reason.DUPLICATE_KEY),
        (b'"\\ud800"', Reason.SURROGATE),
        (b'{"\\udc00":1}', Reason.SURROGATE),
        (b'["\\ude00\\ud83d"]', Reason.SURROGATE),  # a pair in the wrong order
        (b"-0", Reason.NEGATIVE_ZERO),
        (b'{"a":-0.0}', Reason.NEGATIVE_ZERO),
        (b"-0e5", Reason.NEGATIVE_ZERO),
        (b"9007199254740992", Reason.UNSAFE_INTEGER),
        (b"-9007199254740992", Reason.UNSAFE_INTEGER),
        (b"9007199254740992.0", Reason.UNSAFE_INTEGER),
        (b"1e21", Reason.UNSAFE_INTEGER),
        (b"1" * (JSON_DIGITS_MAX + 1), Reason.DIGITS),
        (b"1" * 4_301, Reason.DIGITS),
        (b"0." + b"1" * JSON_DIGITS_MAX, Reason.DIGITS),
        (b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1), Reason.DEPTH),
        (b'{"a":' * (JSON_DEPTH_MAX + 1) + b"1" + b"}" * (JSON_DEPTH_MAX + 1), Reason.DEPTH),
        (b"[" * 1_000_000, Reason.DEPTH),
        (f'{{"{"한" * (JSON_KEY_MAX_CHARACTERS + 1)}":1}}'.encode(), Reason.LONG_KEY),
    ],
)
def test_what_has_more_than_one_reading_is_refused(text, reason):
    assert flaw_of(text) is reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1.0", 1),
        (b"1e3", 1000),
        (b"-25.0e-1", -2.5),
        (b"9007199254740991", SAFE_INTEGER_MAX),
        (b"-9007199254740991.0", -SAFE_INTEGER_MAX),
        (b"0", 0),
        (b"0.0", 0),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\\\ud800"', "\\ud800"),  # a backslash, and letters behind it
        (b'{"a":{"a":1}}', {"a": {"a": 1}}),
        ('{"한글":"e\u0301\u00e9"}'.encode(), {"한글": "e\u0301\u00e9"}),
        (b'["[[[[", "{\\"", []]', ["[[[[", '{"', []]),
        (b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX, json.loads("[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX)),
        (b"[" + b"[]," * 100 + b"[]]", [[]] * 101),
        (f'{{"{"k" * 1000}":1}}'.encode(), {"k" * 1000: 1}),
        (b"1" * 16, 1111111111111111),
    ],
)
def test_what_has_one_reading_is_read(text, value):
    decoded = decode(text)

    assert decoded == value
    assert type(decoded) is type(value)


def test_brackets_in_strings_are_not_depth():
    assert decode(b'["' + b"[" * 1000 + b'", "\\"' + b"{" * 1000 + b'"]') == ["[" * 1000, '"' + "{" * 1000]


def test_a_flaw_tells_nothing_of_the_text():
    with pytest.raises(Flaw) as caught:
        decode(b'{"secret":1,"secret":2}')

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE_INTEGER_MAX, SAFE_INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="ascii")), inner),
    max_leaves=30,
)


@given(json_values, st.booleans())
def test_every_clean_value_comes_back(value, ensure_ascii):
    decoded = decode(json.dumps(value, ensure_ascii=ensure_ascii).encode())

    assert decoded == value


@given(st.binary() | st.text(st.sampled_from('{}[]",:\\u0d8-.eNaIfinty \u00e9한')).map(str.encode))
def test_anything_else_is_a_value_or_a_flaw(text):
    try:
        value = decode(text)
    except Flaw:
        return
    assert not isinstance(value, float) or math.isfinite(value)
    json.dumps(value, ensure_ascii=False).encode()

"""JSON without loopholes: one text has one meaning, or it is refused.

The standard library's scanner does the work; the hooks refuse what readers of JSON disagree about: duplicate keys
(also keys that NFC makes equal), NaN and infinities, -0, integers that a double cannot hold, unpaired surrogates, and
whatever is too deep or too long to be meant.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from enum import Enum
from itertools import accumulate
from typing import Any, Final

from journal.limits import JSON_DEPTH_MAX, JSON_DIGITS_MAX, JSON_KEY_MAX_CHARACTERS, SAFE_INTEGER_MAX


class Reason(Enum):
    """Why a text is refused. The value is what the log says."""

    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    NOT_A_NUMBER = "NaN or Infinity"
    INFINITE = "a number beyond a double"
    DUPLICATE_KEY = "a key stands twice"
    LONG_KEY = "a key is too long"
    SURROGATE = "an unpaired surrogate"
    NEGATIVE_ZERO = "a negative zero"
    UNSAFE_INTEGER = "an unsafe integer"
    DIGITS = "too many digits"
    DEPTH = "too deep"
    LENGTH = "too long"
    NOT_A_REQUEST = "not a JSON-RPC request"
    ARGUMENTS = "arguments too long or not an object"


class Flaw(Exception):  # not an error of ours: a finding about somebody else's text
    """The text is refused; ``reason`` says why, and nothing of the text is in it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def _integer(token: str) -> int:
    if len(token) > JSON_DIGITS_MAX:
        raise Flaw(Reason.DIGITS)
    value = int(token)
    if not -SAFE_INTEGER_MAX <= value <= SAFE_INTEGER_MAX:
        raise Flaw(Reason.UNSAFE_INTEGER)
    if value == 0 and token[0] == "-":
        raise Flaw(Reason.NEGATIVE_ZERO)
    return value


def _number(token: str) -> int | float:
    """Return an integral value as an integer, for 1.0 and 1 are one number; any other as a float."""
    if len(token) > JSON_DIGITS_MAX:
        raise Flaw(Reason.DIGITS)
    value = float(token)
    if math.isinf(value):
        raise Flaw(Reason.INFINITE)
    if not value.is_integer():
        return value
    if abs(value) > SAFE_INTEGER_MAX:
        raise Flaw(Reason.UNSAFE_INTEGER)
    if value == 0 and token[0] == "-":
        raise Flaw(Reason.NEGATIVE_ZERO)
    return int(value)


def _constant(_token: str) -> float:
    raise Flaw(Reason.NOT_A_NUMBER)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Flaw(Reason.DUPLICATE_KEY)
    return members


def _object_any_script(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = _object(pairs)
    if not all(map(str.isascii, members)):
        # The length first: putting a long run of combining marks into order takes the square of its length.
        if any(len(key) > JSON_KEY_MAX_CHARACTERS for key in members if not key.isascii()):
            raise Flaw(Reason.LONG_KEY)
        if len({unicodedata.normalize("NFC", key) for key in members}) != len(members):
            raise Flaw(Reason.DUPLICATE_KEY)
    return members


_ASCII: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)
_ANY_SCRIPT: Final = json.JSONDecoder(
    object_pairs_hook=_object_any_script, parse_int=_integer, parse_float=_number, parse_constant=_constant
)

_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.?+)*+"?+', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _is_deep(text: bytes) -> bool:
    if text.count(b"{") + text.count(b"[") <= JSON_DEPTH_MAX:
        return False
    brackets = _STRINGS.sub(b"", text).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > JSON_DEPTH_MAX


def decode(text: bytes) -> Any:
    """Return the value that a JSON text spells; integral numbers come as integers.

    Linear in the text, and it never recurses deeper than ``JSON_DEPTH_MAX``.

    Raises:
        Flaw: the text is no JSON, or more than one reading of it is possible.
    """
    if _is_deep(text):
        raise Flaw(Reason.DEPTH)
    try:
        characters = text.decode()
    except UnicodeDecodeError:
        raise Flaw(Reason.NOT_UTF8) from None
    escaped = b"\\u" in text
    decoder = _ANY_SCRIPT if escaped or not text.isascii() else _ASCII
    try:
        value = decoder.decode(characters)
    except ValueError:
        raise Flaw(Reason.NOT_JSON) from None
    if escaped and _SURROGATE_ESCAPE.search(text) and _holds_surrogate(value):
        raise Flaw(Reason.SURROGATE)
    return value


def _holds_surrogate(value: Any) -> bool:
    """Tell whether a string anywhere in the value cannot be written as UTF-8: escaped pairs are joined by now."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False

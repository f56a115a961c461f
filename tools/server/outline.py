"""What can be told of a line of JSON-RPC without parsing it: its id, its method, its tool.

A line that is too long to keep, too deep to parse or not quite JSON still deserves an answer under its own id. The
outline is taken by a scanner that knows strings and brackets, and nothing else of JSON. It works in chunks, keeps a
few counters and one short capture, never recurses, and takes time linear in the line, whatever the line holds.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from journal.limits import REQUEST_ID_MAX_BYTES
from tools.server.decoding import Flaw, decode

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_WORD: Final = re.compile(rb'[^ \t\r\n"\[\]{}:,]*+')
_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
# What counts below the level that is read: a whole string, a string that the chunk cuts off (behind its backslash,
# maybe), a run of opening brackets, a run of closing ones.
_BELOW: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|(\\?\Z))|([\[{]++)|([\]}]++)', re.DOTALL)
_CUT: Final = 1
_OPENING: Final = 2
_CLOSING: Final = 3

_CAPTURE_MAX_BYTES: Final = 6 * REQUEST_ID_MAX_BYTES + 2  # every character written as \uXXXX, and the quotes

# The level whose members are read: before and behind the object, in it, in its params.
_OUTSIDE: Final = 0
_TOP: Final = 1
_PARAMS: Final = 2

_TOOL: Final = (_PARAMS, "name")
_ARGUMENTS: Final = (_PARAMS, "arguments")
_TOLD_OF: Final = frozenset({(_TOP, name) for name in ("id", "method", "params", "result", "error")} | {_TOOL})


class _Expected(Enum):
    MEMBER = 0
    COLON = 1
    VALUE = 2
    COMMA = 3


def _end(pattern: re.Pattern[bytes], chunk: bytes, at: int) -> int:
    """Return where a pattern that can match nothing stops matching."""
    match = pattern.match(chunk, at)
    return match.end() if match else at


class Outline:
    """The top level of one JSON object, and within its ``params`` the members ``name`` and ``arguments``.

    Feed it the line in any chunks. A member counts only where it stands once: of two ids none can be believed.
    """

    def __init__(self) -> None:
        self.closed = False  # the object ended
        self.trailing = False  # and something other than white space stands behind it
        self.arguments_bytes = 0  # the length of the arguments as received, where they are an object or an array
        # Raw values by level and name; None is a container, or a value too long to keep.
        self._members: dict[tuple[int, str], list[bytes | None]] = {}
        self._offset = 0  # bytes of the line before the present chunk
        self._depth = 0
        self._level = _OUTSIDE
        self._lost = False  # neither JSON nor like it: nothing further is believed
        self._expected = _Expected.MEMBER
        self._member = (_OUTSIDE, "")  # being read: its level and name
        self._in_string = False
        self._escaped = False  # the last chunk ended in a backslash
        self._capture: bytearray | None = None
        self._value_start = 0

    @property
    def request_id(self) -> int | str | None:
        """The id, if it stands once and is a string or an integer that can be answered."""
        value = self._scalar((_TOP, "id"))
        if isinstance(value, str):
            return value if len(value.encode()) <= REQUEST_ID_MAX_BYTES else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def method(self) -> str | None:
        """The method, if it stands once and is a string."""
        value = self._scalar((_TOP, "method"))
        return value if isinstance(value, str) else None

    @property
    def tool(self) -> str | None:
        """The tool that a call names, if it stands once and is a string."""
        value = self._scalar(_TOOL) if len(self._members.get((_TOP, "params"), ())) == 1 else None
        return value if isinstance(value, str) else None

    def holds(self, member: str) -> bool:
        """Tell whether the object has such a top-level member, readable or not."""
        return (_TOP, member) in self._members

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk of the line."""
        at = 0
        while at < len(chunk) and not self._lost:
            if self._in_string:
                at = self._string(chunk, at)
            elif self._depth > self._level:
                at = self._deeper(chunk, at)
            else:
                at = self._members_level(chunk, at)
        self._offset += len(chunk)

    def _string(self, chunk: bytes, at: int) -> int:
        start = at
        if self._escaped:
            self._escaped = False
            at += 1
        at = _end(_IN_STRING, chunk, at)
        if at < len(chunk):
            self._in_string = chunk[at] != ord('"')
            self._escaped = self._in_string  # a backslash, and the chunk ends
            at += 1
        self._keep(chunk[start:at])
        if not self._in_string and self._depth == self._level:
            self._token_ended()
        return at

    def _deeper(self, chunk: bytes, at: int) -> int:
        """Pass over what lies below the level that is read."""
        depth = self._depth
        for token in _BELOW.finditer(chunk, at):
            if token.lastindex == _OPENING:
                depth += token.end() - token.start()
            elif token.lastindex == _CLOSING:
                closed = min(token.end() - token.start(), depth - self._level)
                depth -= closed
                if depth == self._level:
                    self._depth = depth
                    self._container_ended(self._offset + token.start() + closed)
                    return token.start() + closed
            elif token.lastindex == _CUT:
                self._in_string = True
                self._escaped = token.end(_CUT) > token.start(_CUT)
        self._depth = depth
        return len(chunk)

    def _container_ended(self, position: int) -> None:
        self._expected = _Expected.COMMA
        if self._member == _ARGUMENTS:
            self.arguments_bytes = max(self.arguments_bytes, position - self._value_start)

    def _members_level(self, chunk: bytes, at: int) -> int:
        """Read on at the level whose members matter."""
        if self._capture is not None:
            return self._word(chunk, at)
        at = _end(_SPACE, chunk, at)
        if at == len(chunk):
            return at
        byte = chunk[at : at + 1]
        if self._level == _OUTSIDE and (byte != b"{" or self.closed):
            self.trailing = self.closed
            self._lost = True
        elif byte == b'"':
            self._expect(_Expected.MEMBER, _Expected.VALUE)
            self._in_string = True
            self._capture = bytearray(byte)
        elif byte in b"{[":
            self._open(byte, self._offset + at)
        elif byte in b"}]":
            self._close()
        elif byte == b":":
            self._expect(_Expected.COLON)
            self._expected = _Expected.VALUE
        elif byte == b",":
            self._expect(_Expected.COMMA)
            self._expected = _Expected.MEMBER
        else:
            self._expect(_Expected.VALUE)
            self._capture = bytearray()
            return at
        return at + 1

    def _word(self, chunk: bytes, at: int) -> int:
        """Read a number or a word; it has ended only when something else follows."""
        end = _end(_WORD, chunk, at)
        self._keep(chunk[at:end])
        if end < len(chunk):
            self._token_ended()
        return end

    def _expect(self, *expected: _Expected) -> None:
        self._lost = self._expected not in expected

    def _open(self, byte: bytes, position: int) -> None:
        if self._level == _OUTSIDE:
            self._level = self._depth = _TOP
            return
        self._expect(_Expected.VALUE)
        self._record(None)
        self._value_start = position
        self._depth += 1
        if self._member == (_TOP, "params") and byte == b"{":
            self._level = _PARAMS
            self._expected = _Expected.MEMBER

    def _close(self) -> None:
        self._depth -= 1
        self._level -= 1
        self._expected = _Expected.COMMA
        self.closed = self._level == _OUTSIDE

    def _keep(self, piece: bytes) -> None:
        if self._capture is not None and len(self._capture) <= _CAPTURE_MAX_BYTES:
            self._capture += piece[: _CAPTURE_MAX_BYTES + 1]

    def _token_ended(self) -> None:
        raw = bytes(self._capture or b"")
        self._capture = None
        kept = raw if len(raw) <= _CAPTURE_MAX_BYTES else None
        if self._expected is _Expected.MEMBER:
            name = _decoded(kept)
            self._member = (self._level, name if isinstance(name, str) else "")
            self._expected = _Expected.COLON
        else:
            self._record(kept)
            self._expected = _Expected.COMMA

    def _record(self, raw: bytes | None) -> None:
        """Note a value of a member that the outline tells of; a second one makes the member unreadable."""
        if self._member in _TOLD_OF:
            values = self._members.setdefault(self._member, [])
            values[1:] = [raw]  # two are as unreadable as a thousand

    def _scalar(self, member: tuple[int, str]) -> object:
        values = self._members.get(member, ())
        return _decoded(values[0]) if len(values) == 1 else None


def _decoded(raw: bytes | None) -> object:
    """Return the string or number that a token spells, else None."""
    try:
        return None if raw is None else decode(raw)
    except Flaw:
        return None

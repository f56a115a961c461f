"""Lines of nonsense with the right answer to each. One seed gives one sequence."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.hostile.expected import Line, Right
from tests.hostile.legal_calls import NO_CANDIDATE, NO_RECORD, legal_calls
from tests.hostile.nonsense_arguments import bad_arguments
from tests.tools.memory.world import PURPOSE
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH, WITHDRAW

FIRST_ID = 700_000_000_000  # an id that was cut short cannot be another line's
MIB = 1 << 20
LINE_MAX = 4 * MIB
INVALID_REQUEST = frozenset({-32600})
UNKNOWN_METHOD = frozenset({-32601})
INVALID_PARAMS = frozenset({-32602})
UNTRUSTED = frozenset({-32603})

# What stands for a value and makes the whole line one that has no single meaning.
BROKEN_VALUES = [
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"-0", b"-0.0", b"-0e5", b"9007199254740993",
    b"-9007199254740992", b"1" * 4_301, b"-" + b"9" * 4_301, b"0." + b"1" * 4_301, b"1e" + b"9" * 4_301, b"01", b"+1",
    b".5",
    b"1.", b"0x10", b"'a'", b"True", b"undefined", b"[1,]", b'{"a":1,}', b"[,1]", b'{"a"}', b"{1:2}",
    b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xed\xa0\x80"', b'"\xff"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"', b'"\\x41"',
    b'"a\x00b"', b'"a\tb"', b'{"a":1,"a":1}', '{"é":1,"e\u0301":2}'.encode(), b'{"\\u0061":1,"a":2}',
    b"[" * 70 + b"]" * 70, b'{"a":' * 70 + b"1" + b"}" * 70, b"[" * 100_000 + b"]" * 100_000, b"1/*x*/", b"1//",
]  # fmt: skip
NO_OBJECTS = [b"[]", b'["a"]', b'"text"', b"5", b"true", b"null", b"1.5", b"[{}]"]
ODD_TEXTS = [
    "\u202eevil\u202c", "a\u200bb\u200cc\u200dd\ufeff", "\u0001\u0002\u007f", "שלום \u200f עולם", "مرحبا", "\U000e0041",
    "\u0000", "e\u0301" * 50, "가\u1100\u1161", "\uffff\ufffe", "\u2028\u2029", "a" + "\u0301" * 500, "\r", "'; DROP--",
]  # fmt: skip
UNREADABLE_IDS = [b"null", b"true", b"false", b"1.5", b"[]", b"{}", b"[1]", b'{"a":1}', b'"' + b"x" * 1_025 + b'"']
NOISE_SAMPLES = [
    b"hello", b"GET / HTTP/1.1", b"Content-Length: 12", b"\x00", b"\xff\xfe{\x00}\x00", b"{", b"}", b"]", b"[", b'"',
    b"\\",
    b"\x1b[31m", b"null", b"true", b"5", b'"text"', b"{}", b"[]", b"[[]]", b"[1,2]", b"NaN", b"-0", b"{]", b"[}",
    "\u202e{}".encode(), b'{"jsonrpc":"2.0"}', b'{"a":1}',
]  # fmt: skip


class Nonsense:
    """Makes lines; ``kinds`` says how often each kind comes, against the others."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._number = FIRST_ID
        self._makers: list[Callable[[], Line]] = []
        for maker, weight in (
            (self._bad_arguments, 40), (self._broken_value, 20), (self._no_object, 4), (self._repeated_member, 4),
            (self._unknown, 6), (self._malformed_request, 8), (self._params, 6), (self._odd_id, 6), (self._named_id, 3),
            (self._batch, 4), (self._silent, 10), (self._answer_to_nothing, 3), (self._noise, 6), (self._bytes, 4),
            (self._half, 8), (self._blank, 2), (self._crlf, 3), (self._odd_text, 8), (self._unbound, 3), (self._large,
            1),
        ):  # fmt: skip
            self._makers += [maker] * weight

    def lines(self, count: int) -> Iterator[Line]:
        for position in range(count):
            if position % 2_000 == 1_999:
                yield self._over_long()
            else:
                yield self._chance.choice(self._makers)()

    # --- writing ---------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _json(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=self._chance.random() < 0.5).encode()

    def _call(self, tool: str, arguments: bytes, request_id: int, meta: bytes = b"") -> bytes:
        """Write a call, its id before or behind the rest."""
        params = b'{"name":"' + tool.encode() + b'","arguments":' + arguments + meta + b"}"
        identity = b'"id":%d' % request_id
        rest = b'"jsonrpc":"2.0","method":"tools/call"'
        if self._chance.random() < 0.5:
            return b"{" + identity + b"," + rest + b',"params":' + params + b"}"
        return b"{" + rest + b"," + identity + b',"params":' + params + b"}"

    def _request(self, named: Any, request_id: int, **more: Any) -> bytes:
        return self._json({"jsonrpc": "2.0", "id": request_id, "method": named} | more)

    def _any_tool(self) -> tuple[str, dict[str, Any]]:
        return self._chance.choice(list(legal_calls().items()))

    # --- calls of tools --------------------------------------------------------------------------

    def _bad_arguments(self) -> Line:
        kind, tool, arguments = bad_arguments(self._chance)
        number = self._next()
        return Line(kind, self._call(tool, self._json(arguments), number) + b"\n", Right.INVALID_SCHEMA, number)

    def _broken_value(self) -> Line:
        tool, arguments = self._any_tool()
        broken = self._chance.choice(BROKEN_VALUES)
        name = self._chance.choice([*arguments, "extra"])
        text = self._json({**arguments, name: "@@broken@@"}).replace(b'"@@broken@@"', broken)
        number = self._next()
        return Line("a value without one meaning", self._call(tool, text, number) + b"\n", Right.INVALID_SCHEMA, number)

    def _no_object(self) -> Line:
        tool, _ = self._any_tool()
        number = self._next()
        text = self._chance.choice(NO_OBJECTS)
        return Line("arguments no object", self._call(tool, text, number) + b"\n", Right.INVALID_SCHEMA, number)

    def _repeated_member(self) -> Line:
        tool, arguments = self._any_tool()
        name = self._chance.choice(list(arguments))
        text = self._json(arguments)[:-1] + b"," + self._json({name: arguments[name]})[1:]
        number = self._next()
        return Line("a duplicate key", self._call(tool, text, number) + b"\n", Right.INVALID_SCHEMA, number)

    def _large(self) -> Line:
        """Just under, at and just over the bound, in white space or in a text."""
        number, size = self._next(), MIB + self._chance.choice([-1, 0, 1])
        if self._chance.random() < 0.5:
            text = self._json({"record_id": NO_RECORD, "purpose_ref": PURPOSE})
            text = text[:-1] + b" " * (size - len(text)) + b"}"
            right = Right.INVALID_SCHEMA if size > MIB else Right.OTHER_CODE
            return Line(f"{size:,} bytes of white space", self._call(GET, text, number) + b"\n", right, number)
        frame = len(self._json({"query": "", "purpose_ref": PURPOSE}))
        text = self._json({"query": "x" * (size - frame), "purpose_ref": PURPOSE})
        return Line(f"{size:,} bytes of text", self._call(SEARCH, text, number) + b"\n", Right.INVALID_SCHEMA, number)

    def _over_long(self) -> Line:
        number = self._next()
        filler = self._chance.choice([b"x", b"\\\\", b"\xea\xb0\x80", b"[", b'\\"'])
        text = b'{"query":"' + filler * ((LINE_MAX + 100) // len(filler)) + b'"}'
        return Line("a line over the bound", self._call(SEARCH, text, number) + b"\n", Right.INVALID_SCHEMA, number)

    def _odd_text(self) -> Line:
        """Control characters, right to left, zero width: legal in a text; nothing is found by them."""
        number, odd = self._next(), self._chance.choice(ODD_TEXTS)
        tool, arguments, right = self._chance.choice([
            (SEARCH, {"query": odd, "purpose_ref": PURPOSE}, Right.DONE),
            (SEARCH, {"query": "nothing", "purpose_ref": PURPOSE, "page_cursor": odd}, Right.OTHER_CODE),
            (SEARCH, {"query": "nothing", "purpose_ref": PURPOSE, "page_cursor": "A" * 71}, Right.OTHER_CODE),
            (GET, {"record_id": NO_RECORD, "purpose_ref": PURPOSE}, Right.OTHER_CODE),
            (GET, {"record_id": "mem_" + "a" * 5_000, "purpose_ref": PURPOSE}, Right.OTHER_CODE),
            (WITHDRAW, {"candidate_id": NO_CANDIDATE, "idempotency_key": "k" * 20, "reason_ref": "\u202e\u200b\u0007"},
             Right.OTHER_CODE),
            (REQUEST_ADMISSION, {"candidate_id": "\u202e\u0000\u200b", "idempotency_key": "\u0000" * 16},
            Right.OTHER_CODE),
            (FORGET, {"record_id": NO_RECORD, "idempotency_key": "\u200f" * 20, "reason_ref": "r"}, Right.OTHER_CODE),
        ])  # fmt: skip
        return Line("odd and legal", self._call(tool, self._json(arguments), number) + b"\n", right, number)

    def _unbound(self) -> Line:
        """A purpose that looks like one: what the host did not bind is no matter of the arguments."""
        tool = self._chance.choice([SEARCH, GET, CAPTURE])
        arguments = legal_calls()[tool]
        arguments.pop("page_cursor", None)
        near = self._chance.choice([PURPOSE + "\u200b", PURPOSE.upper(), "\u202e" + PURPOSE, PURPOSE + "\u0000", "*"])
        (arguments["payload"] if tool == CAPTURE else arguments)["purpose_ref"] = near
        number = self._next()
        raw = self._call(tool, self._json(arguments), number) + b"\n"
        return Line("a purpose not bound", raw, Right.PROTOCOL, number, UNTRUSTED)

    # --- requests --------------------------------------------------------------------------------

    def _unknown(self) -> Line:
        number = self._next()
        if self._chance.random() < 0.5:
            method = self._chance.choice(
                ["no/such", "", "tools/Call", "rpc.discover", "tools/list\u200b", "__init__", "x" * 256]
            )
            return Line(
                "an unknown method", self._request(method, number) + b"\n", Right.PROTOCOL, number, UNKNOWN_METHOD
            )
        name = self._chance.choice(
            ["no_such_tool", "", "engram_memory_get ", "ENGRAM_MEMORY_GET", "\u202eteg", "../get"]
        )
        raw = self._request("tools/call", number, params={"name": name, "arguments": {}}) + b"\n"
        return Line("an unknown tool", raw, Right.PROTOCOL, number, INVALID_PARAMS)

    def _malformed_request(self) -> Line:
        number = self._next()
        changes: dict[str, Any] = self._chance.choice([
            {"jsonrpc": "1.0"}, {"jsonrpc": 2}, {"jsonrpc": None}, {"method": 5}, {"method": None},
            {"method": ["ping"]},
            {"method": {}}, {"method": "x" * 257}, {"params": []}, {"params": "x"}, {"params": 5}, {"params": True},
        ])  # fmt: skip
        raw = self._request("ping", number, **changes) + b"\n"
        return Line("a malformed request", raw, Right.PROTOCOL, number, INVALID_REQUEST)

    def _params(self) -> Line:
        """Requests of known methods whose params do not fit the protocol."""
        number = self._next()
        good = {"name": GET, "arguments": {"record_id": NO_RECORD, "purpose_ref": PURPOSE}}
        method, params = self._chance.choice([
            ("tools/call", {}), ("tools/call", {"arguments": {}}), ("tools/call", {"name": None}), ("tools/call",
            {"name": 5}),
            ("tools/call", {"name": [GET]}), ("tools/call", {"name": {GET: 1}}), ("tools/call", {**good, "_meta": 5}),
            ("tools/call", {**good, "_meta": []}), ("tools/call", {**good, "_meta": {"progressToken": {}}}),
            ("tools/call", {**good, "_meta": {"progressToken": [1]}}), ("tools/list", {"cursor": 5}),
            ("tools/list", {"cursor": {}}), ("tools/list", {"_meta": "x"}), ("ping", {"_meta": 7}),
        ])  # fmt: skip
        raw = self._request(method, number, params=params) + b"\n"
        return Line("params that do not fit", raw, Right.PROTOCOL, number, INVALID_PARAMS)

    def _odd_id(self) -> Line:
        tool, arguments = self._any_tool()
        odd = self._chance.choice(UNREADABLE_IDS)
        method = self._chance.choice([b'"ping"', b'"tools/list"', b'"no/such"', b'"tools/call"'])
        params = self._json({"name": tool, "arguments": arguments})
        raw = b'{"jsonrpc":"2.0","id":' + odd + b',"method":' + method + b',"params":' + params + b"}\n"
        return Line("an id that cannot be read", raw, Right.NAMELESS)

    def _named_id(self) -> Line:
        """Ids that can be read, of every kind: odd strings, zero, negative, the largest, and 5.0, which is 5."""
        number = self._next()
        odd: Any = self._chance.choice(
            [f"\u202e{number}", f"\u0000{number}", f"{number}", f"한글-{number}", -number, float(number)]
        )
        raw = self._request("no/such", number).replace(b'"id": %d' % number, b'"id": ' + self._json(odd))
        return Line("an odd id", raw + b"\n", Right.PROTOCOL, odd, UNKNOWN_METHOD)

    def _batch(self) -> Line:
        request = {"jsonrpc": "2.0", "id": self._next(), "method": "ping"}
        batch: list[Any] = self._chance.choice(
            [[], [request], [request, request], [1], [[request]], [request, 1, None]]
        )
        return Line("a batch", self._json(batch) + b"\n", Right.NAMELESS)

    # --- what has no answer ----------------------------------------------------------------------

    def _silent(self) -> Line:
        """Notifications, sound and broken."""
        tool, arguments = self._any_tool()
        method, params = self._chance.choice([
            ("tools/call", {"name": tool, "arguments": arguments}), ("tools/list", {}), ("no/such", {}), ("", {}),
            ("notifications/cancelled", {"requestId": 1}), ("notifications/cancelled", {"requestId": "nobody"}),
            ("notifications/cancelled", {}), ("notifications/cancelled", {"requestId": []}), (5, {}), (None, {}),
            ("notifications/cancelled", {"requestId": None}), ("notifications/progress", {"progressToken": 1,
            "progress": 1}),
            ("notifications/progress", {}), ("notifications/roots/list_changed", {}), ("notifications/initialized", {}),
            ("ping", []), ("ping", "x"), ("notifications/initialized", {"_meta": 5}),
        ])  # fmt: skip
        raw = self._json({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"
        # Without an id and without a method that can be read it is no notification either.
        right = Right.SILENCE
        return Line("a notification", raw, right)

    def _answer_to_nothing(self) -> Line:
        answer: dict[str, Any] = self._chance.choice([
            {"id": 1, "result": {}}, {"id": "nobody", "result": {}}, {"id": 1, "error": {"code": 1, "message": "x"}},
            {"id": None, "error": {"code": 1, "message": "x"}}, {"id": 1, "result": 5}, {"id": [], "result": {}},
            {"id": 1, "error": "x"}, {"id": 1, "result": {}, "error": {"code": 1, "message": "x"}}, {"result": {}},
        ])  # fmt: skip
        return Line("an answer to nothing", self._json({"jsonrpc": "2.0"} | answer) + b"\n", Right.SILENCE)

    def _blank(self) -> Line:
        return Line("a blank line", self._chance.choice([b"\n", b"\r\n", b"  \n", b"\t\r\n"]), Right.SILENCE)

    # --- noise -----------------------------------------------------------------------------------

    def _noise(self) -> Line:
        return Line("noise", self._chance.choice(NOISE_SAMPLES) + b"\n", Right.NAMELESS)

    def _bytes(self) -> Line:
        raw = self._chance.randbytes(self._chance.randrange(1, 300)).replace(b"\n", b"").replace(b'"', b"")
        return Line("random bytes", raw + b"\n", Right.SILENCE if not raw.strip() else Right.NAMELESS)

    def _half(self) -> Line:
        """A line that ends somewhere: it is answered once, under its id where that stood before the end."""
        tool, arguments = self._any_tool()
        number = self._next()
        whole = self._call(tool, self._json(arguments), number)
        return Line("a half line", whole[: self._chance.randrange(1, len(whole))] + b"\n", Right.EITHER, number)

    def _crlf(self) -> Line:
        number = self._next()
        if self._chance.random() < 0.5:
            return Line("CRLF", self._request("ping", number) + b"\r\n", Right.DONE, number)
        _, tool, arguments = bad_arguments(self._chance)
        return Line("CRLF", self._call(tool, self._json(arguments), number) + b" \t\r\n", Right.INVALID_SCHEMA, number)

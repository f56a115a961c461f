"""Nonsense for a caller of the service itself: what no line can hold, a Python caller can still hand over."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
import random
import threading
import time
from collections import Counter, OrderedDict
from typing import Any

import msgspec

from tests.hostile.expected import envelope_code
from tests.hostile.legal_calls import legal_calls, places, put
from tests.hostile.nonsense_arguments import bad_arguments
from tests.hostile.served import Store
from tools.memory.service import MemoryService
from tools.server.service import CallContext, UnknownTool, UntrustedContext


class _Word(enum.Enum):
    LEXICAL = "lexical"


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def _nested(levels: int) -> Any:
    nested: Any = 1
    for _ in range(levels):
        nested = [nested]
    return nested


def _no_json() -> list[Any]:
    return [
        math.nan, math.inf, -math.inf, 10**4_301, -(1 << 70), 1 << 64, "\ud800", "a\udfff", b"bytes", bytearray(b"x"),
        {1}, ((1,),),
        object(), Exception("a secret"), dt.datetime.now(dt.UTC), decimal.Decimal("NaN"), _Word.LEXICAL,
        {1: 2}, {None: 1}, {"\ud800": 1}, {("a",): 1}, OrderedDict(a=1), print, type, _ring(), _nested(20_000), 1j,
        -0.0,
        iter([]), range(3), memoryview(b"x"),
    ]  # fmt: skip


_NO_JSON = _no_json()


def _odd_arguments(chance: random.Random) -> tuple[str, str, Any]:
    """Return (kind, tool, arguments): something in the arguments, or the arguments, is no JSON."""
    tool, arguments = chance.choice(list(legal_calls().items()))
    odd = chance.choice(_NO_JSON)
    if chance.random() < 0.1:
        return "no JSON for the arguments", tool, chance.choice([odd, None, [], "text", 5])
    put(arguments, chance.choice(places(arguments)), odd)
    return "a value that is no JSON", tool, arguments


def _odd_tool(chance: random.Random) -> tuple[str, str, Any]:
    tool: Any = chance.choice(
        ["", "no_such_tool", "\ud800", None, 5, [], {}, b"engram_memory_get", "engram_memory_get\0"]
    )
    return "a tool that is none", tool, chance.choice(list(legal_calls().values()))


def _outcome(service: MemoryService, tool: Any, arguments: Any) -> str:
    context = CallContext(
        client_name=None, session_id="session", protocol_version="2025-06-18", deadline=time.monotonic() + 60,
        cancelled=threading.Event(), progress=lambda *_: None,
    )  # fmt: skip
    try:
        envelope = service.call(tool, arguments, context)
    except UnknownTool:
        return "unknown tool"
    except UntrustedContext:
        return "untrusted context"
    return envelope_code(msgspec.json.decode(msgspec.json.encode(envelope.document())))


def throw_in_process(store: Store, count: int, seed: int) -> Counter[str]:
    """Make ``count`` nonsensical calls of the service; return how many of each kind were answered how.

    Raises:
        AssertionError: one was not answered as it must be. Whatever else the service raises goes through.
    """
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    engine = store.engine()
    service = MemoryService(engine)
    try:
        for _ in range(count):
            make = chance.choices([bad_arguments, _odd_arguments, _odd_tool], [10, 9, 1])[0]
            kind, tool, arguments = make(chance)
            outcome = _outcome(service, tool, arguments)
            right = {"unknown tool"} if make is _odd_tool else {"INVALID_SCHEMA"}
            assert outcome in right, f"{kind}: {tool!r} was answered {outcome}"
            seen[f"{outcome}: {kind}"] += 1
    finally:
        service.close()
    return seen

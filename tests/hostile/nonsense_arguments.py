"""Arguments that do not fit, as values: one thing is wrong with each, and INVALID_SCHEMA is the only right answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.hostile.legal_calls import OPTIONAL, at, legal_calls, places, put
from tools.host.capabilities import CAPTURE, FORGET, GET, SEARCH

EXTRA_NAMES = [
    "tenant", "workspace_id", "scope", "principal", "agent_id", "auditId", "confirmed", "elicitationRef", "deadline",
    "__proto__", "constructor", "", " ", "purpose_ref\u200b", "\u202eyreuq", "쿼리", "\u0000", "e\u0301", "x" * 300,
]  # fmt: skip
WRONG_TYPES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "",
    "1",
    "null",
    [],
    {},
    [[]],
    [{}],
    {"a": 1},
    9007199254740991,
]
# Names that hold a reference or another bounded string: what no string of theirs may be.
REFS = {
    "purpose_ref", "component_id", "primary_component_id", "citation_id", "source_ref", "evidence_ref", "reason_ref",
    "type_ref", "scheme", "value", "candidate_id",
}  # fmt: skip
BAD_REFS = ["", "x" * 513, "가" * 171, "e\u0301", "\u1112\u1161\u11ab", "A\u030a", "\u2126", "\U0001f600" * 129]
BAD_INSTANTS = [
    "", "now", "2026-02-30T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-01-01T00:00:00Z",
    "2026-01-01 00:00:00.000Z",
    "2026-01-01T00:00:00.000z", "2026-01-01T24:00:00.000Z", "2026-01-01T00:00:60.000Z", "2026-01-01T00:00:00.000+00:00",
    "٢٠٢٦-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z\n", "+2026-01-01T00:00:00.000Z", "0000-01-01T00:00:00.000Z",
]  # fmt: skip
BAD_DIGESTS = ["", "sha256:", "sha256:" + "A" * 64, "sha256:" + "a" * 63, "sha256:" + "a" * 65, "md5:" + "a" * 64,
               "sha256:" + "a" * 64 + "\n", "sha256:" + "\uff41" * 64]  # fmt: skip
BAD_RECORDS = ["", "mem_", "mem_A", "mem_1", "mem_a\n", "candidate_" + "0" * 64, "mem_\u0430", "\u202emem_a",
"mem_a\u200b",
               "mem_a\u0000", "MEM_a", " mem_a"]  # fmt: skip
BAD_KEYS = ["", "x" * 15, "x" * 257, "가" * 86, "key-of-at-least-16-e\u0301"]
BAD_NUMBERS = {
    "limit": [0, -1, 51, 1 << 40],
    "max_packet_bytes": [0, -1, 4_095, 1_048_577, 1 << 50],
    "schema_version": [0, 1, 3, -2, 1 << 33],
}
BAD_WORDS = {"kind": ["", "Decision", "decision ", "fact", "\u0000"], "minimum_channels": ["", "semantic", "LEXICAL"],
             "network": ["", "deny"], "derivative_rule": ["", "keep"]}  # fmt: skip

Arguments = dict[str, Any]
Mutator = Callable[[random.Random, str, Arguments], Any]


class NotHereError(Exception):
    """A mutator finds nothing to change in this tool's arguments."""


def _named(arguments: Any, names: set[str]) -> list[tuple[str | int, ...]]:
    found = [path for path in places(arguments) if path[-1] in names]
    if not found:
        raise NotHereError
    return found


def _objects(arguments: Any) -> list[tuple[str | int, ...]]:
    return [(), *(path for path in places(arguments) if isinstance(at(arguments, path), dict))]


def _missing(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
    required = [path for path in places(arguments) if isinstance(path[-1], str) and path[-1] not in OPTIONAL]
    path = chance.choice(required)
    del at(arguments, path[:-1])[path[-1]]
    return arguments


def _extra(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
    at(arguments, chance.choice(_objects(arguments)))[chance.choice(EXTRA_NAMES)] = chance.choice(WRONG_TYPES)
    return arguments


def _null(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
    put(arguments, chance.choice(places(arguments)), None)
    return arguments


def _wrong_type(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
    path = chance.choice(places(arguments))
    is_type = type(at(arguments, path))
    put(arguments, path, chance.choice([value for value in WRONG_TYPES if type(value) is not is_type]))
    return arguments


def _reshaped(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
    """An array for an object, or an object for an array."""
    path = chance.choice([path for path in [(), *places(arguments)] if isinstance(at(arguments, path), dict | list)])
    if not path:
        return chance.choice([[arguments], [], list(arguments), [arguments, arguments]])
    inner = at(arguments, path)
    put(arguments, path, [inner] if isinstance(inner, dict) else {str(at): each for at, each in enumerate(inner)})
    return arguments


def _bad_ref(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
    put(arguments, chance.choice(_named(arguments, REFS)), chance.choice(BAD_REFS))
    return arguments


def _bad_value(names: set[str], values: list[Any]) -> Mutator:
    def mutate(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
        put(arguments, chance.choice(_named(arguments, names)), chance.choice(values))
        return arguments

    return mutate


def _bad_from(table: dict[str, list[Any]]) -> Mutator:
    def mutate(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
        path = chance.choice(_named(arguments, set(table)))
        put(arguments, path, chance.choice(table[str(path[-1])]))
        return arguments

    return mutate


def _unresolved(chance: random.Random, tool: str, arguments: Arguments) -> Any:
    """References that lead nowhere, or stand twice."""
    if tool != CAPTURE:
        raise NotHereError
    payload, evidence = arguments["payload"], arguments["evidence"]
    match chance.randrange(8):
        case 0:
            payload["primary_component_id"] = "component:none"
        case 1:
            payload["primary_event"]["citation_id"] = "citation:none"
        case 2:
            evidence["citation_ids"] = ["citation:none"]
        case 3:
            payload["components"] *= chance.choice([0, 2, 65])
        case 4:
            payload["citations"] *= chance.choice([0, 2, 257])
        case 5:
            payload["valid_time"] = {"t": 2, "t_end": 1}
        case 6:
            payload["components"][0]["citation_ids"] *= chance.choice([0, 2, 257])
        case _:
            payload["reconciliation"]["family_refs"] = chance.choice([["b", "a"], ["a", "a"], [""], ["a"] * 65])
    return arguments


def _too_long(chance: random.Random, tool: str, arguments: Arguments) -> Any:
    if tool == SEARCH:
        put(arguments, chance.choice([("query",), ("page_cursor",)]), "가" * 2_731)
    elif tool == CAPTURE:
        path, size = chance.choice(
            [(("payload", "components", 0, "text"), 65_537), (("evidence", "attestation"), 4_097)]
        )
        put(arguments, path, "x" * size)
    elif tool in {GET, FORGET}:
        arguments["record_id"] = "mem_" + "A" * chance.choice([64, 70_000])
    else:
        arguments["candidate_id"] = "x" * chance.choice([513, 70_000])
    return arguments


def _deep(chance: random.Random, _tool: str, arguments: Arguments) -> Any:
    """Nested, but no deeper than the reader allows."""
    nested: Any = 1
    for _ in range(chance.randrange(2, 40)):
        nested = [nested] if chance.random() < 0.5 else {"a": nested}
    put(arguments, chance.choice(places(arguments)), nested)
    return arguments


MUTATORS: dict[str, Mutator] = {
    "a missing field": _missing,
    "an extra field": _extra,
    "a null": _null,
    "a wrong type": _wrong_type,
    "an array for an object": _reshaped,
    "a reference not NFC or out of bounds": _bad_ref,
    "a bad idempotency key": _bad_value({"idempotency_key"}, BAD_KEYS),
    "a bad record id": _bad_value({"record_id"}, BAD_RECORDS),
    "a bad digest": _bad_value({"content_digest", "evidence_digest"}, BAD_DIGESTS),
    "a bad instant": _bad_value({"observed_at", "expires_at"}, BAD_INSTANTS),
    "a number out of bounds": _bad_from(BAD_NUMBERS),
    "an unknown word": _bad_from(BAD_WORDS),
    "a reference that leads nowhere": _unresolved,
    "a text too long": _too_long,
    "deep nesting": _deep,
}


def bad_arguments(chance: random.Random) -> tuple[str, str, Any]:
    """Return (kind, tool, arguments) where one thing is wrong with the arguments."""
    while True:
        kind, mutate = chance.choice(list(MUTATORS.items()))
        tool, arguments = chance.choice(list(legal_calls().items()))
        try:
            return kind, tool, mutate(chance, tool, arguments)
        except NotHereError:
            continue

"""What a line of nonsense must be answered with, and the book that is kept of what was."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

KNOWN_CODES = {-32700, -32600, -32601, -32602, -32603}
MESSAGE_MAX_CHARACTERS = 100


class Right(Enum):
    """The one right answer to a line."""

    INVALID_SCHEMA = "INVALID_SCHEMA"  # the tool's own, under the line's id
    PROTOCOL = "protocol error"  # under the line's id
    NAMELESS = "protocol error under null"  # no id can be read
    EITHER = "answered once, under its id or null"  # a line cut anywhere
    OTHER_CODE = "another code of the contract"  # odd and legal: refused for what it asks, not for its form
    DONE = "a result"  # odd and legal
    SILENCE = "no answer"  # JSON-RPC has none


@dataclass(frozen=True)
class Line:
    """One line, its line end included, and what is right for it."""

    kind: str
    raw: bytes
    right: Right
    request_id: int | str | None = None
    codes: frozenset[int] = field(default_factory=lambda: frozenset(KNOWN_CODES))


class WrongAnswerError(AssertionError):
    """An answer that is not the right one, or is none at all."""


@dataclass
class Book:
    """Counts what was sent and answered, and objects to whatever is wrong."""

    sent: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)

    def settle(self, lines: list[Line], answers: list[dict[str, Any]]) -> None:
        """Hold the answers of a batch, all of them, against its lines.

        Raises:
            WrongAnswerError: one is missing, too much, or not the right one.
        """
        by_id: dict[int | str, dict[str, Any]] = {}
        nameless = []
        for answer in answers:
            if answer["id"] is None:
                nameless.append(answer)
            elif answer["id"] in by_id:
                raise WrongAnswerError(f"answered twice: {answer!r}")
            else:
                by_id[answer["id"]] = answer
        cut_short = 0
        for line in lines:
            self.sent[line.kind] += 1
            if line.right in {Right.SILENCE, Right.NAMELESS}:
                self.answered[line.right.value] += 1
                cut_short += line.right is Right.NAMELESS
                continue
            found = by_id.pop(line.request_id, None) if line.request_id is not None else None
            if found is None and line.right is Right.EITHER:
                cut_short += 1
                self.answered["protocol error under null"] += 1
            else:
                self._judge(line, found)
        if by_id:
            raise WrongAnswerError(f"answers to nothing: {by_id!r}")
        if len(nameless) != cut_short:
            kinds = [line.kind for line in lines if line.right in {Right.NAMELESS, Right.EITHER}]
            raise WrongAnswerError(f"{len(nameless)} answers under null for {cut_short} lines: {kinds} {nameless!r}")
        for answer in nameless:
            check_error(answer, frozenset({-32700, -32600}))

    def _judge(self, line: Line, answer: dict[str, Any] | None) -> None:
        if answer is None:
            raise WrongAnswerError(f"unanswered: {line.kind}: {line.raw[:300]!r}")
        try:
            got = _checked(line, answer)
        except AssertionError as error:
            raise WrongAnswerError(f"{line.kind}: {line.raw[:300]!r} got {str(answer)[:300]}") from error
        self.answered[got] += 1


def _checked(line: Line, answer: dict[str, Any]) -> str:
    if "error" in answer:
        assert line.right in {Right.PROTOCOL, Right.EITHER}
        check_error(answer, line.codes)
        return str(answer["error"]["code"])
    result = answer["result"]
    if "structuredContent" not in result:
        assert line.right is Right.DONE
        return "result"
    code = check_envelope(result)
    match line.right:
        case Right.INVALID_SCHEMA | Right.EITHER:
            assert code == "INVALID_SCHEMA"
        case Right.DONE:
            assert code == "ok"
        case Right.OTHER_CODE:
            assert code in {"NOT_FOUND", "STALE_PAGE", "UNAUTHORIZED"}
        case _:
            raise AssertionError(code)
    return code


def check_error(answer: dict[str, Any], codes: frozenset[int]) -> None:
    """A protocol error holds a code, constant words and no more: nothing of an exception, nothing of the line."""
    error = answer["error"]
    assert error["code"] in codes, error
    assert len(error["message"]) < MESSAGE_MAX_CHARACTERS
    assert set(error) <= {"code", "message", "data"}
    told = json.dumps(error, ensure_ascii=False)
    for trace in ("Traceback", "Error(", "validation error", "pydantic", 'File "', "/tools/", "msgspec"):
        assert trace not in told, told


def check_envelope(result: dict[str, Any]) -> str:
    """An envelope says the same in both forms, and in a failure nothing but constants; return its code or ``ok``."""
    envelope = result["structuredContent"]
    assert envelope == json.loads(result["content"][0]["text"])
    assert result["isError"] is not envelope["ok"]
    return envelope_code(envelope)


def envelope_code(envelope: dict[str, Any]) -> str:
    if envelope["ok"]:
        return "ok"
    assert set(envelope) == {"ok", "auditId", "redactionClass", "error"}
    assert set(envelope["error"]) == {"code", "message", "retriable"}
    return envelope["error"]["code"]

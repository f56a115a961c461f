"""The result envelope."""

import json
import uuid

import pytest

from journal.errors import CODES, EngramError, NotFound
from tools.server.envelope import failure, random_audit_id, success


def test_a_success():
    result = success({"status": "한글", "n": [1, 2.5]}, "audit-1").to_result()

    assert result["structuredContent"] == {
        "ok": True,
        "output": {"schema_version": 1, "value": {"status": "한글", "n": [1, 2.5]}},
        "auditId": "audit-1",
        "redactionClass": "high",
    }
    assert result["isError"] is False


@pytest.mark.parametrize("error", CODES.values())
def test_a_failure_says_its_code_and_nothing_else(error: type[EngramError]):
    for given in (error, error("a detail that is for the log")):
        result = failure(given, "audit-2").to_result()

        assert result["structuredContent"] == {
            "ok": False,
            "auditId": "audit-2",
            "redactionClass": "high",
            "error": {"code": error.code, "message": error.message(), "retriable": error.retriable},
        }
        assert result["isError"] is True


@pytest.mark.parametrize("envelope", [success({"text": 'a"b\n한'}, "a"), failure(NotFound, "a")])
def test_the_text_says_the_same_and_is_compact(envelope):
    result = envelope.to_result()

    [content] = result["content"]
    assert content["type"] == "text"
    assert json.loads(content["text"]) == result["structuredContent"]
    assert content["text"] == json.dumps(result["structuredContent"], ensure_ascii=False, separators=(",", ":"))


def test_audit_ids_are_random_uuids():
    first, second = random_audit_id(), random_audit_id()

    assert first != second
    assert uuid.UUID(first).version == 4

"""The tools as an agent sees them, and what all of them together weigh."""

import json
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes with the SDK, without types
import pytest

from journal.limits import (
    COMPONENT_TEXT_MAX_BYTES,
    MESSAGE_MAX_BYTES,
    PURPOSE_ENUM_MAX_BYTES,
    QUERY_MAX_BYTES,
    TOOL_DESCRIPTION_MAX_BYTES,
    TOOLS_LIST_MAX_BYTES,
)
from tools.host.capabilities import ALL_TOOLS
from tools.server.schemas import TOOL_NAMES, definitions

ANSWER_FRAME_BYTES = 80  # around the tools in the answer

MEMORY_TOOLS = (
    "engram_memory_search",
    "engram_memory_get",
    "engram_memory_capture",
    "engram_memory_request_admission",
    "engram_memory_withdraw",
    "engram_memory_forget",
)
CONVERSATION_TOOLS = ("save_message", "search_memory", "manage_knowledge", "memory_startup")

PURPOSES = ("purpose:case",)
LONGEST_ENUM = tuple("purpose:" + letter * (PURPOSE_ENUM_MAX_BYTES // 4 - 8) for letter in "abcd")

CITATION: dict[str, Any] = {
    "citation_id": "citation:source",
    "source_ref": "source:case",
    "locator": {"scheme": "document", "value": "case-7#correction"},
    "content_digest": "sha256:" + "a" * 64,
    "observed_at": "2026-08-16T12:34:56.789Z",
}
CAPTURE: dict[str, Any] = {
    "idempotency_key": "k" * 16,
    "payload": {
        "schema_version": 2,
        "purpose_ref": "purpose:case",
        "valid_time": {"t": 1755350096789, "t_end": 1755350096789},
        "components": [
            {
                "component_id": "component:decision",
                "kind": "decision",
                "text": "Applied the documented correction.",
                "citation_ids": ["citation:source"],
            }
        ],
        "primary_component_id": "component:decision",
        "primary_event": {
            "at": 1755350096789,
            "type_ref": "event:correction-applied",
            "citation_id": "citation:source",
        },
        "citations": [CITATION],
        "retention": {"derivative_rule": "make-ineligible", "expires_at": "2027-01-01T00:00:00.000Z"},
        "reconciliation": {"family_refs": []},
    },
    "evidence": {
        "evidence_ref": "source:case",
        "evidence_digest": "sha256:" + "a" * 64,
        "citation_ids": ["citation:source"],
        "attestation": "seen",
    },
}
RECORD_ID = "mem_y5lyhrr2w42rak7rz6h3gypy53rhohj2zszdhj7gpqzvjnijiqkq"
CANDIDATE_ID = "candidate_" + "0" * 64
LEGAL: dict[str, dict[str, Any]] = {
    "engram_memory_search": {
        "query": "알림",
        "purpose_ref": "purpose:case",
        "limit": 50,
        "max_packet_bytes": 4096,
        "capability_policy": {"minimum_channels": "lexical", "network": "forbid"},
        "page_cursor": "x",
    },
    "engram_memory_get": {"record_id": RECORD_ID, "purpose_ref": "purpose:case", "max_packet_bytes": 1_048_576},
    "engram_memory_capture": CAPTURE,
    "engram_memory_request_admission": {"candidate_id": CANDIDATE_ID, "idempotency_key": "k" * 16},
    "engram_memory_withdraw": {
        "candidate_id": CANDIDATE_ID,
        "idempotency_key": "한" * 6,  # 18 bytes
        "reason_ref": "reason:wrong",
    },
    "engram_memory_forget": {"record_id": RECORD_ID, "idempotency_key": "\U0001f600" * 4, "reason_ref": "reason:asked"},
    "save_message": {
        "role": "assistant",
        "message": "기억해 둘 말",
        "agent_model": "m",
        "agent_platform": "codex",
        "subagent": True,
        "subagent_model": "s",
        "subagent_role": "reviewer",
    },
    "search_memory": {
        "query": "알림",
        "p_tag": "프로젝트",
        "date_range": "2026-01-01..",
        "role": "user",
        "agent_platform": "*",
        "device_scope": "local",
        "limit": 50,
        "include_archived": True,
    },
    "manage_knowledge": {
        "action": "remove",
        "target": "memory",
        "content": "말",
        "memory_id": "message_" + "0a" * 16,
        "erase": True,
    },
    "memory_startup": {"short_term_days": 30, "agent_platform_filter": False},
}


def compact_bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def schemas_in(schema: dict) -> list[dict]:
    """Return a schema and every schema below it."""
    inner = list(schema.get("properties", {}).values()) + ([schema["items"]] if "items" in schema else [])
    return [schema] + [deeper for each in inner for deeper in schemas_in(each)]


def tool(name: str, purposes: tuple[str, ...] = PURPOSES) -> dict:
    [definition] = definitions([name], purposes)
    return definition


def test_the_ten_tools():
    assert TOOL_NAMES == MEMORY_TOOLS + CONVERSATION_TOOLS == ALL_TOOLS
    assert [each["name"] for each in definitions(TOOL_NAMES, PURPOSES)] == list(TOOL_NAMES)


@pytest.mark.parametrize("purposes", [PURPOSES, LONGEST_ENUM, ("p" * 512,)])
def test_the_list_is_light(purposes):
    assert compact_bytes(definitions(TOOL_NAMES, purposes)) + ANSWER_FRAME_BYTES <= TOOLS_LIST_MAX_BYTES


def test_only_what_is_granted_is_listed():
    granted = ["engram_memory_get", "engram_memory_search", "no_such_tool"]

    assert [each["name"] for each in definitions(granted, PURPOSES)] == ["engram_memory_search", "engram_memory_get"]
    assert definitions([], PURPOSES) == []


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_a_tool_is_plain(name):
    definition = tool(name)

    assert set(definition) == {"name", "title", "description", "inputSchema", "annotations"}
    assert len(definition["description"].encode()) <= TOOL_DESCRIPTION_MAX_BYTES
    for schema in schemas_in(definition["inputSchema"]):
        assert isinstance(schema["type"], str)
        assert set(schema).isdisjoint({"anyOf", "oneOf", "allOf", "not", "$ref", "const", "format"})
        assert all(isinstance(word, str) for word in schema.get("enum", []))
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False
            assert set(schema.get("required", [])) <= set(schema["properties"])


@pytest.mark.parametrize(
    ("name", "reads", "destroys", "idempotent"),
    [
        ("engram_memory_search", True, False, True),
        ("engram_memory_get", True, False, True),
        ("engram_memory_capture", False, False, True),
        ("engram_memory_request_admission", False, False, True),
        ("engram_memory_withdraw", False, True, True),
        ("engram_memory_forget", False, True, True),
        ("save_message", False, False, False),
        ("search_memory", True, False, True),
        ("manage_knowledge", False, True, False),
        ("memory_startup", True, False, True),
    ],
)
def test_all_four_hints_are_stated(name, reads, destroys, idempotent):
    assert tool(name)["annotations"] == {
        "readOnlyHint": reads,
        "destructiveHint": destroys,
        "idempotentHint": idempotent,
        "openWorldHint": False,
    }


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_legal_arguments_fit(name):
    jsonschema.validate(LEGAL[name], tool(name)["inputSchema"])


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_extra_fields_nulls_and_gaps_do_not(name):
    schema = tool(name)["inputSchema"]

    gaps = [{key: LEGAL[name][key] for key in LEGAL[name] if key != field} for field in schema.get("required", [])]
    nulls = [LEGAL[name] | {field: None} for field in schema["properties"]]
    for arguments in [*gaps, *nulls]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(arguments, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(LEGAL[name] | {"tenant_id": "other"}, schema)


def test_lengths_are_never_tighter_than_the_bytes():
    """Characters are at least one byte each, so a bound on them may equal the bytes but not go below."""
    [query] = [tool("engram_memory_search")["inputSchema"]["properties"]["query"]]
    message = tool("save_message")["inputSchema"]["properties"]["message"]
    content = tool("manage_knowledge")["inputSchema"]["properties"]["content"]
    component = tool("engram_memory_capture")["inputSchema"]["properties"]["payload"]["properties"]["components"]

    assert query["maxLength"] == QUERY_MAX_BYTES
    assert message["maxLength"] == content["maxLength"] == MESSAGE_MAX_BYTES
    assert component["items"]["properties"]["text"]["maxLength"] == COMPONENT_TEXT_MAX_BYTES
    for name in TOOL_NAMES:
        assert not [each for each in schemas_in(tool(name)["inputSchema"]) if "minLength" in each]


def purpose_schemas(purposes: tuple[str, ...]) -> list[dict]:
    schemas = [schema for each in definitions(TOOL_NAMES, purposes) for schema in schemas_in(each["inputSchema"])]
    return [schema["properties"]["purpose_ref"] for schema in schemas if "purpose_ref" in schema.get("properties", {})]


def test_purposes_are_an_enum_while_they_are_short():
    assert sum(map(len, LONGEST_ENUM)) == PURPOSE_ENUM_MAX_BYTES
    assert purpose_schemas(LONGEST_ENUM) == [{"type": "string", "enum": list(LONGEST_ENUM)}] * 3
    longer = (*LONGEST_ENUM, "x")
    assert purpose_schemas(longer) == [{"type": "string"}] * 3
    assert purpose_schemas(()) == [{"type": "string"}] * 3
    korean = "목" * (PURPOSE_ENUM_MAX_BYTES // 3)
    assert purpose_schemas((korean,)) == [{"type": "string", "enum": [korean]}] * 3
    assert purpose_schemas((korean, "xx")) == [{"type": "string"}] * 3


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_nothing_that_the_host_owns_is_an_argument(name):
    owned = re.compile(
        "tenant|workspace|scope(?<!^device_scope)|principal|agent_id|session|credential|audit|deadline|cancel|confirm|elicit"
    )
    for schema in schemas_in(tool(name)["inputSchema"]):
        assert not [field for field in schema.get("properties", {}) if owned.search(field)]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("save_message", {"role": "system", "message": "x"}),
        ("search_memory", {"limit": 0}),
        ("search_memory", {"limit": 51}),
        ("manage_knowledge", {"action": "remove", "target": "memory", "memory_id": "message_" + "0A" * 16}),
        ("manage_knowledge", {"action": "remove", "target": "core_profile"}),
        ("memory_startup", {"short_term_days": 0}),
        ("memory_startup", {"short_term_days": 31}),
    ],
)
def test_what_is_out_of_bounds_does_not_fit(name, arguments):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(arguments, tool(name)["inputSchema"])


def test_a_search_and_a_brief_need_no_arguments():
    for name in ("search_memory", "memory_startup"):
        jsonschema.validate({}, tool(name)["inputSchema"])


def test_an_agent_learns_when_to_call_which():
    told = {name: tool(name)["description"] for name in CONVERSATION_TOOLS}
    assert "once, first" in told["memory_startup"]
    assert "after each turn that matters" in told["save_message"]
    assert "'remember'" in told["manage_knowledge"]
    assert "refers to the past" in told["search_memory"]

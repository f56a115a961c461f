"""engram skill: both languages say the same, all of it, in a form that an agent reads."""

import importlib
import json
import re
from typing import Any

import pytest

from journal.errors import CODES
from tools.cli import invocation
from tools.cli.main import run
from tools.cli.skill import LANGUAGES, read_skill
from tools.host.capabilities import ALL_TOOLS, CAPTURE
from tools.memory.arguments import capture_arguments

CODES_TOLD = {
    "INVALID_SCHEMA", "INVALID_DIGEST", "UNAUTHORIZED", "AUTHORIZATION_EXPIRED", "AUTHORIZATION_REVOKED", "NOT_FOUND",
    "DIGEST_CONFLICT", "ILLEGAL_TRANSITION", "ALREADY_TERMINAL", "MUTATION_OUTCOME_UNKNOWN", "gate_failed",
    "STALE_PAGE", "RESULT_TOO_LARGE", "PROJECTION_OVERSIZED",
}  # fmt: skip
TOLD_BESIDES = (
    "duplicate_exact", "pending_adjudication", "accepted", "rejected", "outcome.status", "replayed", "record_id",
    "candidate_id", "idempotency_key", "purpose_ref", "page_cursor", "engram cite", "-32603", "-32602", "16",
)  # fmt: skip


def printed(capsys, *arguments: str) -> str:
    assert run(["skill", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_front_matter_is_that_of_a_skill(capsys, language):
    text = printed(capsys, "--lang", language)
    _, matter, _ = text.split("---\n", 2)
    fields = importlib.import_module("yaml").safe_load(matter)
    assert set(fields) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert len(fields["name"]) <= 64
    assert 1 <= len(fields["description"]) <= 1024
    assert text.count("\n") < 500


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_tells_every_tool_every_code_and_every_rule(language):
    body = read_skill(language).body
    for name in ALL_TOOLS:
        assert name in body, name
    assert CODES_TOLD <= set(CODES)
    for word in (*CODES_TOLD, *TOLD_BESIDES):
        assert word in body, word


def test_both_languages_have_the_same_parts():
    english, korean = (read_skill(language) for language in LANGUAGES)
    assert english.name == korean.name

    def shape(body: str) -> list[str]:
        """Return what every line begins with: heading, step, point or row."""
        return re.findall(r"^(#+|\d\.|  ?-|-|\||```)", body, flags=re.MULTILINE)

    def code(body: str) -> list[str]:
        return re.findall(r"`[^`\n]+`|\b[A-Z]+(?:_[A-Z]+)+\b", re.sub(r"```.*?```", "", body, flags=re.DOTALL))

    assert shape(english.body) == shape(korean.body)
    assert sorted(set(code(english.body))) == sorted(set(code(korean.body)))
    assert re.search("[가-힣]", korean.body)
    assert not re.search("[가-힣]", english.body)


def example(text: str) -> dict[str, Any]:
    """Return the arguments of a capture that are put together from the examples, as they are printed."""
    payload, evidence = map(json.loads, re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL))
    return {"idempotency_key": "0123456789abcdef", "payload": payload, "evidence": evidence}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_works_as_it_is_printed(desk, language):
    for text in (desk.ok("skill", "--lang", language).out, desk.ok("skill", "--agents-md", "--lang", language).out):
        with desk.agent() as agent:
            assert agent.value(CAPTURE, example(text))["status"] in ("committed_pending", "duplicate_exact")


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_cite_prints_fits_into_the_example(tmp_path, desk, language):
    (tmp_path / "note.md").write_text("one\ntwo\n")
    cited = desk.json("cite", str(tmp_path / "note.md") + ":1")
    text = desk.ok("skill", "--lang", language).out
    made = example(text.replace("citation:0123456789abcdef", cited["citation"]["citation_id"]))
    assert set(made["payload"]["citations"][0]) == set(cited["citation"])
    assert set(made["evidence"]) == set(cited["evidence"])
    made["payload"]["citations"], made["evidence"] = [cited["citation"]], cited["evidence"]
    with desk.agent() as agent:
        assert agent.value(CAPTURE, made)["status"] == "committed_pending"


@pytest.mark.parametrize(("language", "said"), [("en", "the server's instructions"), ("ko", "instructions에 적힌")])
def test_without_a_host_file_it_says_where_the_purpose_comes_from(capsys, language, said):
    text = printed(capsys, "--lang", language)
    assert said in example(text)["payload"]["purpose_ref"]
    capture_arguments(example(text))


def test_a_host_file_that_was_named_must_be_there(capsys, tmp_path):
    assert run(["skill", "--config", str(tmp_path / "missing.toml")]) == 2
    assert capsys.readouterr().out == ""


def test_a_purpose_of_any_letters_leaves_the_example_whole(bare_desk):
    odd = 'purpose:"팀" \\\\1'
    assert bare_desk.init("--purpose", odd).code == 0
    assert example(bare_desk.ok("skill").out)["payload"]["purpose_ref"] == odd


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_tells_each_field_that_an_agent_must_fill_in(language):
    body = read_skill(language).body
    for field in ("purpose_ref", "valid_time.t", "type_ref", "locator.scheme", "evidence_ref", "evidence_digest"):
        assert re.search(rf"^- `{re.escape(field)}`.*", body, flags=re.MULTILINE), field
    assert re.search(r"`reason_ref`[^`]*`reason:", body)


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_tells_when_to_call_each_conversation_tool(language):
    points = re.findall(r"^- `(\w+)`", read_skill(language).body, flags=re.MULTILINE)
    assert [name for name in points if name in ALL_TOOLS] == [
        "memory_startup", "save_message", "search_memory", "manage_knowledge",
    ]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_calls_cite_as_it_has_to_be_typed(capsys, monkeypatch, language):
    monkeypatch.setattr(invocation, "word", lambda: "/opt/memory/bin/engram")
    assert "`/opt/memory/bin/engram cite FILE:A-B`" in printed(capsys, "--lang", language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_for_an_agents_md_it_is_a_section(capsys, language):
    text = printed(capsys, "--agents-md", "--lang", language)
    assert text.startswith("## Engram")
    headings = re.findall(r"^#+ ", text, flags=re.MULTILINE)
    assert headings.count("## ") == 1
    assert set(headings) == {"## ", "### "}
    assert "name: engram-memory" not in text


def test_english_is_the_default_and_json_is_one_document(capsys):
    assert printed(capsys) == printed(capsys, "--lang", "en")
    document = json.loads(printed(capsys, "--json", "--lang", "ko"))
    assert document["name"] == "engram-memory"
    assert document["lang"] == "ko"
    assert document["text"] == printed(capsys, "--lang", "ko").rstrip("\n")


def test_another_language_is_refused(capsys):
    assert run(["skill", "--lang", "fr"]) == 2
    assert capsys.readouterr().out == ""

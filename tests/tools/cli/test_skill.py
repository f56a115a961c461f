"""engram skill: both languages say the same, all of it, in a form that an agent reads."""

import importlib
import json
import re

import pytest

from journal.errors import CODES
from tools.cli.main import run
from tools.cli.skill import LANGUAGES, read_skill
from tools.host.capabilities import ALL_TOOLS, CAPABILITIES
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
def test_it_tells_every_tool_that_is_served_every_code_and_every_rule(language):
    body = read_skill(language).body
    for name in ALL_TOOLS:
        assert (name in body) == CAPABILITIES[name].served, name
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


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_is_a_payload_that_the_tool_takes(tmp_path, monkeypatch, capsys, language):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.md").write_text("one\ntwo\n")
    assert run(["cite", "note.md:1", "--json"]) == 0
    cited = json.loads(capsys.readouterr().out)
    [example] = re.findall(r"```json\n(.*?)```", read_skill(language).body, flags=re.DOTALL)
    payload = json.loads(example.replace("citation:0123456789abcdef", cited["citation"]["citation_id"]))
    payload["citations"] = [cited["citation"]]
    arguments = {"idempotency_key": "0123456789abcdef", "payload": payload, "evidence": cited["evidence"]}
    assert capture_arguments(arguments).idempotency_key == "0123456789abcdef"


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

"""One canonical name a platform, from whatever its client calls itself."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.conversation.platforms import canonical_platform, is_wildcard


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("claude-code", "claude-code"),
        ("Claude Code", "claude-code"),
        ("claude_code", "claude-code"),
        ("codex", "codex"),
        ("codex-mcp-client", "codex"),
        ("codex-cli", "codex"),
        ("codex-desktop", "codex"),
        ("codex-exec", "codex"),
        ("Codex_CLI", "codex"),
        ("  codex-mcp-client\n", "codex"),
        ("gemini-cli", "gemini-cli"),
        ("gemini-cli-mcp-client", "gemini-cli"),
        ("gemini-cli-mcp-client-engram", "gemini-cli"),
        ("chatgpt", "chatgpt"),
        ("ChatGPT", "chatgpt"),
        ("openai-mcp", "chatgpt"),
        ("hermes", "hermes-agent"),
        ("Hermes Agent", "hermes-agent"),
        ("openclaw", "openclaw"),
        ("openclaw-bundle-mcp", "openclaw"),
        ("openclaw_bundle_mcp", "openclaw"),
    ],
)
def test_known_clients_have_one_name(name, canonical):
    assert canonical_platform(name) == canonical


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("cursor-vscode", "cursor-vscode"),
        ("Visual Studio Code", "visual studio code"),
        ("claude-ai", "claude-ai"),
        ("codex-like", "codex-like"),
        ("gemini-cli-mcp-clients", "gemini-cli-mcp-clients"),
        (" 한글 도구 ", "한글 도구"),
        (unicodedata.normalize("NFD", "한글"), "한글"),
        ("My\n## Tool\t\x1b[1m", "my ## tool [1m"),
        ("a\x00b", "a b"),
        ("a\ud800b", "a?b"),
    ],
)
def test_another_client_is_itself_in_lower_case_on_one_line(name, canonical):
    assert canonical_platform(name) == canonical


@pytest.mark.parametrize("name", [None, "", " ", "\n\t", "\x00", "*", " * ", "Unknown"])
def test_no_name_is_unknown(name):
    assert canonical_platform(name) == "unknown"


@pytest.mark.parametrize("name", ["operator:root", " Operator:root", "ENGRAM:system", "client:x", "operator:"])
def test_no_agent_passes_for_a_person_at_the_machine(name):
    assert canonical_platform(name) == "unknown"


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("a" * 512, "a" * 512),
        ("a" * 513, "a" * 512),
        ("한" * 170, "한" * 170),
        ("한" * 171, "한" * 170),
        ("한" * 170 + "a b", "한" * 170 + "a"),
        ("a" * 10_000_000, "a" * 512),
    ],
)
def test_a_name_is_cut_between_characters(name, canonical):
    assert canonical_platform(name) == canonical


@given(st.one_of(st.text(), st.text(st.sampled_from("aÅİΣς\u0301\u0307 \x00\n*-_K한ᄒ\u1161"), max_size=600)))
def test_a_canonical_name_is_bounded_and_stays(name):
    canonical = canonical_platform(name)
    assert 1 <= len(canonical.encode()) <= 512
    assert canonical == canonical.strip()
    assert canonical.isprintable() or not any(unicodedata.category(char) == "Cc" for char in canonical)
    assert unicodedata.is_normalized("NFC", canonical)
    assert canonical_platform(canonical) == canonical


@pytest.mark.parametrize(("name", "every"), [("*", True), (" * ", True), ("", False), ("**", False), ("codex", False)])
def test_the_wildcard(name, every):
    assert is_wildcard(name) is every

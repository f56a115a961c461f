"""engram brief: what an agent is told, for a client's own session-start hook."""

from __future__ import annotations

import json

import pytest

from tests.tools.cli.talking import elsewhere, know, say
from tools.host.capabilities import MEMORY_STARTUP


def test_it_prints_exactly_what_memory_startup_gives(desk):
    know(desk, "add", "memory", content="The user lives in 서울.\u202e")
    know(desk, "add", "sub_profile", content="Likes tea.\x1b[31m")
    say(desk, "Said on codex.", agent_platform="codex")
    say(desk, "Said on this one.", agent_platform="tests")
    with desk.agent() as agent:
        given = agent.value(MEMORY_STARTUP, {})["brief"]
        together = agent.value(MEMORY_STARTUP, {"agent_platform_filter": False})["brief"]
    assert given != together
    ended = desk.ok("brief", "--platform", "tests")
    assert (ended.out, ended.err) == (given + "\n", "")
    assert desk.json("brief", "--platform", "tests") == {"brief": given}
    assert desk.ok("brief", "--platform", "tests", "--all-platforms").out == together + "\n"
    assert desk.ok("brief").out == together + "\n"
    assert "Recent on codex" in desk.ok("brief", "--platform", "codex-mcp-client").out


def test_it_says_so_where_nothing_is_remembered(desk):
    ended = desk.process("brief", "--platform", "codex")
    assert (ended.code, ended.err) == (0, "")
    assert "Nothing is remembered yet" in ended.out


def test_a_hook_is_given_json_on_one_line(desk):
    know(desk, "add", "memory", content="The user lives in 서울.")
    ended = desk.ok("brief", "--hook", "--platform", "gemini-cli")
    assert ended.out.count("\n") == 1
    answer = json.loads(ended.out)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert answer["additionalContext"] == desk.json("brief", "--platform", "gemini-cli")["brief"]
    assert "서울" in answer["additionalContext"]


def test_whoever_may_not_ask_for_it_is_not_told_by_a_hook_either(desk):
    know(desk, "add", "memory", content="The user lives in 서울.")
    text = desk.host_file.read_text(encoding="utf-8")
    assert '    "memory_startup",\n' in text
    desk.host_file.write_text(text.replace('    "memory_startup",\n', ""), encoding="utf-8")
    ended = desk.run("brief")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1


def test_it_looks_where_conversations_lie(desk):
    elsewhere(desk)
    know(desk, "add", "memory", content="Said in the other workspace.")
    assert "Said in the other" in desk.ok("brief").out
    assert "Said in the other" in desk.ok("brief", "--workspace", "talk").out


@pytest.mark.parametrize("days", ["0", "31", "x"])
def test_days_out_of_range_are_wrong_use(desk, days):
    assert desk.run("brief", "--days", days).code == 2

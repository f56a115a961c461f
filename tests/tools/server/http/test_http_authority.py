"""What the journal grants, revokes and bounds reaches whoever comes over HTTP at their next call."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.tools.cli.desk import environment
from tests.tools.memory.world import PURPOSE, capture_arguments
from tests.tools.server.http.team import ANNA_TOKEN, BEN_TOKEN, LIST, STATIC, TeamServer, answer_of, call, made_team
from tools.host.capabilities import CAPTURE, GET, SEARCH

ASKED = {"query": "하나", "purpose_ref": PURPOSE}


def engram(host_file, *words):
    done = subprocess.run(
        [sys.executable, "-m", "tools.cli.main", *words, "--config", str(host_file), "--json"],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def change(host_file, old, new):
    text = host_file.read_text(encoding="utf-8")
    assert old in text
    host_file.write_text(text.replace(old, new, 1), encoding="utf-8")


class Speaker:
    """Somebody with a token and a session."""

    def __init__(self, team, token):
        self._team, self._token = team, token
        self._session = team.opened(token)

    def tools(self):
        answer = answer_of(self._team.post(LIST, self._token, mcp_session_id=self._session))
        return {tool["name"] for tool in answer["result"]["tools"]}

    def code(self, tool, arguments):
        answer = answer_of(self._team.post(call(tool, arguments), self._token, mcp_session_id=self._session))
        if "error" in answer:
            return answer["error"]["code"]
        document = answer["result"]["structuredContent"]
        return "ok" if document["ok"] else document["error"]["code"]


@pytest.fixture
def host_file(tmp_path):
    return made_team(tmp_path, STATIC)


def test_grants_of_the_journal_reach_each_principal_for_itself(host_file):
    change(host_file, 'mode = "file"', 'mode = "events"')
    with TeamServer(host_file) as team:
        anna, ben = Speaker(team, ANNA_TOKEN), Speaker(team, BEN_TOKEN)
        assert (anna.tools(), ben.tools()) == (set(), set())
        engram(host_file, "grants", "add", "--principal", "Ben", "--tool", SEARCH, "--expires", "1h")
        assert (anna.tools(), ben.tools()) == (set(), {SEARCH})
        assert (anna.code(SEARCH, ASKED), ben.code(SEARCH, ASKED), ben.code(GET, ASKED)) == (-32602, "ok", -32602)
        engram(host_file, "grants", "revoke", "--principal", "Ben", "--tool", "all")
        assert (ben.tools(), ben.code(SEARCH, ASKED)) == (set(), -32602)


def test_what_is_revoked_is_gone_at_the_next_call_and_so_is_a_tenant(host_file):
    with TeamServer(host_file) as team:
        anna, ben = Speaker(team, ANNA_TOKEN), Speaker(team, BEN_TOKEN)
        assert (anna.code(SEARCH, ASKED), ben.code(SEARCH, ASKED)) == ("ok", "ok")
        engram(host_file, "grants", "revoke", "--principal", "Anna", "--tool", SEARCH)
        assert (anna.code(SEARCH, ASKED), ben.code(SEARCH, ASKED)) == (-32602, "ok")
        assert SEARCH not in anna.tools()
        engram(host_file, "tenants", "disable")
        assert (ben.code(SEARCH, ASKED), ben.tools(), anna.tools()) == (-32602, set(), set())
        engram(host_file, "tenants", "enable")
        assert (ben.code(SEARCH, ASKED), anna.code(SEARCH, ASKED)) == ("ok", -32602)


def test_a_rate_is_of_each_principal(host_file):
    change(host_file, "# mutations_per_minute = 60", "mutations_per_minute = 2")
    change(host_file, "# calls_per_minute = 600", "calls_per_minute = 4")
    with TeamServer(host_file) as team:
        anna, ben = Speaker(team, ANNA_TOKEN), Speaker(team, BEN_TOKEN)
        codes = [anna.code(CAPTURE, capture_arguments(f"하나 {number}")) for number in range(3)]
        assert codes == ["ok", "ok", "RATE_LIMITED"]
        codes = [anna.code(SEARCH, ASKED) for _ in range(3)]
        assert codes == ["ok", "ok", "RATE_LIMITED"]
        assert [ben.code(SEARCH, ASKED) for _ in range(4)] == ["ok"] * 4
    refusals = [line for line in team.log if line["event"] == "call" and line["code"] != "ok"]
    assert {line["code"] for line in refusals} == {"RATE_LIMITED"}
    assert all("room again in" in line["detail"] for line in refusals)

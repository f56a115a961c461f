"""Principals that come and go while a server runs: whoever is taken out of the host file has lost access."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import anyio
import httpx2
import pytest

from tests.tools.memory.world import PURPOSE, capture_arguments, forgetting, key
from tests.tools.server.echo_server import EchoService
from tests.tools.server.http.team import (
    ANNA_TOKEN,
    BEN_TOKEN,
    LIST,
    SIGNED,
    STATIC,
    Issuer,
    TeamServer,
    answer_of,
    call,
    made_team,
    modern,
)
from tools.cli.main import run
from tools.server.http.ending import Ending
from tools.server.http.endpoints import Endpoint
from tools.server.http.metrics import Metrics
from tools.server.http.refusing import Refusal
from tools.server.http.tokens import Identity

SEARCH = call("engram_memory_search", {"query": "x", "purpose_ref": PURPOSE})
CLEO_TOKEN = "c" * 40
CLEO = f"""
[[http.tokens]]
name = "cleo"
file = "cleo.token"
[[http.principals]]
token = "cleo"
principal = "Cleo"
tools = ["engram_memory_search"]
purposes = ["{PURPOSE}"]
"""


@pytest.fixture
def host_file(tmp_path):
    return made_team(tmp_path, STATIC)


def rewritten(host_file, change):
    text = host_file.read_text(encoding="utf-8")
    changed = change(text)
    assert changed != text
    host_file.write_text(changed, encoding="utf-8")


def without_ben(text):
    head, _, _ = text.rpartition('[[http.principals]]\ntoken = "ben"')
    return head


def until(team, event, times=1):
    """Wait for a line of the log; nothing else says that the file was read again."""
    ends = time.monotonic() + 60
    while sum(line["event"] == event for line in team.log) < times:
        assert time.monotonic() < ends, team.log
        time.sleep(0.02)


def status(team, token, **headers):
    return team.post(LIST, token, **headers).status_code


def tools(team, token, session):
    answer = answer_of(team.post(LIST, token, mcp_session_id=session))
    return {tool["name"] for tool in answer["result"]["tools"]}


def test_who_is_taken_out_has_lost_access_and_nobody_else_notices(host_file):
    with TeamServer(host_file) as team:
        anna, ben = team.opened(ANNA_TOKEN), team.opened(BEN_TOKEN)
        assert status(team, BEN_TOKEN, mcp_session_id=ben) == 200
        rewritten(host_file, without_ben)
        until(team, "principals read again")
        assert status(team, BEN_TOKEN, mcp_session_id=ben) == 403
        message, headers = modern(SEARCH)
        assert team.post(message, BEN_TOKEN, **headers).status_code == 403
        assert status(team, ANNA_TOKEN, mcp_session_id=anna) == 200
        assert answer_of(team.post(SEARCH, ANNA_TOKEN, mcp_session_id=anna))["result"]["structuredContent"]["ok"]
        assert team.end() == 0


def test_a_stream_that_was_open_ends(host_file):
    with TeamServer(host_file) as team:
        ben = team.opened(BEN_TOKEN)
        ended = threading.Event()

        def listen():
            headers = {
                "authorization": f"Bearer {BEN_TOKEN}", "mcp-session-id": ben, "accept": "text/event-stream",
            }  # fmt: skip
            with (
                httpx2.Client(trust_env=False, timeout=90) as client,
                client.stream("GET", f"{team.url}/mcp", headers=headers) as stream,
            ):
                opened.set()
                for _ in stream.iter_raw():
                    pass
            ended.set()

        opened = threading.Event()
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert opened.wait(30)
        rewritten(host_file, without_ben)
        assert ended.wait(30)
        thread.join(30)
        assert team.end() == 0


def test_who_is_added_is_served(host_file):
    token = host_file.parent / "cleo.token"
    token.write_text(CLEO_TOKEN, encoding="utf-8")
    token.chmod(0o600)
    with TeamServer(host_file) as team:
        anna = team.opened(ANNA_TOKEN)
        assert status(team, CLEO_TOKEN) == 401
        rewritten(host_file, lambda text: text + CLEO)
        until(team, "principals read again")
        assert tools(team, CLEO_TOKEN, team.opened(CLEO_TOKEN)) == {"engram_memory_search"}
        assert status(team, ANNA_TOKEN, mcp_session_id=anna) == 200
        token.write_text("d" * 40, encoding="utf-8")  # a token that is changed is another
        until(team, "principals read again", 2)
        assert status(team, CLEO_TOKEN) == 401
        assert tools(team, "d" * 40, team.opened("d" * 40)) == {"engram_memory_search"}
        assert status(team, ANNA_TOKEN, mcp_session_id=anna) == 200
        assert team.end() == 0
    secrets = (ANNA_TOKEN, BEN_TOKEN, CLEO_TOKEN, "d" * 40)
    assert not any(secret in str(team.log) for secret in secrets)


def test_whose_tools_change_begins_anew(host_file):
    with TeamServer(host_file) as team:
        ben = team.opened(BEN_TOKEN)
        assert "search_memory" in tools(team, BEN_TOKEN, ben)
        rewritten(host_file, lambda text: text.replace(', "search_memory"]\npurposes', "]\npurposes"))
        until(team, "principals read again")
        assert status(team, BEN_TOKEN, mcp_session_id=ben) == 404
        assert tools(team, BEN_TOKEN, team.opened(BEN_TOKEN)) == {"engram_memory_search", "engram_memory_get"}
        assert team.end() == 0


def test_memory_that_is_switched_off_lists_nothing(host_file):
    with TeamServer(host_file) as team:
        rewritten(host_file, lambda text: text.replace("\nenabled = true", "\nenabled = false"))
        until(team, "principals read again")
        assert tools(team, ANNA_TOKEN, team.opened(ANNA_TOKEN)) == set()
        assert team.end() == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "[[http.principals]]\nprincipal = 1\n",
        lambda text: text + "nonsense planted",
        lambda text: without_ben(text) + CLEO,  # whose token's file is not there
        lambda text: without_ben(text).replace("engram_memory_get", "engram_memory_geet"),
    ],
    ids=["a type", "no TOML", "no token", "a name"],
)
def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_of(host_file, change):
    with TeamServer(host_file) as team:
        ben = team.opened(BEN_TOKEN)
        rewritten(host_file, change)
        until(team, "principals_not_read_again")
        assert status(team, BEN_TOKEN, mcp_session_id=ben) == 200
        host_file.unlink()
        until(team, "principals_not_read_again", 2)
        assert status(team, BEN_TOKEN, mcp_session_id=ben) == 200
        assert team.end() == 0
    told = [line for line in team.log if line["event"] == "principals_not_read_again"]
    assert len(told) == 2
    assert all(line["detail"] and "planted" not in line["detail"] for line in told)


def test_what_else_changes_waits_for_the_next_start(host_file):
    with TeamServer(host_file) as team:
        anna = team.opened(ANNA_TOKEN)
        rewritten(
            host_file,
            lambda text: (
                text.replace('policy = "accept-asserted"', 'policy = "adjudicate"')
                .replace('mode = "file"', 'mode = "events"')
                .replace("# calls_per_minute = 600", "calls_per_minute = 600")
            ),
        )
        until(team, "host_file_changed")
        (told,) = [line["sections"] for line in team.log if line["event"] == "host_file_changed"]
        assert told == ["admission", "grants", "limits"]
        assert status(team, ANNA_TOKEN, mcp_session_id=anna) == 200
        assert team.end() == 0


def test_whoever_is_known_by_an_issuers_claims_goes_as_well(tmp_path):
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.jwks())
    host_file = made_team(tmp_path, SIGNED)
    anna, cleo = issuer.token(), issuer.token(sub="cleo")
    with TeamServer(host_file) as team:
        assert status(team, anna, mcp_session_id=team.opened(anna)) == 200
        session = team.opened(cleo)
        rewritten(host_file, lambda text: text.replace('sub = "cleo"', 'sub = "dora"'))
        until(team, "principals read again")
        assert status(team, cleo, mcp_session_id=session) == 403
        dora = issuer.token(sub="dora")
        assert status(team, dora, mcp_session_id=session) == 404  # another's session is none
        assert status(team, dora, mcp_session_id=team.opened(dora)) == 200
        assert team.end() == 0


def test_a_token_that_changes_hands_is_its_new_holders(host_file):
    """The name of a token stays, its secret and whom it is bound to change."""
    with TeamServer(host_file) as team:
        anna = team.opened(ANNA_TOKEN)
        (host_file.parent / "anna.token").write_text("e" * 40, encoding="utf-8")
        rewritten(host_file, lambda text: text.replace('principal = "Anna"', 'principal = "Eve"'))
        until(team, "principals read again")
        assert status(team, ANNA_TOKEN, mcp_session_id=anna) == 401
        assert status(team, "e" * 40, mcp_session_id=anna) == 404
        assert team.end() == 0


def test_a_call_that_waits_for_a_person_is_given_up_and_cannot_be_approved_any_more(host_file, capsys):
    def confirm(*words):
        capsys.readouterr()
        code = run(["confirm", *words, "--config", str(host_file)])
        return code, capsys.readouterr().out

    with TeamServer(host_file) as team:
        anna = team.opened(ANNA_TOKEN)

        def told(name, arguments):
            return answer_of(team.post(call(name, arguments), ANNA_TOKEN, mcp_session_id=anna))

        captured = told("engram_memory_capture", capture_arguments("One."))["result"]["structuredContent"]
        asked = {"candidate_id": captured["output"]["value"]["candidate_id"], "idempotency_key": key()}
        outcome = told("engram_memory_request_admission", asked)["result"]["structuredContent"]["output"]["value"]
        arguments = forgetting(outcome["outcome"]["record_id"])
        ended = threading.Event()

        def forget():
            with suppress(httpx2.HTTPError, ValueError, KeyError, IndexError):  # its stream may break off
                told("engram_memory_forget", arguments)
            ended.set()

        thread = threading.Thread(target=forget, daemon=True)
        thread.start()
        ends = time.monotonic() + 30
        while not (waiting := json.loads(confirm("list", "--json")[1])):
            assert time.monotonic() < ends
        rewritten(host_file, lambda text: text.partition('[[http.principals]]\ntoken = "anna"')[0])
        until(team, "principals read again")
        assert ended.wait(30)  # it would have waited for 50 s
        thread.join(30)
        code, _ = confirm("approve", waiting[0]["confirmation_id"])
        assert code == 1
        assert team.end() == 0


def test_a_request_that_was_admitted_just_before_is_refused():
    endpoint = Endpoint(EchoService(), ThreadPoolExecutor(1), Ending(Metrics()), version="0", name="ben")
    endpoint.end()

    async def nothing(*_):
        raise AssertionError("neither read nor answered")

    async def handled():
        scope = {"type": "http", "method": "POST", "headers": []}
        await endpoint.handle(Identity(token="ben"), scope, nothing, nothing)

    with pytest.raises(Refusal) as refused:
        anyio.run(handled)
    assert refused.value.status == 503

"""The parts of the HTTP server by themselves: static secrets, bodies, figures, addresses, and one engine for many."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from journal import limits
from journal.clock import instant
from journal.lifecycle import State
from journal.scope import Scope
from tests.tools.memory.world import NOW, OTHER, binding
from tools.host.exceptions import HostFileError
from tools.host.http import Http, TokenSource
from tools.memory.service import MemoryService
from tools.memory.sweeper import Sweeper
from tools.server.http import serving
from tools.server.http.bodies import Bodies, Gone
from tools.server.http.ending import Ending
from tools.server.http.endpoints import Endpoint
from tools.server.http.metrics import Metrics
from tools.server.http.refusing import Refusal
from tools.server.http.serving import Served, bound_socket, make_room_for_files, serve_http
from tools.server.http.site import metadata_address, resource_of, security_of
from tools.server.http.tokens import StaticTokens, TokenRefused, verifier_of
from tools.server.schemas import TOOL_NAMES, definitions


def http_with(*tokens: TokenSource, **changes) -> Http:
    made = {
        "host": "127.0.0.1", "port": 1, "allowed_hosts": (), "allowed_origins": (), "audience": None, "issuer": None,
        "jwks": None, "tokens": tokens, "principals": (), **changes,
    }  # fmt: skip
    return Http(**made)


# --- static tokens ----------------------------------------------------------------------------------


def test_static_tokens_by_file_and_by_environment(tmp_path):
    path = tmp_path / "token"
    path.write_text("f" * 32 + "\n", encoding="ascii")
    path.chmod(0o600)
    http = http_with(TokenSource("file", path, None), TokenSource("env", None, "TOKEN"))
    verifier = verifier_of(http, tmp_path / "engram.toml", {"TOKEN": "e" * 32})

    async def names():
        given = [
            await verifier.identity(f"{scheme} {secret * 32}") for scheme, secret in (("Bearer", "f"), ("bearer", "e"))
        ]
        with pytest.raises(TokenRefused):
            await verifier.identity("Bearer " + "f" * 31)
        return [identity.token for identity in given]

    assert anyio.run(names) == ["file", "env"]


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"f" * 31, 0o600, "too short"),
        (b"", 0o600, "is empty"),
        (b"f" * 40, 0o640, "open to others"),
        (b"f" * 40, 0o604, "open to others"),
        (b"f" * 20 + b" " + b"f" * 20, 0o600, "no plain text"),
        ("비밀".encode() * 20, 0o600, "no plain text"),
        (None, 0o600, "cannot be read"),
    ],
)
def test_a_static_token_that_is_none(tmp_path, content, mode, said):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(HostFileError, match=said) as refused:
        verifier_of(http_with(TokenSource("a", path, None)), tmp_path / "engram.toml", {})
    assert "ffff" not in str(refused.value)


def test_one_secret_under_two_names_and_one_that_is_not_set(tmp_path):
    twice = http_with(TokenSource("a", None, "A"), TokenSource("b", None, "B"))
    with pytest.raises(HostFileError, match="another name"):
        verifier_of(twice, tmp_path, {"A": "s" * 32, "B": "s" * 32})
    with pytest.raises(HostFileError, match="not set"):
        verifier_of(twice, tmp_path, {"A": "s" * 32})


def test_no_secret_shows_where_tokens_are_printed():
    assert "s" * 32 not in repr(vars(StaticTokens({"a": "s" * 32})))


# --- bodies -----------------------------------------------------------------------------------------


def request_of(*messages, headers=(("content-type", "application/json"),)):
    waiting = list(messages)

    async def receive():
        if not waiting:
            await anyio.sleep_forever()
        return waiting.pop(0)

    raw = [(name.encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "method": "POST", "path": "/mcp", "headers": raw}, receive)


def piece(body, *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def taken(bodies, request):
    async def scenario():
        async with bodies.held(request) as body:
            assert bodies.held_bytes == len(body)
            return body

    return anyio.run(scenario)


def test_a_body_in_pieces_is_held_while_it_is_answered():
    bodies = Bodies()
    assert taken(bodies, request_of(piece(b"ab", more=True), piece(b"c"))) == b"abc"
    assert bodies.held_bytes == 0


@pytest.mark.parametrize(
    ("bodies", "messages", "status"),
    [
        (Bodies(max_bytes=2), [piece(b"ab", more=True), piece(b"c")], 413),
        (Bodies(held_max_bytes=2), [piece(b"abc")], 503),
        (Bodies(seconds=0.01), [piece(b"ab", more=True)], 408),
    ],
)
def test_bounds_of_a_body(bodies, messages, status):
    with pytest.raises(Refusal) as refused:
        taken(bodies, request_of(*messages))
    assert refused.value.status == status
    assert refused.value.headers["Connection"] == "close"
    assert bodies.held_bytes == 0


def test_a_client_that_hangs_up_within_its_body():
    bodies = Bodies()
    with pytest.raises(Gone):
        taken(bodies, request_of(piece(b"ab", more=True), {"type": "http.disconnect"}))
    assert bodies.held_bytes == 0


@pytest.mark.parametrize("declared", ["4194305", "9" * 5_000])
def test_a_body_that_says_that_it_is_too_large_is_not_read(declared):
    headers = (("content-type", "application/json"), ("content-length", declared))
    with pytest.raises(Refusal) as refused:
        taken(Bodies(), request_of(headers=headers))
    assert refused.value.status == 413


# --- figures and addresses --------------------------------------------------------------------------


def test_the_figures_as_prometheus_reads_them():
    metrics = Metrics()
    metrics.count_call("engram_memory_get", "ok", 0.004)
    metrics.count_call("engram_memory_get", "NOT_FOUND", 0.3)
    metrics.count_call("engram_memory_get", "ok", 90)
    metrics.count_refusal("host")
    with metrics.call():
        assert "engram_calls_in_flight 1\n" in metrics.text()
    lines = metrics.text().splitlines()
    assert 'engram_calls_total{tool="engram_memory_get",code="ok"} 2' in lines
    assert 'engram_call_seconds_bucket{tool="engram_memory_get",le="0.005"} 1' in lines
    assert 'engram_call_seconds_bucket{tool="engram_memory_get",le="0.5"} 2' in lines
    assert 'engram_call_seconds_bucket{tool="engram_memory_get",le="60.0"} 2' in lines
    assert 'engram_call_seconds_bucket{tool="engram_memory_get",le="+Inf"} 3' in lines
    assert 'engram_call_seconds_sum{tool="engram_memory_get"} 90.304000' in lines
    assert 'engram_call_seconds_count{tool="engram_memory_get"} 3' in lines
    assert 'engram_requests_refused_total{reason="host"} 1' in lines
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")} <= {
        name + end for name in named for end in ("", "_bucket", "_sum", "_count")
    }


@pytest.mark.parametrize(
    ("audience", "resource", "metadata"),
    [
        (
            "https://m.example/mcp",
            "https://m.example/mcp",
            "https://m.example/.well-known/oauth-protected-resource/mcp",
        ),
        ("https://m.example/", "https://m.example/", "https://m.example/.well-known/oauth-protected-resource"),
        ("memory", "http://127.0.0.1:7/mcp", "http://127.0.0.1:7/.well-known/oauth-protected-resource/mcp"),
        (None, "http://127.0.0.1:7/mcp", "http://127.0.0.1:7/.well-known/oauth-protected-resource/mcp"),
    ],
)
def test_the_address_by_which_a_server_is_known(audience, resource, metadata):
    assert resource_of(http_with(audience=audience), "127.0.0.1", 7) == resource
    assert metadata_address(resource) == metadata


def test_local_names_are_taken_at_a_local_address_alone():
    named = http_with(allowed_hosts=("m.example",))
    assert "localhost:7" in security_of(named, "::1", 7).allowed_hosts
    assert security_of(named, "192.0.2.1", 7).allowed_hosts == ["m.example"]
    assert security_of(named, "192.0.2.1", 7).enable_dns_rebinding_protection


# --- the room of one principal ----------------------------------------------------------------------


@pytest.mark.parametrize(("calls", "waiting"), [(1, 0), (1, 8), (2, 8)])
def test_a_principal_has_no_more_under_way_than_there_is_room_for(world, agent, monkeypatch, calls, waiting):
    monkeypatch.setattr(limits, "HTTP_PRINCIPAL_CALLS_MAX", calls)
    monkeypatch.setattr(limits, "HTTP_PRINCIPAL_WAITING_MAX", waiting)
    monkeypatch.setattr(limits, "HTTP_ROOM_SECONDS", 0.01)
    ctx: Any = SimpleNamespace(method="tools/call", request_id=1, request=None)
    answers: list[Any] = []

    async def scenario():
        ending, begun = Ending(Metrics()), 0
        release, all_begun, all_refused = anyio.Event(), anyio.Event(), anyio.Event()
        with ThreadPoolExecutor(1) as workers:
            endpoint = Endpoint(agent.service, workers, ending, version="0", name="one")

            async def serve(_ctx):
                nonlocal begun
                begun += 1
                if begun == calls:
                    all_begun.set()
                await release.wait()
                return {"isError": False}

            async def ask():
                answers.append(await endpoint._within_room(ctx, serve))
                if len(answers) == 4 - calls:
                    all_refused.set()

            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(ask)
                await all_begun.wait()
                await all_refused.wait()
                assert (begun, ending.calls) == (calls, calls)
                release.set()
            assert await ending.idle(0)
            await endpoint._within_room(ctx, serve)  # there is room again
            listing: Any = SimpleNamespace(method="tools/list", request_id=1)
            await endpoint._within_room(listing, serve)
            assert begun == calls + 2

    anyio.run(scenario)
    codes = [each["structuredContent"]["error"]["code"] for each in answers if each["isError"]]
    assert codes == ["RATE_LIMITED"] * (4 - calls)


# --- one engine for many ----------------------------------------------------------------------------


def test_a_view_of_an_engine_shares_everything_but_the_binding(world, agent):
    sweeper = Sweeper(agent.engine)
    try:
        view = agent.engine.bound_to(binding(OTHER, principal="principal:two"))
        assert view.journal is agent.engine.journal
        assert view.projections(OTHER) is agent.engine.projections(OTHER)
        assert view.waiting is agent.engine.waiting
        assert view.nudge == sweeper.nudge
        assert (view.binding.scope, agent.engine.binding.scope) == (OTHER, agent.scope)
        assert MemoryService(view).purposes() == MemoryService(agent.engine).purposes()
    finally:
        sweeper.close()


def test_a_sweeper_sweeps_the_scopes_of_all(world, agent):
    there = world.caller(OTHER, principal="principal:two")
    retention = {"derivative_rule": "make-ineligible", "expires_at": instant(NOW + 60_000)}
    mine, theirs = (each.capture("it expires", retention=retention) for each in (agent, there))
    assert (agent.admit(mine)["status"], there.admit(theirs)["status"]) == ("accepted", "accepted")
    world.clock.advance(milliseconds=60_000)
    sweeper = Sweeper(agent.engine, [there.engine.binding])
    try:
        sweeper.sweep()
    finally:
        sweeper.close()
    assert (agent.state(mine), there.state(theirs)) == (State.EXPIRED, State.EXPIRED)


def test_no_argument_of_a_tool_has_a_header():
    """So long as this holds, the library need not be told any schema."""
    assert "x-mcp-header" not in json.dumps(definitions(TOOL_NAMES, ["purpose:work"]))


def test_the_process_may_open_what_its_scopes_need(monkeypatch):
    import resource

    set_to = []
    monkeypatch.setattr(resource, "setrlimit", lambda _which, pair: set_to.append(pair))
    for soft, hard in ((1_024, 1_000_000), (1_024, 4_096), (900_000, 1_000_000), (1_024, resource.RLIM_INFINITY)):
        monkeypatch.setattr(resource, "getrlimit", lambda _which, pair=(soft, hard): pair)
        make_room_for_files(256)
    assert set_to == [(5_376, 1_000_000), (4_096, 4_096), (5_376, resource.RLIM_INFINITY)]


def test_a_server_that_fails_says_so_without_the_words_of_an_exception(capfd, monkeypatch):
    monkeypatch.setattr(serving, "quieten_libraries", lambda: None)  # the log of this process is the tests'
    served = Served(http=http_with(), verifier=None, services=[None], look=print, version="0", home=Scope.of("t", "w"))  # type: ignore[arg-type,list-item]  # it is to fail
    with bound_socket("127.0.0.1", 0) as listening, pytest.raises(SystemExit) as ended:
        serve_http(served, "127.0.0.1", listening)
    assert ended.value.code == 1
    assert json.loads(capfd.readouterr().err.splitlines()[-1])["error"] == "ValueError"

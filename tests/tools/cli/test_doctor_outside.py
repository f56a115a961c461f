"""engram doctor on what the server asks: a policy outside, an issuer's keys, tokens, a collector."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from tests.projections.vector.endpoints import endpoint
from tests.tools.cli.desk import Desk, ready
from tests.tools.cli.examined import examined
from tests.tools.host.policy_services import decided, program, saying
from tests.tools.server.http.team import Issuer
from tools.cli.checkup.policy import PROBE

BY_COMMAND = 'policy = "command"\npolicy_id = "ours"\npolicy_version = "3"\ncommand = '
BY_HTTP = 'policy = "http"\npolicy_id = "ours"\npolicy_version = "3"\nurl = '
SECRET = "planted" * 6


@pytest.fixture
def desk(directory, capsys):
    return ready(directory, capsys)


def with_admission(desk: Desk, section: str) -> None:
    text = desk.host_file.read_text(encoding="utf-8")
    assert 'policy = "adjudicate"' in text
    desk.host_file.write_text(text.replace('policy = "adjudicate"', section), encoding="utf-8")


def with_http(desk: Desk, section: str) -> None:
    text = desk.host_file.read_text(encoding="utf-8").partition("\n[http]\n")[0]
    desk.host_file.write_text(f"{text}\n[http]\n{section}", encoding="utf-8")


def change(desk: Desk, old: str, new: str) -> None:
    text = desk.host_file.read_text(encoding="utf-8")
    assert old in text
    desk.host_file.write_text(text.replace(old, new), encoding="utf-8")


def now() -> int:
    return int(time.time() * 1000)


def codes(desk: Desk) -> set[str]:
    return {each["code"] for each in desk.run("doctor", "--json").json["checks"]}


# --- the policy -------------------------------------------------------------------------------------


def test_a_policy_of_this_process_is_asked_nothing(desk):
    assert "POLICY" not in codes(desk)


def test_a_program_that_answers(desk, tmp_path):
    command = program(tmp_path, "say(decided(request, int(time.time() * 1000)))")
    with_admission(desk, BY_COMMAND + json.dumps(command))
    assert examined(desk) == {}
    assert "POLICY" in codes(desk)


def test_a_service_that_answers_is_told_that_it_is_a_probe_and_decides_nothing(desk):
    desk.captured("A sentence about kingfishers.")
    waiting = desk.json("candidates", "list")
    with endpoint(saying(lambda request: decided(request, now()))) as there:
        with_admission(desk, BY_HTTP + json.dumps(there.address))
        assert set(examined(desk)) <= {"CANDIDATES_WAIT"}
    (asked,) = there.asked
    assert asked.body["evidence_ref"] == PROBE
    assert asked.body["candidate_envelope_ref"] == "candidate_" + "0" * 64
    assert {asked.body[name] for name in asked.body if name.endswith("_digest")} == {"sha256:" + "0" * 64}
    assert desk.json("candidates", "list") == waiting


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda request: decided(request, now(), policy_version="4"), "POLICY_STALE"),
        (lambda request: decided(request, now() + 60_000), "POLICY_STALE"),
        (lambda request: decided(request, now(), record_digest="sha256:" + "1" * 64), "POLICY_ANSWER_WRONG"),
        (lambda request: decided(request, now(), receipt_digest="sha256:" + "1" * 64), "POLICY_ANSWER_WRONG"),
        (lambda request: {**decided(request, now()), "seventh": 1}, "POLICY_UNAVAILABLE"),
        (lambda _: ["kingfishers"], "POLICY_UNAVAILABLE"),
    ],
)
def test_a_service_that_answers_wrong(desk, make, code):
    with endpoint(saying(make)) as there:
        with_admission(desk, BY_HTTP + json.dumps(there.address))
        found = examined(desk)
    assert set(found) == {code}
    assert found[code]["severity"] == "fault"
    assert "kingfishers" not in found[code]["detail"]


def test_a_service_that_is_not_there(desk):
    with socket.socket() as taken:  # bound and not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        with_admission(desk, f'{BY_HTTP}"http://127.0.0.1:{taken.getsockname()[1]}/"')
        found = examined(desk)
    assert "ConnectionRefusedError" in found["POLICY_UNAVAILABLE"]["detail"]


@pytest.mark.parametrize("status", [401, 500])
def test_a_service_that_refuses(desk, status):
    with endpoint(saying(lambda request: decided(request, now()), status)) as there:
        with_admission(desk, BY_HTTP + json.dumps(there.address))
        found = examined(desk)
    assert str(status) in found["POLICY_UNAVAILABLE"]["detail"]


def test_a_token_for_a_service_that_cannot_be_read(desk, monkeypatch):
    with endpoint(saying(lambda request: decided(request, now()))) as there:
        with_admission(desk, f'{BY_HTTP}{json.dumps(there.address)}\nbearer_file = "policy.token"')
        assert examined(desk)["POLICY_TOKEN_UNREADABLE"]["severity"] == "fault"
        path = desk.place / "policy.token"
        path.write_text(SECRET, encoding="utf-8")
        path.chmod(0o644)
        assert "open to others" in examined(desk)["POLICY_TOKEN_UNREADABLE"]["detail"]
        assert there.asked == []
        path.chmod(0o600)
        assert examined(desk) == {}
        assert there.asked[0].headers["Authorization"] == f"Bearer {SECRET}"
        text = desk.host_file.read_text(encoding="utf-8")
        desk.host_file.write_text(text.replace('file = "policy.token"', 'env = "POLICY"'), encoding="utf-8")
        assert examined(desk)["POLICY_TOKEN_UNREADABLE"]["severity"] == "warning"
        monkeypatch.setenv("POLICY", SECRET)
        assert examined(desk) == {}
        assert SECRET not in desk.run("doctor", "--json").out


@pytest.mark.parametrize(("mode", "said"), [(None, "is not there"), (0o600, "may not be run")])
def test_a_program_that_cannot_be_run(desk, mode, said):
    path = desk.place / "policy"
    if mode is not None:
        path.write_text("#!/bin/sh\n", encoding="utf-8")
        path.chmod(mode)
    with_admission(desk, BY_COMMAND + '["./policy"]')
    assert said in examined(desk)["POLICY_COMMAND_MISSING"]["detail"]


def test_a_program_that_fails_and_one_that_is_slow(desk, tmp_path):
    with_admission(desk, BY_COMMAND + json.dumps(program(tmp_path, "print('kingfishers'); sys.exit(3)")))
    found = examined(desk)["POLICY_UNAVAILABLE"]
    assert "exit code 3" in found["detail"]
    assert "kingfishers" not in str(found)
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace("timeout_seconds = 10", "timeout_seconds = 1"), encoding="utf-8")
    program(tmp_path, "time.sleep(60)")
    assert "the time is over" in examined(desk)["POLICY_UNAVAILABLE"]["detail"]


# --- over HTTP --------------------------------------------------------------------------------------


def principal(known_by: str, **changes: Any) -> str:
    fields = {
        "principal": '"Anna"', "tools": '["engram_memory_search"]', "purposes": '["purpose:work"]',
        **{name: json.dumps(value) for name, value in changes.items()},
    }  # fmt: skip
    return f"[[http.principals]]\n{known_by}\n" + "".join(f"{name} = {value}\n" for name, value in fields.items())


def signed(jwks: str) -> str:
    return f'audience = "https://memory.example.org/mcp"\nissuer = "https://login.example.org"\njwks = "{jwks}"\n'


def test_a_host_that_serves_nobody_over_http_is_told_nothing_of_it(desk):
    assert not codes(desk) & {"HTTP_TOKENS", "HTTP_PRINCIPALS", "JWKS", "TELEMETRY"}


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [(None, 0, "cannot be read"), (SECRET, 0o644, "open to others"), ("short", 0o600, "too short")],
)
def test_a_static_token_that_the_server_would_not_take(desk, content, mode, said):
    token = '[[http.tokens]]\nname = "anna"\nfile = "anna.token"\n'
    with_http(desk, token + principal('token = "anna"'))
    if content is not None:
        path = desk.place / "anna.token"
        path.write_text(content, encoding="utf-8")
        path.chmod(mode)
    found = examined(desk)
    assert set(found) == {"HTTP_TOKEN_REFUSED"}
    assert said in found["HTTP_TOKEN_REFUSED"]["detail"]
    assert SECRET not in str(found)


def test_a_token_of_the_environment_may_be_there_for_the_server_alone(desk, monkeypatch):
    token = '[[http.tokens]]\nname = "anna"\nenv = "ANNA"\n'
    with_http(desk, token + principal('token = "anna"'))
    found = examined(desk)["HTTP_TOKEN_REFUSED"]
    assert found["severity"] == "warning"
    assert "no server over HTTP starts where it is so for the server too" in found["detail"]
    monkeypatch.setenv("ANNA", SECRET)
    assert examined(desk) == {}


def test_an_issuer_whose_keys_are_there_and_not(desk):
    path = desk.place / "jwks.json"
    with_http(desk, signed("jwks.json") + principal('claims = { sub = "anna" }'))
    assert "No such file" in examined(desk)["JWKS_UNAVAILABLE"]["detail"]
    path.write_bytes(b"kingfishers")
    assert examined(desk)["JWKS_UNAVAILABLE"]["detail"].endswith("no JSON")
    path.write_bytes(b'{"keys": [{"kty": "oct", "kid": "a", "k": "AA"}]}')
    assert set(examined(desk)) == {"JWKS_EMPTY"}
    path.write_bytes(Issuer().jwks())
    assert examined(desk) == {}


def test_an_issuer_that_is_not_there(desk):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        jwks = f"http://127.0.0.1:{taken.getsockname()[1]}/jwks.json"
        with_http(desk, signed(jwks) + principal('claims = { sub = "anna" }'))
        assert "ConnectionRefusedError" in examined(desk)["JWKS_UNAVAILABLE"]["detail"]


def test_principals_that_can_do_nothing(desk, monkeypatch):
    monkeypatch.setenv("ANNA", SECRET)
    token = '[[http.tokens]]\nname = "anna"\nenv = "ANNA"\n'
    with_http(desk, token)
    assert set(examined(desk)) == {"NO_HTTP_PRINCIPALS", "HTTP_TOKEN_UNUSED"}
    with_http(desk, token + principal('token = "anna"', tools=[]))
    assert "no tool" in examined(desk)["HTTP_PRINCIPAL_OFF"]["detail"]
    with_http(desk, token + principal('token = "anna"', tenant="elsewhere"))
    assert "not opted in" in examined(desk)["HTTP_PRINCIPAL_OFF"]["detail"]


def test_what_nobody_over_http_could_have_approved(desk, monkeypatch):
    monkeypatch.setenv("ANNA", SECRET)
    token = '[[http.tokens]]\nname = "anna"\nenv = "ANNA"\n'
    change(desk, 'channels = ["console"]', 'channels = ["elicitation"]')
    change(desk, "trusted_clients = []", 'trusted_clients = ["claude-code"]')
    with_http(desk, token + principal('token = "anna"'))
    assert examined(desk) == {}
    with_http(desk, token + principal('token = "anna"', tools=["engram_memory_search", "engram_memory_forget"]))
    found = examined(desk)["HTTP_NEVER_CONFIRMED"]
    assert found["detail"].startswith("engram_memory_forget always fail")
    change(desk, 'channels = ["elicitation"]', 'channels = ["console", "elicitation"]')
    assert examined(desk) == {}


# --- telemetry --------------------------------------------------------------------------------------


def test_a_collector_without_the_libraries(desk, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("tools.cli.checkup.telemetry._LIBRARIES", ("no_such_library.at_all",))
    assert examined(desk)["TELEMETRY_MISSING"]["severity"] == "warning"
    monkeypatch.setattr("tools.cli.checkup.telemetry._LIBRARIES", ("opentelemetry.trace",))
    assert examined(desk) == {}
    assert "TELEMETRY" in codes(desk)

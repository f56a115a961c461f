"""Policies behind a command and behind HTTP: unreachable, slow, lying. The right code each, the candidate pending."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from journal.clock import instant
from journal.lifecycle import State
from projections.address import address_of
from tests.projections.vector.endpoints import Reply, endpoint, send
from tests.tools.host.policy_services import decided, program, saying
from tests.tools.memory.world import NOW, Caller, World, key
from tools.host.bearer import TokenPlace
from tools.host.capabilities import REQUEST_ADMISSION
from tools.host.policies.by_command import CommandPolicy
from tools.host.policies.over_http import HttpPolicy


def admission(candidate_id: str) -> dict[str, Any]:
    return {"candidate_id": candidate_id, "idempotency_key": key()}


def by_command(world: World, command: tuple[str, ...], seconds: float = 20) -> Caller:
    return world.caller(policy_port=CommandPolicy(command, "outside", "7", timeout_seconds=seconds))


def over_http(world: World, url: str, seconds: float = 20) -> Caller:
    address = address_of(url)
    assert address is not None
    return world.caller(policy_port=HttpPolicy(address, "outside", "7", timeout_seconds=seconds))


def stays_pending(agent: Caller, misled: Caller, code: str) -> None:
    """Ask for admission, be refused with the code, and find nothing written and nothing reserved."""
    candidate_id = agent.capture()
    arguments = admission(candidate_id)
    before = agent.head
    document = misled.call(REQUEST_ADMISSION, arguments)
    assert (document["ok"], document["error"]["code"]) == (False, code)
    assert document["error"]["retriable"] is (code != "INVALID_DIGEST")
    assert agent.state(candidate_id) is State.PENDING
    assert agent.head == before
    assert agent.value(REQUEST_ADMISSION, arguments)["outcome"]["status"] == "accepted"


@pytest.mark.parametrize(
    ("decision", "status"),
    [("accept", "accepted"), ("reject", "rejected"), ("adjudication_required", "pending_adjudication")],
)
def test_a_program_and_a_service_decide(world, tmp_path, decision, status):
    agent = by_command(world, program(tmp_path, f"say(decided(request, {NOW}, {decision!r}))"))
    assert agent.admit(agent.capture("by command"))["status"] == status
    with endpoint(saying(lambda request: decided(request, NOW, decision))) as there:
        agent = over_http(world, there.address)
        assert agent.admit(agent.capture("over http"))["status"] == status


ASKED = {
    "policy_id", "policy_version", "record_digest", "payload_digest", "candidate_envelope_ref", "evidence_digest",
    "evidence_ref", "deadline",
}  # fmt: skip


def test_what_goes_out_is_digests_and_references_alone(world, tmp_path):
    heard = tmp_path / "heard"
    body = f"open({str(heard)!r}, 'w').write(json.dumps(request) + ' '.join(sys.argv)); say(decided(request, {NOW}))"
    agent = by_command(world, program(tmp_path, body))
    agent.admit(agent.capture("the words themselves"))
    assert "words" not in heard.read_text()
    with endpoint(saying(lambda request: decided(request, NOW))) as there:
        agent = over_http(world, there.address)
        candidate_id = agent.capture("the words themselves, again")
        agent.admit(candidate_id)
    (asked,) = there.asked
    assert asked.path == "/v1"
    assert set(asked.body) == ASKED
    assert asked.body["candidate_envelope_ref"] == candidate_id
    assert (asked.body["policy_id"], asked.body["policy_version"]) == ("outside", "7")
    assert "words" not in str(asked)


# name -> (what the answer's fields are made to be, code)
LYING: dict[str, tuple[dict[str, Any], str]] = {
    "from the future": ({"issued_at": instant(NOW + 1)}, "POLICY_STALE"),
    "older than 300 s": ({"issued_at": instant(NOW - 300_001)}, "POLICY_STALE"),
    "another version": ({"policy_version": "8"}, "POLICY_STALE"),
    "another policy": ({"policy_id": "other"}, "POLICY_STALE"),
    "another record": ({"record_digest": "sha256:" + 64 * "0"}, "INVALID_DIGEST"),
    "another receipt": ({"receipt_digest": "sha256:" + 64 * "0"}, "INVALID_DIGEST"),
    "seven fields": ({"seventh": 1}, "POLICY_UNAVAILABLE"),
    "no decision": ({"decision": "maybe"}, "POLICY_UNAVAILABLE"),
    "no instant": ({"issued_at": "now"}, "POLICY_UNAVAILABLE"),
}


@pytest.mark.parametrize("how", LYING)
def test_a_lying_program_changes_nothing(world, agent, tmp_path, how):
    changes, code = LYING[how]
    command = program(tmp_path, f"say(decided(request, {NOW}, **{changes!r}))")
    stays_pending(agent, by_command(world, command), code)


@pytest.mark.parametrize("how", LYING)
def test_a_lying_service_changes_nothing(world, agent, how):
    changes, code = LYING[how]
    with endpoint(saying(lambda request: decided(request, NOW, **changes))) as there:
        stays_pending(agent, over_http(world, there.address), code)


FAILING = {
    "exits with 1": f"say(decided(request, {NOW})); sys.exit(1)",
    "raises": "raise ValueError",
    "prints nothing": "pass",
    "prints no JSON": "print('accept')",
    "prints two documents": f"say(decided(request, {NOW})); say(decided(request, {NOW}))",
    "prints a list": "say([])",
    "prints a name twice": f"""
document = json.dumps(decided(request, {NOW}))
print(document.replace('"decision"', '"decision": "reject", "decision"', 1))""",
    "prints nesting without end": "print('[' * 15_000)",
    "prints no UTF-8": r"sys.stdout.buffer.write(b'\xff\xfe')",
    "prints too much": "while True: print(' ' * 10_000)",
}


@pytest.mark.parametrize("how", FAILING)
def test_a_failing_program_changes_nothing(world, agent, tmp_path, how):
    stays_pending(agent, by_command(world, program(tmp_path, FAILING[how])), "POLICY_UNAVAILABLE")


def test_a_program_that_is_not_there_changes_nothing(world, agent, tmp_path):
    stays_pending(agent, by_command(world, (str(tmp_path / "none"),)), "POLICY_UNAVAILABLE")


def test_a_slow_program_changes_nothing(world, agent, tmp_path):
    command = program(tmp_path, f"time.sleep(600); say(decided(request, {NOW}))")
    stays_pending(agent, by_command(world, command, seconds=0.5), "POLICY_UNAVAILABLE")


def _closes(handler: Any, _: Any) -> None:
    handler.connection.close()


def _breaks_off(handler: Any, _: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"policy_id"')
    handler.connection.close()


def _redirects(handler: Any, _: Any) -> None:
    handler.send_response(307)
    handler.send_header("Location", "/elsewhere")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


SERVING: dict[str, Reply] = {
    "status 500": saying(lambda request: decided(request, NOW), 500),
    "status 201": saying(lambda request: decided(request, NOW), 201),
    "a redirect": _redirects,
    "closes": _closes,
    "breaks off": _breaks_off,
    "no JSON": lambda handler, _: send(handler, b"accept"),
    "too much": lambda handler, _: send(handler, b" " * 20_000),
}


@pytest.mark.parametrize("how", SERVING)
def test_a_failing_service_changes_nothing(world, agent, how):
    with endpoint(SERVING[how]) as there:
        stays_pending(agent, over_http(world, there.address), "POLICY_UNAVAILABLE")
        assert len(there.asked) == 1, "one request, whatever comes of it"


def test_an_unreachable_service_changes_nothing(world, agent):
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        stays_pending(agent, over_http(world, url), "POLICY_UNAVAILABLE")


def _trickling(handler: Any, _: Any) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        handler.wfile.flush()


@pytest.mark.parametrize("how", ["silent", "trickling"])
def test_a_slow_service_changes_nothing(world, agent, how):
    def silent(_: Any, __: Any) -> None:
        there.ended.wait(30)

    with endpoint(_trickling if how == "trickling" else silent) as there:
        stays_pending(agent, over_http(world, there.address, seconds=0.5), "POLICY_UNAVAILABLE")


def test_so_many_programs_run_at_once_and_no_more(world, agent, tmp_path, monkeypatch):
    from journal import limits

    monkeypatch.setattr(limits, "POLICY_PROGRAMS_MAX", 1)
    policy = CommandPolicy(program(tmp_path, f"say(decided(request, {NOW}))"), "outside", "7", timeout_seconds=0.1)
    deciding = world.caller(policy_port=policy)
    policy._at_once.acquire()  # one runs
    stays_pending(agent, deciding, "POLICY_UNAVAILABLE")
    policy._at_once.release()
    policy._timeout_seconds = 20
    assert deciding.admit(agent.capture("Another."))["status"] == "accepted"


def test_a_late_answer_is_none(world, agent, tmp_path):
    """An adapter that would wait longer than the question says: the deadline of the question counts."""
    misled = by_command(world, program(tmp_path, f"say(decided(request, {NOW}))"))
    decide = misled.engine.policy.decide

    class Late:
        policy_id, policy_version = "outside", "7"

        def decide(self, request: Any) -> Any:
            answered = decide(request)
            world.clock.advance(milliseconds=10_001)
            return answered

    misled.engine.policy = Late()
    candidate_id = agent.capture()
    assert misled.code(REQUEST_ADMISSION, admission(candidate_id)) == "POLICY_UNAVAILABLE"
    assert agent.state(candidate_id) is State.PENDING


def test_nothing_that_a_policy_says_is_logged(world, agent, tmp_path, capfd):
    command = program(tmp_path, "print('planted', file=sys.stderr); print('planted'); sys.exit(1)")
    by_command(world, command).code(REQUEST_ADMISSION, admission(agent.capture()))
    assert "planted" not in "".join(capfd.readouterr())


def with_token(world: World, url: str, bearer: TokenPlace, **environ: str) -> Caller:
    address = address_of(url)
    assert address is not None
    policy = HttpPolicy(address, "outside", "7", timeout_seconds=20, bearer=bearer, environ=environ)
    return world.caller(policy_port=policy)


def test_a_service_gets_the_token_that_stands_there_now(world, tmp_path, capfd):
    path = tmp_path / "policy.token"
    path.touch(mode=0o600)
    with endpoint(saying(lambda request: decided(request, NOW))) as there:
        agent = with_token(world, there.address, TokenPlace(path, None))
        for secret in ("planted-one", "planted-two"):
            path.write_text(f"{secret}\n", encoding="utf-8")
            assert agent.admit(agent.capture(f"with {secret[-3:]}"))["status"] == "accepted"
        agent = with_token(world, there.address, TokenPlace(None, "POLICY"), POLICY="planted-three")
        assert agent.admit(agent.capture("out of the environment"))["status"] == "accepted"
    told = [request.headers["Authorization"] for request in there.asked]
    assert told == ["Bearer planted-one", "Bearer planted-two", "Bearer planted-three"]
    assert "planted" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("content", "mode"),
    [("planted", 0o640), ("planted", 0o604), ("", 0o600), ("plant\ned: x", 0o600), (None, 0o600)],
)
def test_without_a_token_nothing_is_asked(world, agent, tmp_path, capfd, content, mode):
    path = tmp_path / "policy.token"
    if content is not None:
        path.write_text(content, encoding="utf-8")
        path.chmod(mode)
    with endpoint(saying(lambda request: decided(request, NOW))) as there:
        stays_pending(agent, with_token(world, there.address, TokenPlace(path, None)), "POLICY_UNAVAILABLE")
        stays_pending(agent, with_token(world, there.address, TokenPlace(None, "POLICY")), "POLICY_UNAVAILABLE")
    assert there.asked == []
    assert "planted" not in "".join(capfd.readouterr())


def test_a_service_that_refuses_the_token_changes_nothing_and_it_is_not_logged(world, agent, tmp_path, capfd):
    with endpoint(saying(lambda request: decided(request, NOW), status=401)) as there:
        misled = with_token(world, there.address, TokenPlace(None, "POLICY"), POLICY="planted")
        stays_pending(agent, misled, "POLICY_UNAVAILABLE")
    assert there.asked[0].headers["Authorization"] == "Bearer planted"
    assert "planted" not in "".join(capfd.readouterr())

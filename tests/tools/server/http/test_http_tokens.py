"""Who is let in over HTTP, and who is not: static tokens, tokens of an issuer, and every way in which one is bad."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.tools.server.http.team import (
    ALL,
    ANNA_TOKEN,
    BEN_TOKEN,
    HELLO,
    ISSUER,
    LIST,
    MODERN,
    SIGNED,
    Issuer,
    TeamServer,
    claims,
    made_team,
)  # fmt: skip


def refused(team: TeamServer, token: str | None, reason: str, status: int = 401) -> None:
    """The request is refused, in the words that every refused token gets, and the log says why and no more."""
    before = counted(team, reason)
    answer = team.post(HELLO, token)
    assert answer.status_code == status, answer.text
    challenge = answer.headers.get("www-authenticate", "")
    if status == 401:
        assert challenge.startswith("Bearer resource_metadata=")
        assert answer.json()["error"] == "invalid_token"
    assert reason not in answer.text
    assert counted(team, reason) == before + 1
    deadline = time.monotonic() + 30
    while not (said := [each for each in team.log if each.get("reason") == f"token: {reason}"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert set(said[-1]) == {"event", "reason", "status", "level", "timestamp"}


def counted(team: TeamServer, reason: str) -> int:
    """Return how often a reason was counted."""
    begins = f'engram_requests_refused_total{{reason="token: {reason}"}} '
    lines = team.ask("GET", "/metrics").text.splitlines()
    return sum(int(line.removeprefix(begins)) for line in lines if line.startswith(begins))


def segment(document: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=")


def unsigned(name: str = "none", **changes: object) -> str:
    """Return a token that says that it needs no signature, and has none."""
    return b".".join((segment({"alg": name, "kid": "es", "typ": "JWT"}), segment(claims(**changes)), b"")).decode()


def symmetric(secret: bytes, **changes: object) -> str:
    """Return a token that is signed with a secret, under the id of a public key."""
    signed = segment({"alg": "HS256", "kid": "rs", "typ": "JWT"}) + b"." + segment(claims(**changes))
    mac = base64.urlsafe_b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).rstrip(b"=")
    return (signed + b"." + mac).decode()


def test_no_token_and_foreign_ones(static_team):
    refused(static_team, None, "no token")
    assert "error=" not in static_team.post(HELLO).headers["www-authenticate"]
    refused(static_team, "c" * 40, "unknown token")
    refused(static_team, ANNA_TOKEN[:-1], "unknown token")
    refused(static_team, "x" * 9_000, "too long")
    for value in (f"Basic {ANNA_TOKEN}", "Bearer", f"Bearer {ANNA_TOKEN} x", ANNA_TOKEN):
        assert static_team.post(HELLO, authorization=value).status_code == 401
    assert static_team.post(HELLO, ANNA_TOKEN).status_code == 200


def test_a_token_in_the_address_is_none(static_team):
    assert static_team.ask("POST", f"/mcp?access_token={ANNA_TOKEN}", json=HELLO).status_code == 401


@pytest.mark.parametrize("key_id", ["rs", "es", "ed"])
def test_the_three_algorithms(signed_team, issuer, key_id):
    assert signed_team.post(HELLO, issuer.token(key_id)).status_code == 200


def test_the_official_client_with_a_token_of_the_issuer(signed_team, issuer):
    async def scenario(mode):
        async with signed_team.client(issuer.token(), mode) as client:
            return sorted(tool.name for tool in (await client.list_tools()).tools)

    for mode in ("legacy", MODERN):
        assert anyio.run(scenario, mode) == sorted(ALL)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": 1_000_000_000}, "expired"),
        ({"exp": None}, "claim missing"),
        ({"nbf": 9_000_000_000, "exp": 9_000_000_100}, "not valid yet"),
        ({"aud": "https://elsewhere.example.org/mcp"}, "foreign audience"),
        ({"aud": None}, "claim missing"),
        ({"iss": "https://login.example.com"}, "foreign issuer"),
        ({"iss": None}, "claim missing"),
    ],
)
def test_claims_that_do_not_hold(signed_team, issuer, changes, reason):
    refused(signed_team, issuer.token(**changes), reason)


@pytest.mark.parametrize(
    "changes", [{"sub": "carla"}, {"tenant": "other"}, {"tenant": None}, {"tenant": ["acme"]}, {"sub": "Anna"}]
)
def test_a_good_token_that_nobody_is_bound_to(signed_team, issuer, changes):
    refused(signed_team, issuer.token(**changes), "not bound", status=403)


def test_no_algorithm_at_all(signed_team):
    for name in ("none", "None", "nOnE"):
        refused(signed_team, unsigned(name), "algorithm")


def test_the_public_key_is_no_secret_to_sign_with(signed_team, issuer):
    pem = issuer.private["rs"][1].public_key()
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    secrets = [
        pem.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        pem.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(issuer.jwk("rs")).encode(),
    ]
    for secret in secrets:
        refused(signed_team, symmetric(secret), "algorithm")


def test_a_foreign_key_under_a_known_id(signed_team):
    foreign = ec.generate_private_key(ec.SECP256R1())
    refused(signed_team, jwt.encode(claims(), foreign, "ES256", {"kid": "es"}), "signature")


def test_a_key_of_another_algorithm_than_the_token_says(signed_team, issuer):
    token = jwt.encode(claims(), issuer.private["es"][1], "ES256", {"kid": "rs"})
    refused(signed_team, token, "algorithm")


def test_a_key_that_the_token_brings_along_counts_for_nothing(signed_team, issuer):
    foreign = Issuer()
    headers = {"kid": "es", "jwk": foreign.jwk("es"), "jku": f"{ISSUER}/evil.json"}
    refused(signed_team, foreign.token(headers=headers), "signature")


@pytest.mark.parametrize("token", ["a.b.c", "e30.e30.", "e30.e30.e30", "." * 2, "W10.e30.x", "bnVsbA.e30.x"])
def test_what_is_no_token(signed_team, token):
    assert signed_team.post(HELLO, token).status_code == 401


def test_a_header_that_nests_is_refused_and_the_server_lives(signed_team, issuer):
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 3_000).rstrip(b"=").decode()
    assert signed_team.post(HELLO, f"{deep}.e30.x").status_code == 401
    assert signed_team.post(HELLO, issuer.token()).status_code == 200


def test_a_tampered_token(signed_team, issuer):
    head, _, mac = issuer.token(sub="ben").split(".")
    refused(signed_team, f"{head}.{segment(claims(sub='anna')).decode()}.{mac}", "signature")


def test_keys_rotate_without_a_restart(tmp_path):
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.jwks())
    with TeamServer(made_team(tmp_path, SIGNED)) as team:
        assert team.post(HELLO, issuer.token("es")).status_code == 200
        issuer.rotate("new")
        (tmp_path / "jwks.json").write_bytes(issuer.jwks())
        assert team.post(HELLO, issuer.token("new")).status_code == 200
        foreign = Issuer()
        foreign.rotate("unheard-of")
        for _ in range(3):
            refused(team, foreign.token("unheard-of"), "unknown key")
        assert len([line for line in team.log if line["event"] == "keys of the issuer read"]) == 2


def test_without_keys_nobody_is_let_in_and_it_is_no_fault_of_theirs(tmp_path):
    issuer = Issuer()
    with TeamServer(made_team(tmp_path, SIGNED)) as team:
        answer = team.post(HELLO, issuer.token())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


def test_without_a_verifier_every_call_is_refused(tmp_path):
    issuer = Issuer()
    with TeamServer(made_team(tmp_path, "")) as team:
        for token in (None, ANNA_TOKEN, issuer.token()):
            assert team.post(HELLO, token).status_code == 401
            assert team.post(LIST, token).status_code == 401


def test_what_a_client_reads_before_it_has_a_token(signed_team, static_team):
    challenge = signed_team.post(HELLO).headers["www-authenticate"]
    address = "https://memory.example.org/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{address}"' in challenge
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        metadata = signed_team.ask("GET", path).json()
        assert metadata["resource"] == "https://memory.example.org/mcp"
        assert metadata["authorization_servers"] == [ISSUER]
    own = static_team.ask("GET", "/.well-known/oauth-protected-resource/mcp").json()
    assert own["resource"] == static_team.url + "/mcp"
    assert "authorization_servers" not in own


def test_another_principals_token_on_a_session(static_team):
    session = static_team.opened(ANNA_TOKEN)
    assert static_team.post(LIST, ANNA_TOKEN, mcp_session_id=session).status_code == 200
    for method in ("GET", "DELETE"):
        headers = {"mcp-session-id": session}
        assert static_team.ask(method, token=BEN_TOKEN, headers=headers).status_code == 404
        assert static_team.ask(method, headers=headers).status_code == 401
    assert static_team.post(LIST, BEN_TOKEN, mcp_session_id=session).status_code == 404
    assert static_team.post(LIST, mcp_session_id=session).status_code == 401
    assert static_team.post(LIST, ANNA_TOKEN, mcp_session_id=session).status_code == 200  # it goes on
    assert static_team.ask("DELETE", token=ANNA_TOKEN, headers={"mcp-session-id": session}).status_code == 200
    assert static_team.post(LIST, ANNA_TOKEN, mcp_session_id=session).status_code == 404


def test_a_new_token_of_the_same_person_goes_on_with_their_session(signed_team, issuer):
    session = signed_team.opened(issuer.token("es"))
    later = issuer.token("rs", exp=int(time.time()) + 900)
    assert signed_team.post(LIST, later, mcp_session_id=session).status_code == 200
    assert signed_team.post(LIST, issuer.token(sub="ben"), mcp_session_id=session).status_code == 404
    assert signed_team.post(LIST, issuer.token(exp=1_000_000_000), mcp_session_id=session).status_code == 401


def test_the_log_says_why_and_nothing_else_of_any_of_them(tmp_path):
    """Every byte that a server says is looked at: no token, no part of one, and no word of what one claims."""
    issuer, foreign = Issuer(), Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.jwks())
    public = json.dumps(issuer.jwk("rs")).encode()
    tokens = {
        "token: foreign audience": issuer.token(aud="https://planted-audience.example.org/mcp"),
        "token: foreign issuer": issuer.token(iss="https://planted-issuer.example.org"),
        "token: expired": issuer.token(exp=1_000_000_000, jti="planted-expired"),
        "token: algorithm": unsigned(sub="planted-none"),
        "token: signature": foreign.token(sub="planted-signer"),
        "token: not bound": issuer.token(tenant="planted-tenant"),
        "token: malformed": "planted.planted.planted",
        "token: unknown token": "planted" * 6,
        "token: no bearer token": "planted planted",
    }
    with TeamServer(made_team(tmp_path, SIGNED)) as team:
        for reason, token in tokens.items():
            status = team.post(HELLO, token).status_code
            assert status == (403 if reason == "token: not bound" else 401), reason
        confused = symmetric(public, sub="planted-confusion")
        assert team.post(HELLO, confused).status_code == 401
        assert team.post(HELLO).status_code == 401
        assert team.end() == 0
        said = [line["reason"] for line in team.log if line["event"] == "request refused"]
        assert said == [*tokens, "token: algorithm", "token: no token"]
        text = json.dumps(team.log)
    parts = {part for token in (*tokens.values(), confused) for part in token.split(".") if part}
    assert [part for part in parts if part in text] == []
    assert "planted" not in text
    assert "Bearer" not in text
    assert {line["event"] for line in team.log} <= {
        "serving", "request refused", "keys of the issuer read", "draining", "drained", "ended",
    }  # fmt: skip

"""A JWK set: what of it is a key, how long it is kept, and how seldom it is asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from projections.address import Address, address_of
from tests.tools.server.http.team import Issuer
from tools.server.http.keysets import KeySet, KeysUnavailable, keys_of


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Published:
    """An address at which a JWK set stands, and how often it was asked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.status = 200
        self.asked = 0
        self.port = 0

    @property
    def address(self) -> Address:
        found = address_of(f"http://127.0.0.1:{self.port}/keys")
        assert found is not None
        return found


@contextmanager
def published(content: bytes) -> Iterator[Published]:
    place = Published(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place.asked += 1
            self.send_response(place.status)
            self.send_header("Content-Length", str(len(place.content)))
            if place.status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(place.content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        place.port = server.server_address[1]
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield place
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def changed(issuer: Issuer, key_id: str, **changes: object) -> bytes:
    jwk = {name: value for name, value in {**issuer.jwk(key_id), **changes}.items() if value is not None}
    return json.dumps({"keys": [jwk]}).encode()


def test_the_three_kinds_are_keys_of_their_one_algorithm(issuer):
    keys = keys_of(issuer.jwks())
    assert {name: key.algorithm_name for name, key in keys.items()} == {"rs": "RS256", "es": "ES256", "ed": "EdDSA"}


@pytest.mark.parametrize(
    ("key_id", "changes"),
    [
        ("es", {"kid": None}),
        ("es", {"kid": 7}),
        ("es", {"use": "enc"}),
        ("es", {"alg": "ES384"}),
        ("es", {"crv": "P-384"}),
        ("es", {"crv": ["P-256"]}),
        ("es", {"x": "AA"}),
        ("es", {"y": None}),
        ("rs", {"alg": "HS256"}),
        ("rs", {"alg": "RS512"}),
        ("rs", {"n": 7}),
        ("ed", {"crv": "X25519"}),
        ("ed", {"kty": None}),
    ],
)
def test_what_is_no_key_of_a_known_kind(issuer, key_id, changes):
    assert len(keys_of(changed(issuer, key_id))) == 1
    assert keys_of(changed(issuer, key_id, **changes)) == {}


def test_a_symmetric_key_and_a_short_one_are_none():
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"}
    short = rsa.generate_private_key(public_exponent=65_537, key_size=1_024).public_key()  # noqa: S505 - that it is short is the point
    weak = {**jwt.get_algorithm_by_name("RS256").to_jwk(short, as_dict=True), "kid": "weak"}
    assert keys_of(json.dumps({"keys": [secret, weak]}).encode()) == {}


def test_of_a_private_key_only_the_public_half_is_taken():
    private = ec.generate_private_key(ec.SECP256R1())
    jwk = {**jwt.get_algorithm_by_name("ES256").to_jwk(private, as_dict=True), "kid": "es"}
    assert "d" in jwk
    key = keys_of(json.dumps({"keys": [jwk]}).encode())["es"]
    assert isinstance(key.key, ec.EllipticCurvePublicKey)


def test_an_id_that_two_keys_share_names_neither(issuer):
    document = json.dumps({"keys": [issuer.jwk("es"), {**issuer.jwk("ed"), "kid": "es"}, issuer.jwk("rs")]}).encode()
    assert list(keys_of(document)) == ["rs"]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"keys":{}}', b"\xff", b"[" * 5_000, json.dumps({"keys": [{}] * 65}).encode()]
)
def test_what_is_no_set(content):
    with pytest.raises(KeysUnavailable):
        keys_of(content)


def test_how_often_it_is_asked_for(issuer):
    async def scenario(place):
        watch = Watch()
        keys = KeySet(place.address, watch)
        assert await keys.key("es") is not None
        assert await keys.key("rs") is not None
        assert place.asked == 1
        for _ in range(5):  # an unknown id has it asked for once
            assert await keys.key("unknown") is None
        assert place.asked == 2
        watch.seconds += 9
        assert await keys.key("unknown") is None
        assert place.asked == 2
        watch.seconds += 2
        place.content = json.dumps({"keys": [{**issuer.jwk("es"), "kid": "unknown"}]}).encode()
        assert await keys.key("unknown") is not None
        assert await keys.key("es") is None  # it was taken back
        assert place.asked == 3
        watch.seconds += 299
        assert await keys.key("unknown") is not None
        assert place.asked == 3
        watch.seconds += 1
        assert await keys.key("unknown") is not None
        assert place.asked == 4

    with published(issuer.jwks()) as place:
        anyio.run(scenario, place)


def test_many_at_once_ask_once(issuer):
    async def scenario(place):
        keys = KeySet(place.address, Watch())
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(keys.key, "es")
        assert place.asked == 1

    with published(issuer.jwks()) as place:
        anyio.run(scenario, place)


@pytest.mark.parametrize("status", [404, 500, 302])
def test_an_issuer_that_does_not_answer_is_waited_for_an_hour(issuer, status):
    async def scenario(place):
        watch = Watch()
        keys = KeySet(place.address, watch)
        assert await keys.key("es") is not None
        place.status = status
        watch.seconds += 3_599
        assert await keys.key("es") is not None
        watch.seconds += 11
        with pytest.raises(KeysUnavailable):
            await keys.key("es")
        place.status = 200
        watch.seconds += 11
        assert await keys.key("es") is not None

    with published(issuer.jwks()) as place:
        anyio.run(scenario, place)


def test_a_set_that_is_too_large_is_none(issuer):
    async def scenario(place):
        with pytest.raises(KeysUnavailable):
            await KeySet(place.address, Watch()).key("es")

    with published(issuer.jwks() + b" " * 256 * 1024) as place:
        anyio.run(scenario, place)


def test_a_file_that_comes_later_is_found(tmp_path, issuer):
    async def scenario():
        watch = Watch()
        keys = KeySet(tmp_path / "jwks.json", watch)
        with pytest.raises(KeysUnavailable):
            await keys.key("es")
        (tmp_path / "jwks.json").write_bytes(issuer.jwks())
        with pytest.raises(KeysUnavailable):
            await keys.key("es")  # it was looked for just now
        watch.seconds += 10
        assert await keys.key("es") is not None

    anyio.run(scenario)

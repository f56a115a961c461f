"""A team's server: a real process over a real store, an issuer with real keys, and what clients send."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.tools.memory.world import PURPOSE, ROOT
from tools.cli.main import run

AUDIENCE = "https://memory.example.org/mcp"
ISSUER = "https://login.example.org"
MODERN = "2026-07-28"
ANNA_TOKEN, BEN_TOKEN = "a" * 40, "b" * 40
ALL = (
    "engram_memory_search", "engram_memory_get", "engram_memory_capture", "engram_memory_request_admission",
    "engram_memory_forget", "save_message", "search_memory", "memory_startup",
)  # fmt: skip

STATIC = f"""
[[http.tokens]]
name = "anna"
file = "anna.token"
[[http.tokens]]
name = "ben"
env = "BEN_TOKEN"
[[http.principals]]
token = "anna"
principal = "Anna"
tools = {list(ALL)}
purposes = ["{PURPOSE}"]
[[http.principals]]
token = "ben"
principal = "Ben"
workspace = "side"
tools = ["engram_memory_search", "engram_memory_get", "search_memory"]
purposes = ["{PURPOSE}"]
"""

SIGNED = f"""
audience = "{AUDIENCE}"
issuer = "{ISSUER}"
jwks = "jwks.json"
[[http.principals]]
claims = {{ sub = "anna", tenant = "acme" }}
principal = "Anna"
tools = {list(ALL)}
purposes = ["{PURPOSE}"]
[[http.principals]]
claims = {{ sub = "ben", tenant = "acme" }}
principal = "Ben"
workspace = "side"
tools = ["engram_memory_search", "engram_memory_get"]
purposes = ["{PURPOSE}"]
[[http.principals]]
claims = {{ sub = "cleo", tenant = "acme" }}
principal = "Cleo"
tools = ["engram_memory_search", "save_message", "search_memory"]
purposes = ["{PURPOSE}"]
"""


Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Issuer:
    """Signs tokens, and publishes its keys as a JWK set."""

    def __init__(self) -> None:
        self.private: dict[str, tuple[str, Private]] = {
            "rs": ("RS256", rsa.generate_private_key(public_exponent=65_537, key_size=2_048)),
            "es": ("ES256", ec.generate_private_key(ec.SECP256R1())),
            "ed": ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
        }

    def rotate(self, key_id: str) -> None:
        """Add a new key under a new id."""
        self.private[key_id] = ("ES256", ec.generate_private_key(ec.SECP256R1()))

    def jwk(self, key_id: str) -> dict[str, Any]:
        algorithm, key = self.private[key_id]
        document = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key()))
        return {**document, "kid": key_id, "use": "sig"}

    def jwks(self) -> bytes:
        return json.dumps({"keys": [self.jwk(key_id) for key_id in self.private]}).encode()

    def token(self, key_id: str = "es", headers: Mapping[str, Any] | None = None, **changes: Any) -> str:
        """Return a token of Anna's; ``changes`` replace claims, None removes one."""
        algorithm, key = self.private[key_id]
        return jwt.encode(claims(**changes), key, algorithm, {"kid": key_id, **(headers or {})})


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "tenant": "acme", "iat": now, "nbf": now, "exp": now + 600,
        **changes,
    }  # fmt: skip
    return {name: value for name, value in made.items() if value is not None}


def made_team(place: Path, section: str) -> Path:
    """Make a store and its host file with a section [http]; return the host file."""
    host_file = place / "engram.toml"
    words = ["--store", str(place / "store"), "--config", str(host_file), "--policy", "accept-asserted"]
    assert run(["init", *words, "--purpose", PURPOSE]) == 0
    text = host_file.read_text(encoding="utf-8")
    text = re.sub(r"^\[http\]\n(?:.*\n)*", "[http]\nport = 0\n" + section, text, flags=re.MULTILINE)
    text = text.replace("[[purposes]]", '[[workspaces]]\nname = "side"\n[[purposes]]', 1)
    host_file.write_text(text, encoding="utf-8")
    token = place / "anna.token"
    token.write_text(ANNA_TOKEN + "\n", encoding="utf-8")
    token.chmod(0o600)
    return host_file


class TeamServer:
    """``engram serve --transport http`` in a process of its own."""

    def __init__(self, host_file: Path, *words: str) -> None:
        self._start(
            ["-m", "tools.cli.main", "serve", "--transport", "http", "--config", str(host_file), *words],
            host_file.parent,
        )

    @classmethod
    def of_echoes(cls, *words: str) -> Self:
        """Return a server whose services are echoes."""
        made = cls.__new__(cls)
        made._start(["-m", "tests.tools.server.http.echo_team", *words], ROOT)
        return made

    def _start(self, words: list[str], folder: Path) -> None:
        self.log: list[dict[str, Any]] = []
        self._serving = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), "BEN_TOKEN": BEN_TOKEN},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._serving.wait(60)
        serving = [line for line in self.log if line["event"] == "serving"]
        assert serving, self.log
        self.port = int(serving[0]["port"])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"event": "no JSON", "line": line.decode()})
            if self.log[-1]["event"] == "serving":
                self._serving.set()
        self._serving.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str = "/mcp", token: str | None = None, **how: Any) -> httpx2.Response:
        """Send one request of no client's making."""
        headers = {"accept": "application/json, text/event-stream", **how.pop("headers", {})}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        with httpx2.Client(trust_env=False, timeout=60) as client:
            return client.request(method, self.url + path, headers=headers, **how)

    def post(self, message: dict[str, Any] | bytes, token: str | None = None, **headers: str) -> httpx2.Response:
        """Post a JSON-RPC message, or bytes as they are; a header's name has ``_`` for ``-``."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", token=token, content=body, headers={"content-type": "application/json", **named})

    def opened(self, token: str) -> str:
        """Open a session of the handshake era; return its id."""
        answer = self.post(HELLO, token)
        assert answer.status_code == 200, answer.text
        session = answer.headers["mcp-session-id"]
        assert self.post(READY, token, mcp_session_id=session).status_code == 202
        return str(session)

    @asynccontextmanager
    async def client(self, token: str, mode: str) -> AsyncIterator[Client]:
        """Yield the official client."""
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http_client,
            Client(streamable_http_client(self.url + "/mcp", http_client=http_client), mode=mode) as client,
        ):
            yield client

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(30)
        self._reader.join(30)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        self._reader.join(30)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


HELLO: dict[str, Any] = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}  # fmt: skip
READY: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def call(name: str, arguments: Any, number: int = 3) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def answer_of(response: httpx2.Response) -> dict[str, Any]:
    """Return the JSON-RPC answer of a response, whichever way it came."""
    if response.headers["content-type"].startswith("text/event-stream"):
        data = [line[5:] for line in response.text.splitlines() if line.startswith("data:") and line[5:].strip()]
        return dict(json.loads(data[-1]))
    return dict(response.json())


ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


def modern(message: dict[str, Any], **headers: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a message of the modern era, and its headers."""
    params = {**message.get("params", {}), "_meta": ENVELOPE}
    named = {"mcp_protocol_version": MODERN, "mcp_method": message["method"], **headers}
    if "name" in params:
        named["mcp_name"] = params["name"]
    return {**message, "params": params}, named

"""Servers in processes of their own, for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.tools.server.raw_server import RawServer


@pytest.fixture
def start() -> Iterator[Callable[..., RawServer]]:
    """Start servers; at the end each must have kept its stdout pure."""
    servers: list[RawServer] = []

    def started(*arguments: str) -> RawServer:
        servers.append(RawServer(*arguments))
        return servers[-1]

    yield started
    for server in servers:
        server.process.kill()
        server.wait()
        for pipe in (server.stdin, server.stdout, server.stderr):
            with contextlib.suppress(BrokenPipeError):  # what was never read
                pipe.close()
        assert server.impure == []


@pytest.fixture
def server(start: Callable[..., RawServer]) -> RawServer:
    """A server after the handshake."""
    return start().read().handshake()

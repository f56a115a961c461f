"""One team's server for the tests of a module that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.server.http.team import SIGNED, STATIC, Issuer, TeamServer, made_team


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def static_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamServer]:
    """A server with static tokens: Anna's in the workspace, and Ben's, who reads another."""
    with TeamServer(made_team(tmp_path_factory.mktemp("static"), STATIC)) as server:
        yield server


@pytest.fixture(scope="module")
def signed_team(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[TeamServer]:
    """A server that takes the tokens of an issuer."""
    place = tmp_path_factory.mktemp("signed")
    (place / "jwks.json").write_bytes(issuer.jwks())
    with TeamServer(made_team(place, SIGNED)) as server:
        yield server

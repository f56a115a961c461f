"""A journal in memory and projections of it."""

from __future__ import annotations

import pytest

from projections.catchup import Projections
from projections.environment import create
from tests.projections.environments import NAMES
from tests.projections.histories import SCOPE, Author, make


@pytest.fixture
def author():
    return Author()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "projections"


@pytest.fixture
def projections(author, path):
    with Projections(author.journal, SCOPE, path, make) as opened:
        yield opened


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "generation"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def opened(directory):
    made = create(directory, NAMES)
    yield made
    while made.users > 0:
        made.release()

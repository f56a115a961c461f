"""A journal in memory with its projections, and a real store."""

from __future__ import annotations

import random

import pytest

from projections.catchup import Projections
from tests.projections.histories import SCOPE, Author, make, scribble
from tests.projections.stores import Store, created


@pytest.fixture
def author():
    author = Author()
    scribble(author, random.Random(7), 60)
    return author


@pytest.fixture
def path(tmp_path):
    return tmp_path / "projections"


@pytest.fixture
def projections(author, path, monkeypatch):
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 5)
    monkeypatch.setattr("journal.limits.REBUILD_PAGES", 1)
    with Projections(author.journal, SCOPE, path, make) as opened:
        yield opened


@pytest.fixture
def store(tmp_path):
    with Store(created(tmp_path / "store")) as opened:
        for number in range(20):
            opened.accepted(f"text{number}")
        yield opened

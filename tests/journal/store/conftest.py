"""A journal that has lived, to be copied and treated badly. The contract's asserts are explained like a test's own."""

from __future__ import annotations

import random
import shutil

import pytest

from journal.lifecycle import State
from tests.journal.store.history import HERE, THERE, History, named
from tests.journal.store.places import open_store

pytest.register_assert_rewrite("tests.journal.store.contract")


@pytest.fixture(scope="session")
def lived(tmp_path_factory):
    """A journal in which something has happened, closed cleanly."""
    place = tmp_path_factory.mktemp("lived") / "journal"
    place.mkdir()
    store = open_store(place, durable=False)
    for scope in (HERE, THERE):
        history = History(scope)
        history.live_at_random(store, random.Random(1), 60)
        history.bring(store, State.TOMBSTONED)
        history.bring(store, State.PENDING)
        history.write(store, history.request(named("operation", 1)))
    store.close()
    return place


@pytest.fixture
def directory(lived, tmp_path):
    """A copy of it, to be treated badly."""
    shutil.copytree(lived, tmp_path / "journal")
    return tmp_path / "journal"

"""A store of every released format is kept, and read as it was read then."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest

from journal import layout
from journal.errors import RegistryVersionUnavailable
from journal.events import Actor
from journal.log import Journal
from journal.testing import ManualClock
from tests.fixtures.make_store import EXPECTED, LATER, read
from tests.replay.restores import reopened
from tests.tools.memory.world import ROOT_KEY, SCOPE

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMATS = [1]


@pytest.fixture(params=FORMATS)
def kept(request, tmp_path):
    """A copy of a kept store, as private as a store must be."""
    path = tmp_path / "store"
    shutil.copytree(FIXTURES / f"store-format-{request.param}", path, ignore=shutil.ignore_patterns(EXPECTED))
    (path / layout.PROJECTIONS).mkdir(exist_ok=True)  # git keeps no empty folder
    for each in (path, *path.rglob("*")):
        each.chmod(0o700 if each.is_dir() else 0o600)
    return path, json.loads((FIXTURES / f"store-format-{request.param}" / EXPECTED).read_text(encoding="utf-8"))


def test_a_store_of_every_released_format_is_kept():
    assert FORMATS[-1] == layout.FORMAT
    assert sorted(path.name for path in FIXTURES.glob("store-format-*")) == [f"store-format-{n}" for n in FORMATS]


def test_a_kept_store_is_read_as_it_was_read_then(kept):
    path, expected = kept
    assert expected["ok"] is True
    assert len(expected["scopes"]) == 2
    assert expected["found"]["copper"] != []
    assert expected["found"]["silver"] == []
    found = read(path)
    # A release may have other projections, and others' versions; one of the same version gives the same digest.
    same = {name: digest for name, digest in found.pop("digests").items() if name in expected["digests"]}
    recorded = expected.pop("digests")
    assert same == {name: digest for name, digest in recorded.items() if name in same}
    assert same != {}
    # It may also say more of a scope; what was said then is said still.
    said = [{name: now[name] for name in then} for then, now in zip(expected["scopes"], found["scopes"], strict=True)]
    assert {**found, "scopes": said} == expected


def test_a_kept_store_can_be_written(kept, monkeypatch):
    monkeypatch.setattr("tests.tools.memory.world._numbers", itertools.count(1_000))  # the kept one used the first keys
    path, _ = kept
    with reopened(path, ManualClock(LATER)) as world:
        agent = world.caller()
        record = agent.remember("Words of lead, written by a later release.")
        assert agent.found("lead") == [record]
        world.journal.rotate_keys(SCOPE, Actor("operator:tests"))
        agent.forget(record)
    assert read(path)["ok"] is True


def test_a_store_from_the_future_is_refused_in_plain_words(kept):
    path, _ = kept
    stated = path / layout.STORE_FILE
    stated.write_text(stated.read_text(encoding="utf-8").replace("format = 1", "format = 7"), encoding="utf-8")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(RegistryVersionUnavailable, match="a later release of engram made it"):
        Journal.open(path, ROOT_KEY)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before

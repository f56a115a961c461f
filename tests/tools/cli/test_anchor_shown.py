"""engram doctor and engram stats show the newest checkpoint, the anchor outside and the scrub."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from journal import layout
from journal.checkpointing import folder_of
from journal.walks import NAME, Scrubbed
from replay.scrub import FILE, scrub
from tests.tools.cli.examined import SCOPE, examined


@pytest.fixture
def desk(open_desk):
    open_desk.captured("One.", "Two.")
    return open_desk


def _scrub(desk):
    with desk.agent() as agent:
        return scrub(agent.engine.journal, SCOPE, folder_of(desk.store, SCOPE.tag))


def _line(desk):
    checks = desk.run("doctor", "--json").json["checks"]
    return [each["detail"] for each in checks if each["code"] == "CHECKPOINTS"]


def test_before_the_first_one(desk):
    (scope,) = desk.json("stats")["scopes"]
    found = scope["checkpoints"]
    assert (found["newest"], found["count"], found["anchor_newest"], found["scrub"]) == (None, 0, None, None)
    assert "not begun" in desk.ok("stats").out
    assert _line(desk) == ["the anchor outside can be used"]


def test_a_checkpoint_and_a_scrub(desk):
    value = desk.json("checkpoint")
    _scrub(desk)
    (scope,) = desk.json("stats")["scopes"]
    found = scope["checkpoints"]
    assert (found["newest"], found["count"], found["anchor_newest"]) == ("2", 1, "2")
    assert (found["public_key"], found["anchor"]) == (value["public_key"], value["anchor"])
    assert (found["scrub"]["clean_cursor"], found["scrub"]["findings"]) == ("2", 0)
    assert _line(desk) == ["newest checkpoint 2, 2 in the anchor; scrubbed clean up to cursor 2"]
    assert "clean up to cursor 2" in desk.ok("stats").out


def test_an_anchor_that_is_ahead(desk):
    shutil.copytree(desk.store, desk.store.with_name("old"))
    value = desk.json("checkpoint")
    shutil.rmtree(desk.store)
    desk.store.with_name("old").rename(desk.store)
    folder = folder_of(desk.store, SCOPE.tag).path
    folder.mkdir(parents=True)
    (folder / "key.pub").write_text(value["public_key"] + "\n", encoding="utf-8")
    assert examined(desk)["ANCHOR_AHEAD"]["severity"] == "warning"


def test_what_a_walk_over_the_pages_found(desk):
    place = desk.store / layout.JOURNAL / NAME
    place.write_bytes(msgspec.json.encode(Scrubbed(1.0, 1.0)))
    assert "PAGES_DAMAGED" not in examined(desk)
    place.write_bytes(msgspec.json.encode(Scrubbed(1.0, 1.0, "STORE_UNAVAILABLE", "index tables: subject")))
    found = examined(desk)["PAGES_DAMAGED"]
    assert found["severity"] == "fault"
    assert "STORE_UNAVAILABLE: index tables: subject" in found["detail"]


def test_what_the_scrub_found(desk):
    _scrub(desk)
    file = folder_of(desk.store, SCOPE.tag).path / FILE
    text = file.read_text(encoding="utf-8")
    text = text.replace('"findings":0', '"findings":2')
    file.write_text(text.replace('"first_finding":null', '"first_finding":["BLOB_MISSING",1,"x"]'), encoding="utf-8")
    found = examined(desk)["SCRUB_FINDINGS"]
    assert found["severity"] == "fault"
    assert "BLOB_MISSING at 1" in found["detail"]
    assert "2 FINDINGS" in desk.ok("stats").out


def test_an_anchor_that_cannot_be_used(desk):
    (desk.place / "file").write_text("in the way", encoding="utf-8")
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace('# anchor = "PATH"', 'anchor = "file/anchors"'), encoding="utf-8")
    assert examined(desk)["ANCHOR_UNWRITABLE"]["severity"] == "warning"
    assert desk.run("checkpoint").code == 2

"""A disk without room: writes are refused with a code, reads are served, and all is well when there is room again."""

from __future__ import annotations

import os
import subprocess

import pytest

from projections.serving import make_projections
from replay.audit import audit
from tests.rigs.captures import capture as captured
from tests.rigs.lineclient import LineServer
from tests.rigs.place import PURPOSE as MEMORY
from tests.rigs.place import Place
from tests.runs import unable
from tests.tools.conversation.talks import speaker
from tests.tools.memory.world import World, capture_arguments
from tools.host.capabilities import CAPTURE

IS_LONG = "ENGRAM_FAULTS" in os.environ  # no test sees it
REFUSED = ("STORE_UNAVAILABLE", "MUTATION_OUTCOME_UNKNOWN")
_LARGE = "Words that need room of their own. " * 1_500


@pytest.fixture
def disk(tmp_path):
    """A disk of 6 MiB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        unable("no file system may be mounted here: no small disk to fill", is_long=IS_LONG)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def filled(disk):
    """Take all the room there is."""
    with (disk / "fill").open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


def sound(world):
    report = audit(world.journal, world.path / "projections", make_projections)
    assert report.ok, report.as_json()


def test_a_disk_that_fills_up_refuses_writes_and_serves_reads(disk):
    world = World(disk / "store")
    agent = speaker(world)
    record = agent.remember("The ferry leaves at six.")
    said = agent.save("The ferry is late.")
    filled(disk)
    wanted = capture_arguments(_LARGE)
    assert agent.code(CAPTURE, wanted) in REFUSED
    assert agent.get(record)["ok"]
    assert agent.found("ferry") == [record]
    assert agent.ids("ferry") == [said]
    assert agent.code(CAPTURE, wanted) in REFUSED
    (disk / "fill").unlink()
    before = agent.head
    candidate = agent.value(CAPTURE, wanted)["candidate_id"]
    assert agent.value(CAPTURE, wanted)["candidate_id"] == candidate
    assert agent.head == before + 1
    sound(world)
    world.close()


@pytest.mark.parametrize("lagging", [False, True])
def test_a_store_is_opened_on_a_full_disk_and_read(disk, lagging):
    """It was refused: the mark of a process that may write needs room. Projections that lag are folded in memory."""
    world = World(disk / "store")
    agent = speaker(world)
    record = agent.remember("The ferry leaves at six.")
    assert agent.found("ferry") == [record]
    if lagging:
        record = agent.remember("The tram leaves at seven.")
    world.close()
    filled(disk)
    world.restart()
    agent = speaker(world)
    assert agent.get(record)["ok"]
    assert record in agent.found("leaves")
    wanted = capture_arguments(_LARGE)
    assert agent.code(CAPTURE, wanted) in REFUSED
    assert not any((disk / "store" / "journal" / "open").iterdir())
    (disk / "fill").unlink()
    assert agent.value(CAPTURE, wanted)["candidate_id"]
    assert len(list((disk / "store" / "journal" / "open").iterdir())) == 1  # who writes is marked
    sound(world)
    world.close()
    assert not any((disk / "store" / "journal" / "open").iterdir())


def test_a_server_that_starts_on_a_full_disk_serves_reads(disk):
    place = Place(disk)
    try:
        first = LineServer(place).handshake()
        kept = first.value("capture", captured("The ferry leaves at six."))["candidate_id"]
        asked = {"candidate_id": kept, "idempotency_key": "key-of-the-full-disk"}
        record = first.value("request_admission", asked)["outcome"]["record_id"]
        searched = {"query": "ferry", "purpose_ref": MEMORY}
        assert len(first.value("search", searched)["records"]) == 1
        assert first.close() == 0
        filled(disk)
        second = LineServer(place).handshake()
        assert second.value("get", {"record_id": record, "purpose_ref": MEMORY})["record"]["record_id"] == record
        assert len(second.value("search", searched)["records"]) == 1
        large = captured(_LARGE)
        assert second.code("capture", large) in REFUSED
        (disk / "fill").unlink()
        assert second.code("capture", large) == "ok"
        assert second.close() == 0
        assert place.audited() > 0
    finally:
        place.close()

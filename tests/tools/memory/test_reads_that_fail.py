"""What a call is answered when what it reads is damaged, or the system refuses to read it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import structlog

from journal.errors import ProjectionStale, StoreUnavailable
from tests.corruption.pages import PAGE_BYTES, DataFile
from tests.tools.memory.world import PURPOSE, SCOPE, capture_arguments
from tools.host.capabilities import CAPTURE, GET, SEARCH

_FLAGS_AT = 10  # of a page


def damage(file: Path) -> None:
    """Take every page of a live data file for what it is not: LMDB notices that."""
    pages = DataFile(file, file.name)
    with file.open("r+b") as raw:
        for number in (*pages.pages("leaf"), *pages.pages("branch")):
            raw.seek(number * PAGE_BYTES + _FLAGS_AT)
            raw.write(b"\0\0")


def test_a_damaged_journal_is_not_to_be_tried_again(world, agent):
    record_id = agent.remember("harvest")
    assert agent.found("harvest") == [record_id]
    damage(world.path / "journal" / "data.mdb")
    for tool, arguments in (
        (GET, {"record_id": record_id, "purpose_ref": PURPOSE}),
        (SEARCH, {"query": "harvest", "purpose_ref": PURPOSE}),
        (CAPTURE, capture_arguments("more")),
    ):
        answered = agent.call(tool, arguments)
        assert answered["error"]["code"] == "JOURNAL_CORRUPT", tool
        assert answered["error"]["retriable"] is False


@pytest.mark.parametrize("nested", [False, True])
def test_a_damaged_projection_is_built_anew_and_is_no_word_about_the_journal(world, agent, nested):
    """Also where it is read inside a view of the journal, as the brief does."""
    record_id = agent.remember("harvest")
    assert agent.found("harvest") == [record_id]
    projections = agent.engine.projections(SCOPE)
    with pytest.raises(ProjectionStale), projections.snapshot() as snapshot:  # noqa: PT012 - damaged while it is read
        before = snapshot.generation("current")
        damage(projections.generations("current").path / before / "data.mdb")
        if nested:
            with world.journal.store.view(SCOPE):
                snapshot.digest("current")
        snapshot.digest("current")
    assert agent.found("harvest") == [record_id]
    with projections.snapshot() as snapshot:
        assert snapshot.generation("current") > before


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOMEM])
def test_what_the_system_refuses_may_be_tried_again_and_the_log_says_where(world, agent, monkeypatch, number):
    record_id = agent.remember("harvest")

    def refused(*_):
        raise OSError(number, "refused")

    with monkeypatch.context() as patch, structlog.testing.capture_logs() as lines:
        patch.setattr("journal.slots.os.pread", refused)
        answered = agent.get(record_id)
    assert (answered["error"]["code"], answered["error"]["retriable"]) == ("STORE_UNAVAILABLE", True)
    (line,) = [line for line in lines if line["event"] == "system_refused"]
    assert line["code"] == "STORE_UNAVAILABLE"
    assert line["error"] == f"OSError {errno.errorcode[number]}"
    assert line["at"].startswith("journal/slots.py:")
    assert line["log_level"] == "warning"
    assert agent.get(record_id)["ok"]


def test_what_the_system_refuses_of_keys_is_told_where_projections_are_opened(world, monkeypatch):
    def refused(*_):
        raise OSError(errno.EIO, "refused")

    engine = world.caller().engine
    with monkeypatch.context() as patch:
        patch.setattr(engine.journal.keyring, "identity_key", refused)
        with pytest.raises(StoreUnavailable):
            engine.projections(SCOPE)
    assert engine.projections(SCOPE).names


def test_a_damaged_store_is_told_to_the_operator_once_as_an_error_with_what_to_do(world, agent):
    record_id = agent.remember("harvest")
    world.restart()
    (keyring,) = (world.path / "keys").glob(f"{SCOPE.tag.hex()}.keyring")
    keyring.write_bytes(b"broken")
    again = world.caller()
    with structlog.testing.capture_logs() as lines:
        assert again.code(CAPTURE, capture_arguments("more")) == "JOURNAL_CORRUPT"
        assert again.get(record_id)["error"]["code"] == "JOURNAL_CORRUPT"
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert (line["event"], line["code"]) == ("store damaged", "JOURNAL_CORRUPT")
    assert "keyring" in line["detail"]
    assert "engram doctor" in line["do"]
    assert len([line for line in lines if line["event"] == "refused"]) == 2


def test_what_is_no_damage_is_no_error_of_the_store(agent):
    with structlog.testing.capture_logs() as lines:
        assert agent.get("mem_" + 52 * "a")["error"]["code"] == "NOT_FOUND"
    assert [line["log_level"] for line in lines] == ["info"]

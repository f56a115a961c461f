"""engram doctor on projections: each way in which one stands badly, and none that is only new."""

from __future__ import annotations

import os
import shutil

import lmdb
import msgspec
import pytest

from projections import marks
from projections.generation import Meta
from projections.port import META
from tests.tools.cli.desk import ready
from tests.tools.cli.examined import SCOPE, examined, invalidation, opened_journal, severities


@pytest.fixture
def desk(directory, capsys):
    """A desk with two records and projections; nothing waits."""
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        agent.remember("One.")
        agent.remember("Two.")
        agent.search("one")
    return desk


# --- projections ------------------------------------------------------------------------------------


def _generation(desk, name="current"):
    (path,) = (desk.store / "projections").glob(f"*/{name}/0*")
    return path


def test_deleted_projections(desk):
    shutil.rmtree(desk.store / "projections")
    assert examined(desk) == {}


def test_one_taken_out_of_force(desk):
    current = _generation(desk).parent / "CURRENT"
    current.write_text("00000001 out of force\n", encoding="ascii")
    assert severities(examined(desk)) == {"PROJECTION_OUT_OF_FORCE": "note"}


@pytest.mark.parametrize(
    "spoil", [lambda data: data.write_bytes(data.read_bytes()[:9_000]), lambda data: data.unlink()]
)
def test_a_broken_generation(desk, spoil):
    spoil(_generation(desk, "lexical") / "data.mdb")
    found = examined(desk)
    assert severities(found) == {"PROJECTION_BROKEN": "warning"}
    assert "engram projections rebuild lexical" in found["PROJECTION_BROKEN"]["mend"]
    desk.ok("projections", "rebuild", "lexical")
    assert examined(desk) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": 0}, {"PROJECTION_OLD": "note"}),
        ({"format": 99}, {"PROJECTION_NEWER": "warning"}),
        ({"version": 99}, {"PROJECTION_NEWER": "warning"}),
        ({"head_hash": bytes(32)}, {"PROJECTION_FOREIGN": "warning"}),
        ({"cursor": 999}, {"PROJECTION_FOREIGN": "warning"}),
        ({"name": "lexical"}, {"PROJECTION_FOREIGN": "warning"}),
    ],
)
def test_a_generation_of_another_kind(desk, changes, expected):
    env = lmdb.open(str(_generation(desk)), max_dbs=32, lib_version=0)
    table = env.open_db(META, create=False)
    with env.begin(write=True, db=table) as txn:
        meta = msgspec.msgpack.decode(txn.get(b"meta") or b"", type=Meta)
        txn.put(b"meta", msgspec.msgpack.encode(msgspec.structs.replace(meta, **changes)))
    env.close()
    directory = os.open(_generation(desk), os.O_RDONLY)
    marks.write(directory, clean=True)  # as who wrote it would have closed it
    os.close(directory)
    assert severities(examined(desk)) == expected


def test_one_that_was_not_closed_before_the_machine_went_down(desk):
    mark = _generation(desk) / "MARK"
    stated = msgspec.json.decode(mark.read_bytes())
    mark.write_bytes(msgspec.json.encode({**stated, "boot": "another", "clean": False}))
    assert severities(examined(desk)) == {"PROJECTION_UNCLEAN": "note"}


def test_one_far_behind(desk):
    with opened_journal(desk) as journal:
        drafts = [invalidation(journal) for _ in range(8_200)]
        journal.commit(SCOPE, lambda _: drafts)
    found = examined(desk)
    assert severities(found) == {"PROJECTION_BEHIND": "note"}
    assert "8200 events" in found["PROJECTION_BEHIND"]["detail"]


def test_generations_left_over(desk):
    generation = _generation(desk)
    shutil.copytree(generation, generation.with_name("00000000"))
    shutil.copytree(generation, generation.with_name("00000009"))
    found = examined(desk)
    assert severities(found) == {"GENERATION_LEFT_OVER": "note", "GENERATION_HALF_BUILT": "note"}

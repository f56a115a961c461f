"""What was deleted and is still open in some process is found by the place where it stood."""

from __future__ import annotations

import shutil

from projections.remnants import deleted_but_open
from tests.projections.processes import Process

OPENER = """
file = open(sys.argv[1], "rb")
say("open")
wait()
"""


def test_what_was_deleted_under_a_place_is_found_while_it_is_open(tmp_path):
    place = tmp_path / "place"
    (place / "words" / "00000001").mkdir(parents=True)
    file = place / "words" / "00000001" / "data.mdb"
    file.write_bytes(b"bytes")
    with Process(OPENER, file) as opener:
        assert opener.hear() == "open"
        assert deleted_but_open(place) == []
        shutil.rmtree(place)
        assert deleted_but_open(place) == ["words/00000001/data.mdb"]
        assert deleted_but_open(tmp_path / "pla") == []
        opener.stop()
        assert deleted_but_open(place) == ["words/00000001/data.mdb"], "a stopped process holds it as any other"
        opener.kill()
    assert deleted_but_open(place) == []


def test_a_place_behind_a_link_is_the_same_place(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "file").write_bytes(b"bytes")
    with (tmp_path / "link" / "file").open("rb"):
        (tmp_path / "real" / "file").unlink()
        assert deleted_but_open(tmp_path / "link") == ["file"]


def test_where_the_system_tells_nothing_nothing_is_known(tmp_path):
    assert deleted_but_open(tmp_path, tmp_path / "no such place") == []

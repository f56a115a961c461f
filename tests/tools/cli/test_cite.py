"""engram cite: digests over the exact bytes, references that hold, and every nonsense one sentence."""

import hashlib
import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import limits
from tools.cli.cite import cite
from tools.cli.main import run

TEXT = "첫 줄\r\nsecond line\n\n  third \u00e9 e\u0301\nlast without an end".encode()
LINES = [
    b"\xec\xb2\xab \xec\xa4\x84\r\n",
    b"second line\n",
    b"\n",
    "  third \u00e9 e\u0301\n".encode(),
    b"last without an end",
]


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.md").write_bytes(TEXT)
    (tmp_path / "sub").mkdir()
    return tmp_path


def printed(capsys, what: str) -> dict[str, Any]:
    assert run(["cite", what, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("what", "value", "lines"),
    [
        ("note.md", "1-5", LINES),
        ("note.md:1", "1-1", LINES[:1]),
        ("note.md:2-2", "2-2", LINES[1:2]),
        ("note.md:2-4", "2-4", LINES[1:4]),
        ("note.md:5", "5-5", LINES[4:]),
        ("note.md:1-5", "1-5", LINES),
        ("note.md:3", "3-3", [b"\n"]),
        ("./sub/../note.md:02-0004", "2-4", LINES[1:4]),
    ],
)
def test_the_digest_is_over_the_exact_lines(here, capsys, what, value, lines):
    cited = printed(capsys, what)
    citation, evidence = cited["citation"], cited["evidence"]
    assert citation["locator"] == {"scheme": "line", "value": value}
    assert citation["content_digest"] == digest(b"".join(lines))
    assert citation["source_ref"] == "file:note.md"
    assert evidence == {
        "evidence_ref": "file:note.md",
        "evidence_digest": digest(TEXT),
        "citation_ids": [citation["citation_id"]],
    }


def test_a_file_that_ends_in_a_line_end_has_no_line_after_it(here, capsys):
    (here / "two.txt").write_bytes(b"one\ntwo\n")
    assert printed(capsys, "two.txt")["citation"]["locator"]["value"] == "1-2"
    assert run(["cite", "two.txt:3"]) == 2


@given(st.binary(min_size=1, max_size=300).map(lambda content: content.replace(b"\0", b"\n")), st.data())
def test_the_lines_put_together_are_the_file(tmp_path_factory, content, data):
    path = tmp_path_factory.mktemp("cited") / "x"
    path.write_bytes(content)
    whole = cite(str(path))
    count = int(whole["citation"]["locator"]["value"].split("-")[1])
    assert whole["citation"]["content_digest"] == whole["evidence"]["evidence_digest"] == digest(content)
    cut = data.draw(st.integers(1, count))
    head = content.split(b"\n", cut)
    first = b"".join(part + b"\n" for part in head[:cut]) if len(head) > cut else content
    assert cite(f"{path}:1-{cut}")["citation"]["content_digest"] == digest(first)


def test_the_same_lines_have_the_same_id_and_others_another(here):
    ids = [cite(what)["citation"]["citation_id"] for what in ("note.md:1", "note.md:1-1", "note.md:2", "note.md")]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_a_file_elsewhere_is_named_by_its_absolute_path(here, tmp_path_factory):
    other = tmp_path_factory.mktemp("elsewhere") / "far.md"
    other.write_text("x\n")
    assert cite(str(other))["citation"]["source_ref"] == f"file:{other}"
    assert cite(os.path.relpath(other))["citation"]["source_ref"] == f"file:{other}"
    assert cite(str(here / "note.md"))["citation"]["source_ref"] == "file:note.md"


def test_a_name_is_written_in_nfc(here):
    name = unicodedata.normalize("NFD", "회의록.md")
    (here / name).write_text("x\n")
    assert cite(name)["citation"]["source_ref"] == "file:" + unicodedata.normalize("NFC", name)


def test_a_file_whose_name_ends_like_a_range_is_itself(here):
    (here / "note.md:2").write_bytes(b"another file\n")
    assert cite("note.md:2")["citation"]["source_ref"] == "file:note.md:2"
    assert cite("note.md:2:1")["citation"]["content_digest"] == digest(b"another file\n")


def test_what_a_person_sees_are_two_json_objects(here, capsys):
    assert run(["cite", "note.md:2"]) == 0
    first, second = capsys.readouterr().out.removeprefix("citation:\n").split("\nevidence:\n")
    assert json.loads(first)["locator"]["value"] == "2-2"
    assert json.loads(second)["evidence_ref"] == "file:note.md"


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("missing.md", "does not exist"),
        ("missing.md:1-2", "does not exist"),
        ("note.md:", "a range is written FILE:A-B"),
        ("note.md:3-", "a range is written FILE:A-B"),
        ("note.md:-3", "a range is written FILE:A-B"),
        ("note.md:1-2-3", "a range is written FILE:A-B"),
        ("note.md:0", "counted from 1"),
        ("note.md:0-2", "counted from 1"),
        ("note.md:4-2", "write note.md:2-4"),
        ("note.md:6", "line 6 is asked for, but it has 5"),
        ("note.md:1-999999999999", "but it has 5"),
        (".", "folder"),
        ("folder", "folder"),
        ("folder:1-2", "folder"),
        ("binary", "not text"),
        ("empty", "nothing to cite"),
        ("pipe", "regular file"),
        ("loop", "cannot be read"),
        ("x" * 300, "cannot be read"),
        ("", "folder"),
    ],
)
def test_nonsense_is_one_sentence_and_exit_code_2(here, capsys, what, reason):
    (here / "folder").mkdir()
    (here / "binary").write_bytes(b"MZ\0\1")
    (here / "empty").touch()
    os.mkfifo(here / "pipe")
    (here / "loop").symlink_to("loop")
    assert run(["cite", what]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert reason in captured.err
    assert captured.err.count("\n") == 1


def test_bounds(here, monkeypatch, capsys):
    deep = Path(*["d" * 100] * 5)
    deep.mkdir(parents=True)
    fits = limits.REF_MAX_BYTES - len(f"file:{deep}/")
    for length, code in ((fits, 0), (fits + 1, 2)):
        (deep / ("n" * length)).write_text("x\n")
        assert run(["cite", str(deep / ("n" * length))]) == code
    monkeypatch.setattr(limits, "CITE_FILE_MAX_BYTES", 10)
    (here / "ten").write_bytes(b"0123456789")
    (here / "eleven").write_bytes(b"0123456789a")
    assert run(["cite", "ten"]) == 0
    assert run(["cite", "eleven"]) == 2
    capsys.readouterr()


def test_a_name_that_is_not_utf_8_is_refused(here, capsys):
    name = os.fsdecode(b"odd-\xff")
    try:
        (here / name).write_text("x\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert run(["cite", name]) == 2
    assert "UTF-8" in capsys.readouterr().err

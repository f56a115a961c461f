"""engram cite: digests over the exact bytes, references that hold, and every nonsense one sentence."""

import hashlib
import json
import os
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from journal import limits
from tests.tools.memory.world import NOW, capture_arguments, component
from tools.cli.cite import cite
from tools.cli.main import run
from tools.host.capabilities import CAPTURE

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
    assert cited["citations"] == [citation]
    assert citation["source_ref"] == f"file:{here}/note.md"
    assert evidence == {
        "evidence_ref": f"file:{here}/note.md",
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


def source(what: str) -> str:
    return cite(what)["citation"]["source_ref"]


@pytest.fixture
def checkout(here) -> Path:
    """A checkout of a project, with a worktree beside it."""
    root = here / "project"
    (root / "docs" / "deep").mkdir(parents=True)
    for path in (root / "note.md", root / "docs" / "note.md"):
        path.write_bytes(TEXT)
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"], ["worktree", "add", "-q", "../beside"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return root


def test_a_reference_is_the_same_wherever_it_is_made(here, checkout, monkeypatch):
    (here / "link").symlink_to(checkout)
    for place in (here, checkout, checkout / "docs", checkout / "docs" / "deep", Path("/")):
        monkeypatch.chdir(place)
        for path in (checkout / "docs" / "note.md", here / "link" / "docs" / "deep" / ".." / "note.md"):
            assert source(str(path)) == source(os.path.relpath(path)) == "file:project/docs/note.md"
        assert source(str(here / "note.md")) == source(os.path.relpath(here / "note.md")) == f"file:{here}/note.md"


def test_a_worktree_is_a_checkout_of_its_own(here, checkout):
    assert source("beside/docs/note.md") == "file:beside/docs/note.md"


def test_the_nearest_checkout_counts(checkout):
    inner = checkout / "docs" / "deep"
    (inner / "note.md").write_bytes(TEXT)
    subprocess.run(["git", "-C", str(inner), "init", "-q"], check=True, capture_output=True)
    assert source(str(inner / "note.md")) == "file:deep/note.md"


def test_a_folder_named_git_alone_is_no_checkout(here):
    (here / "sub" / ".git").mkdir()
    (here / "sub" / "note.md").write_bytes(TEXT)
    assert source("sub/note.md") == f"file:{here}/sub/note.md"


def test_a_link_to_a_file_is_named_by_its_own_place(here, checkout):
    (checkout / "linked.md").symlink_to(here / "note.md")
    assert source(str(checkout / "linked.md")) == "file:project/linked.md"


def test_several_selections_of_one_file_have_its_evidence(here, capsys):
    assert run(["cite", "note.md:1", "note.md:3-4", "note.md:01-1", "--json"]) == 0
    cited = json.loads(capsys.readouterr().out)
    assert [each["locator"]["value"] for each in cited["citations"]] == ["1-1", "3-4"]
    assert cited["citations"] == [cite("note.md:1")["citation"], cite("note.md:3-4")["citation"]]
    assert "citation" not in cited
    assert cited["evidence"] == {
        **cite("note.md")["evidence"],
        "citation_ids": [each["citation_id"] for each in cited["citations"]],
    }


def test_several_files_have_their_citations_as_evidence(here, capsys):
    (here / "other.md").write_text("x\n")
    cited = cite("note.md:1", "other.md")
    assert cited["evidence"]["citation_ids"] == [each["citation_id"] for each in cited["citations"]]
    assert cited["evidence"]["evidence_digest"] == digest(rfc8785.dumps(cited["citations"]))
    assert cited["evidence"]["evidence_ref"] == cite("note.md:1", "other.md")["evidence"]["evidence_ref"]
    assert cited["evidence"]["evidence_ref"] != cite("other.md", "note.md:2")["evidence"]["evidence_ref"]
    assert cited["evidence"]["evidence_ref"].startswith("citations:")
    assert run(["cite", "note.md:1", "other.md"]) == 0
    first, second = capsys.readouterr().out.removeprefix("citations:\n").split("\nevidence:\n")
    assert json.loads(first) == cited["citations"]
    assert json.loads(second) == cited["evidence"]


def test_several_citations_fit_into_one_payload(here, desk):
    (here / "other.md").write_text("x\n")
    for selections in (("note.md:1", "note.md:2"), ("note.md:1", "other.md")):
        cited = cite(*selections)
        names = cited["evidence"]["citation_ids"]
        made = capture_arguments(
            components=[component("component:1", "One.", cited=names)], citations=cited["citations"],
            primary_event={"at": NOW, "type_ref": "event:decided", "citation_id": names[0]},
        )  # fmt: skip
        with desk.agent() as agent:
            assert agent.value(CAPTURE, {**made, "evidence": cited["evidence"]})["status"] == "committed_pending"


def test_one_that_cannot_be_cited_refuses_all(here, capsys):
    assert run(["cite", "note.md:1", "missing.md"]) == 2
    assert capsys.readouterr().out == ""
    assert run(["cite"]) == 2


def test_more_than_a_payload_holds_is_refused(here, capsys, monkeypatch):
    monkeypatch.setattr(limits, "CITATIONS_MAX", 2)
    assert run(["cite", "note.md:1", "note.md:2", "note.md:1"]) == 0
    assert run(["cite", "note.md:1", "note.md:2", "note.md:3"]) == 2
    assert "2 citations at most" in capsys.readouterr().err


def test_a_name_is_written_in_nfc(here):
    name = unicodedata.normalize("NFD", "회의록.md")
    (here / name).write_text("x\n")
    assert source(name) == f"file:{here}/" + unicodedata.normalize("NFC", name)


def test_a_file_whose_name_ends_like_a_range_is_itself(here):
    (here / "note.md:2").write_bytes(b"another file\n")
    assert source("note.md:2") == f"file:{here}/note.md:2"
    assert cite("note.md:2:1")["citation"]["content_digest"] == digest(b"another file\n")


def test_what_a_person_sees_are_two_json_objects(here, capsys):
    assert run(["cite", "note.md:2"]) == 0
    first, second = capsys.readouterr().out.removeprefix("citation:\n").split("\nevidence:\n")
    assert json.loads(first)["locator"]["value"] == "2-2"
    assert json.loads(second)["evidence_ref"] == f"file:{here}/note.md"


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
    deep = Path(*["d" * 100] * 3)
    deep.mkdir(parents=True)
    fits = limits.REF_MAX_BYTES - len(f"file:{here / deep}/")
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

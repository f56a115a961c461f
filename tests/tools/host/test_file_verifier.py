"""The file verifier: what is read, what is left alone, and what is said of it."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from journal import limits
from journal.canonical import canonical_bytes
from tools.cli.cite import cite
from tools.host.verifiers import files
from tools.host.verifiers.files import FileVerifier
from tools.host.verifiers.locators import selected
from tools.host.verifiers.port import Verified, verified_in_time

TEXT = "하나\ntwo\nthree\n"


def sha(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a.md").write_text(TEXT, encoding="utf-8")
    return folder


def citation(source_ref: str, value: str = "1-3", content: str = TEXT, scheme: str = "line") -> dict[str, Any]:
    return {
        "citation_id": "citation:1", "source_ref": source_ref, "locator": {"scheme": scheme, "value": value},
        "content_digest": sha(content.encode()),
    }  # fmt: skip


def evidence(**changes: Any) -> dict[str, Any]:
    return {"evidence_ref": "evidence:none", "evidence_digest": sha(b"?"), "citation_ids": ["citation:1"], **changes}


def looked_at(root: Path, *citations: dict[str, Any], seconds: float = 30, **changes: Any) -> Verified:
    return FileVerifier([root]).verify(citations, evidence(**changes), time.monotonic() + seconds)


def of_citation(root: Path, cited: dict[str, Any]) -> tuple[str, str | None]:
    found = looked_at(root, cited).findings[0]
    assert found.citation_id == "citation:1"
    return found.result, found.reason


# --- what matches ---------------------------------------------------------------------------------


def test_what_engram_cite_prints_matches_whole(root, monkeypatch):
    monkeypatch.chdir(root.parent)
    for inside_checkout in (False, True):
        if inside_checkout:
            (root / ".git").mkdir()
            (root / ".git" / "HEAD").write_text("ref: x\n")
        cited = cite("project/docs/a.md:2-3", "project/docs/a.md")
        verified = FileVerifier([root]).verify(cited["citations"], cited["evidence"], time.monotonic() + 30)
        assert verified.result == "matched", verified
        assert cited["citations"][0]["source_ref"].startswith("file:project/") is inside_checkout


def test_lines_of_several_files_are_their_own_evidence(root, monkeypatch):
    (root / "b.md").write_text("b")
    monkeypatch.chdir(root)
    cited = cite("docs/a.md:1", "b.md")
    assert cited["evidence"]["evidence_ref"].startswith("citations:")
    assert FileVerifier([root]).verify(cited["citations"], cited["evidence"], time.monotonic() + 30).result == "matched"


@pytest.mark.parametrize(
    ("name", "value", "content", "scheme"),
    [
        ("file:project/docs/a.md", "2", "two\n", "line"),
        ("file:docs/a.md", "1", "하나\n", "line"),
        ("file:project/docs/a.md", "0-2", "하", "byte"),
    ],
)
def test_exact_bytes_match(root, name, value, content, scheme):
    assert of_citation(root, citation(name, value, content, scheme)) == ("matched", None)


def test_a_link_within_the_root_leads_to_its_file(root):
    (root / "link.md").symlink_to("docs/a.md")
    (root / "folder").symlink_to("docs")
    for name in ("link.md", "folder/a.md"):
        assert of_citation(root, citation(f"file:project/{name}")) == ("matched", None)


def test_a_root_that_is_a_link_has_both_names(root, tmp_path):
    link = tmp_path / "here"
    link.symlink_to(root)
    for name in ("project", "here"):
        assert of_citation(link, citation(f"file:{name}/docs/a.md")) == ("matched", None)
    assert of_citation(link, citation(f"file:{root}/docs/a.md")) == ("matched", None)
    assert of_citation(link, citation(f"file:{link}/docs/a.md")) == ("matched", None)


def test_a_name_that_is_decomposed_on_the_disk_is_found(root):
    import unicodedata

    (root / unicodedata.normalize("NFD", "회의록.md")).write_text(TEXT, encoding="utf-8")
    assert of_citation(root, citation("file:project/회의록.md")) == ("matched", None)


def test_a_folder_of_the_roots_own_name_in_it(root):
    (root / "project").mkdir()
    (root / "project" / "c.md").write_text(TEXT, encoding="utf-8")
    assert of_citation(root, citation("file:project/c.md")) == ("matched", None)
    assert of_citation(root, citation("file:project/project/c.md")) == ("matched", None)


def test_either_of_two_checkouts_of_one_name_may_be_meant(root, tmp_path):
    other = tmp_path / "elsewhere" / "project"
    (other / "docs").mkdir(parents=True)
    (other / "docs" / "a.md").write_text("newer\n")
    for roots in ([root, other], [other, root]):
        verifier = FileVerifier(roots)
        for text in (TEXT, "newer\n"):
            cited = citation("file:project/docs/a.md", f"1-{text.count(chr(10))}", text)
            assert verifier.verify([cited], evidence(), time.monotonic() + 30).findings[0].result == "matched"


# --- what does not --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "content", "reason"),
    [
        ("1-3", TEXT.replace("two", "Two"), files.OTHER_BYTES),
        ("1-3", TEXT.rstrip("\n"), files.OTHER_BYTES),
        ("1-3", TEXT.replace("\n", "\r\n"), files.OTHER_BYTES),
        ("1-4", TEXT, files.ENDS_BEFORE),
    ],
)
def test_a_mismatch_is_told(root, value, content, reason):
    assert of_citation(root, citation("file:project/docs/a.md", value, content)) == ("mismatched", reason)


def test_evidence_that_is_another_file_is_a_mismatch(root):
    cited = citation("file:project/docs/a.md")
    for digest, result in ((sha(TEXT.encode()), "matched"), (sha(b"other"), "mismatched")):
        found = looked_at(root, cited, evidence_ref="file:project/docs/a.md", evidence_digest=digest)
        assert (found.findings[-1].citation_id, found.findings[-1].result, found.result) == (None, result, result)


def test_evidence_without_anything_behind_it_is_the_citations_or_not_verified(root):
    cited = citation("file:project/docs/a.md")
    assert looked_at(root, cited, evidence_digest=sha(canonical_bytes([cited]))).result == "matched"
    found = looked_at(root, cited)
    assert (found.findings[-1].reason, found.result) == (files.NOTHING_BEHIND, "unverified")


def test_one_mismatch_is_enough_and_one_unverified_earns_nothing(root):
    good, bad = citation("file:project/docs/a.md"), citation("file:project/docs/a.md", "1", "x")
    unknown = citation("https://example.org/")
    digest = sha(TEXT.encode())

    def result(*citations: dict[str, Any]) -> str:
        return looked_at(root, *citations, evidence_ref="file:project/docs/a.md", evidence_digest=digest).result

    assert result(good, good) == "matched"
    assert result(good, unknown) == "unverified"
    assert result(good, unknown, bad) == "mismatched"


# --- what is left alone ---------------------------------------------------------------------------


def unverified(root: Path, source_ref: str, reason: str) -> None:
    assert of_citation(root, citation(source_ref)) == ("unverified", reason)


def test_what_is_no_file_or_not_there(root):
    unverified(root, "https://example.org/a.md", files.NO_FILE)
    unverified(root, "file:project/docs/b.md", files.NOT_THERE)
    unverified(root, "file:project/docs/a.md/x", files.NOT_THERE)
    unverified(root, "file:project/docs", files.NOT_REGULAR)
    unverified(root, "file:project", files.NOT_REGULAR)
    unverified(root, "file:", files.OUTSIDE)
    unverified(root, "file:project/a\0b", files.OUTSIDE)
    unverified(root, "file:project/" + "x" * 300, files.UNREADABLE)


@pytest.mark.parametrize(
    "name", ["/{0}/secret", "project/../secret", "../secret", "project/docs/../../secret", "secret"]
)
def test_what_lies_outside_is_not_read(root, tmp_path, name):
    (tmp_path / "secret").write_text(TEXT, encoding="utf-8")
    cited = citation("file:" + name.format(str(tmp_path).lstrip("/")))
    assert of_citation(root, cited) in {("unverified", files.OUTSIDE), ("unverified", files.NOT_THERE)}


def test_a_link_out_of_the_root_is_not_followed(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text(TEXT, encoding="utf-8")
    (root / "link.md").symlink_to(outside / "a.md")
    (root / "folder").symlink_to(outside)
    (root / "ring").symlink_to("ring")
    unverified(root, "file:project/link.md", files.OUTSIDE)
    unverified(root, "file:project/folder/a.md", files.OUTSIDE)
    unverified(root, f"file:{root}/link.md", files.OUTSIDE)
    assert of_citation(root, citation("file:project/ring"))[0] == "unverified"


def test_a_file_that_is_replaced_by_a_link_between_looking_and_opening_is_not_read(root, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text(TEXT, encoding="utf-8")
    opened = files._opened

    def replaced(real_root: Path, parts: tuple[str, ...]) -> int:
        (root / "docs" / "a.md").unlink()
        (root / "docs" / "a.md").symlink_to(tmp_path / "secret")
        return opened(real_root, parts)

    monkeypatch.setattr(files, "_opened", replaced)
    unverified(root, "file:project/docs/a.md", files.UNREADABLE)


def test_a_folder_that_is_replaced_by_a_link_meanwhile_is_not_entered(root, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text(TEXT, encoding="utf-8")
    opened = files._opened

    def replaced(real_root: Path, parts: tuple[str, ...]) -> int:
        (root / "docs").rename(root / "gone")
        (root / "docs").symlink_to(outside)
        return opened(real_root, parts)

    monkeypatch.setattr(files, "_opened", replaced)
    assert of_citation(root, citation("file:project/docs/a.md"))[0] == "unverified"


def test_a_file_that_waits_for_a_writer_is_not_waited_for(root):
    os.mkfifo(root / "pipe")
    unverified(root, "file:project/pipe", files.NOT_REGULAR)


def test_a_huge_file_is_not_read(root, monkeypatch):
    with (root / "huge").open("wb") as huge:
        huge.truncate(limits.VERIFIED_FILE_MAX_BYTES + 1)
    unverified(root, "file:project/huge", files.TOO_LARGE)
    monkeypatch.setattr(limits, "VERIFIED_TOTAL_MAX_BYTES", len(TEXT.encode()) + 1)
    (root / "b.md").write_text("bb")
    found = looked_at(root, citation("file:project/docs/a.md"), citation("file:project/b.md", "1", "bb"))
    assert [each.reason for each in found.findings[:2]] == [None, files.TOO_LARGE]


def test_a_root_that_is_not_there(tmp_path):
    unverified(tmp_path / "none", "file:none/a.md", files.NOT_THERE)


def test_without_time_nothing_is_verified(root):
    found = looked_at(root, citation("file:project/docs/a.md"), seconds=-1)
    assert found.findings[0].reason == files.TOO_SLOW


def test_many_citations_of_a_file_of_short_lines_take_no_longer_than_there_is_time(root, monkeypatch):
    (root / "many.txt").write_bytes(b"x\n" * 1000)
    walked = []

    def walk(content, scheme, value, deadline):
        walked.append(value)
        if len(walked) == 2:
            deadline = time.monotonic()
        return selected(content, scheme, value, deadline)

    monkeypatch.setattr(files, "selected", walk)
    cited = citation("file:project/many.txt", "900", "x\n")
    found = looked_at(root, cited, cited)
    assert [(each.result, each.reason) for each in found.findings[:2]] == [
        ("matched", None), ("unverified", files.TOO_SLOW),
    ]  # fmt: skip


# --- the time that a capture gives ----------------------------------------------------------------


class Odd:
    verifier_id, verifier_version, revocation_epoch = "odd", "1", 0

    def __init__(self, how: Any) -> None:
        self._how = how

    def verify(self, *_: Any) -> Verified:
        return self._how()


def test_a_verifier_that_hangs_or_raises_verifies_nothing():
    import threading

    ended = threading.Event()
    cited = [citation("file:a")]
    try:
        slow = verified_in_time(Odd(lambda: ended.wait(60)), cited, evidence(), 0.05)
        assert {(each.citation_id, each.result, each.reason) for each in slow.findings} == {
            ("citation:1", "unverified", "the verifier was too slow"),
            (None, "unverified", "the verifier was too slow"),
        }
        for _ in range(limits.VERIFICATIONS_AT_ONCE_MAX - 1):
            verified_in_time(Odd(lambda: ended.wait(60)), cited, evidence(), 0.01)
        full = verified_in_time(Odd(lambda: ended.wait(60)), cited, evidence(), 60)
        assert full.findings[0].reason == "too many are verified at once"
    finally:
        ended.set()
    for thread in threading.enumerate():
        if thread.name == "engram-verifier":
            thread.join(10)
    failed = verified_in_time(Odd(lambda: 1 / 0), cited, evidence(), 30)
    assert failed.findings[0].reason == "the verifier failed"

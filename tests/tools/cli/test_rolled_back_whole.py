"""A store that was rolled back as a whole: what the anchor and the state folder know of it is asked, and is said."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.tools.cli.examined import SCOPE, examined

AUDITS = pytest.mark.parametrize("how", [[], ["--headers-only"]], ids=["whole", "headers"])


@pytest.fixture
def desk(open_desk):
    """A desk, a copy of its empty store, and then three records and a checkpoint."""
    shutil.copytree(open_desk.store, open_desk.place / "empty")
    _more(open_desk, "Words 1.", "Words 2.", "Words 3.")
    open_desk.folder = Path(open_desk.json("checkpoint")["anchor"])
    return open_desk


def _more(desk, *texts):
    with desk.agent() as agent:
        return [agent.remember(text) for text in texts]


def _back_to(desk, name):
    shutil.rmtree(desk.store)
    shutil.copytree(desk.place / name, desk.store)


def _in_workspace(desk, name):
    text = desk.host_file.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("workspace ="))
    desk.host_file.write_text(text.replace(line, f'workspace = "{name}"'), encoding="utf-8")


def _anchored_at(desk, path):
    text = desk.host_file.read_text(encoding="utf-8")
    assert '# anchor = "PATH"' in text
    desk.host_file.write_text(text.replace('# anchor = "PATH"', f'anchor = "{path}"'), encoding="utf-8")


def _found(ended):
    assert ended.code == 1, ended
    report = ended.json
    assert report["ok"] is False
    listed = [each for scope in report["scopes"] for each in scope["findings"]]
    return [(each["code"], each["detail"]) for each in [*listed, *report.get("elsewhere", [])]]


def _named(ended, code, *words):
    found = _found(ended)
    assert any(each == code and all(word in detail for word in words) for each, detail in found), found


def _refused(desk, code):
    backup = desk.place / "backup-of-what-is-left"
    for words in (["checkpoint"], ["checkpoint", "--all"], ["backup", str(backup)]):
        ended = desk.run(*words)
        assert ended.code in {1, 2}, ended
        assert code in ended.err, ended
    assert not backup.exists()


@AUDITS
def test_back_to_before_the_first_event(desk, how):
    _back_to(desk, "empty")
    _named(
        desk.run("audit", "--json", *how), "CURSOR_GAP", SCOPE.tag.hex(), "the anchor has a checkpoint of 6", "rolled"
    )
    _refused(desk, "CURSOR_GAP")
    assert examined(desk)["ROLLED_BACK"]["severity"] == "fault"


def test_a_journal_that_is_gone_altogether(desk):
    for name in ("journal", "keys"):
        shutil.rmtree(desk.store / name)
    assert "CURSOR_GAP" in examined(desk)["ROLLED_BACK"]["detail"]


@pytest.mark.parametrize("known_from", ["anchor", "heads"])
@AUDITS
def test_a_workspace_that_vanished(desk, how, known_from):
    shutil.copytree(desk.store, desk.place / "old")
    _in_workspace(desk, "second")
    with desk.agent() as agent:
        agent.forget(agent.remember("It goes."))
    if known_from == "anchor":
        desk.ok("checkpoint")
        shutil.rmtree(desk.folder.parents[2] / "heads")
    _back_to(desk, "old")
    where = {"anchor": "the anchor has", "heads": "the heads file in the state folder"}[known_from]
    _named(desk.run("audit", "--json", *how), "CURSOR_GAP", where)
    _refused(desk, "CURSOR_GAP")
    assert where in examined(desk)["ROLLED_BACK"]["detail"]


@AUDITS
def test_a_scope_that_is_shorter_than_the_heads_file_knows(desk, how):
    shutil.copytree(desk.store, desk.place / "old")
    with desk.agent() as agent:
        agent.forget(agent.remember("It goes."))
    _back_to(desk, "old")
    _named(desk.run("audit", "--json", *how), "CURSOR_GAP", "ends at cursor 6; the heads file")
    _more(desk, "Another.", "And one more.", "And on.")
    _named(desk.run("audit", "--json", *how), "JOURNAL_CORRUPT", "another event at cursor")
    _refused(desk, "JOURNAL_CORRUPT")


@AUDITS
def test_a_scope_that_began_anew_after_it(desk, how):
    _back_to(desk, "empty")
    _more(desk, "Other words.", "And others.", "And more.", "And on.")
    _refused(desk, "JOURNAL_CORRUPT")
    assert examined(desk)["ANCHOR_AHEAD"]["severity"] == "warning"
    _named(desk.run("audit", "--json"), "JOURNAL_CORRUPT", "signed with another key", "up to 6", desk.folder.name)
    _found(desk.run("audit", "--json", *how))  # without a key the new history is the one that nobody signed
    desk.folder.rename(desk.folder.with_name(f"{desk.folder.name}.until-now"))
    desk.ok("checkpoint")
    assert desk.json("audit", *how)["ok"], "a person has set it aside"


def test_doctor_faults_a_scope_that_is_shorter_than_the_anchor_knows(desk):
    shutil.copytree(desk.store, desk.place / "old")
    _more(desk, "More.")
    desk.ok("checkpoint")
    _back_to(desk, "old")
    found = examined(desk)["ROLLED_BACK"]
    assert (found["severity"], "the anchor has a checkpoint of 8" in found["detail"]) == ("fault", True)


def test_another_store_of_the_same_scope_is_no_finding(desk, tmp_path):
    other = tmp_path / "other"
    ended = desk.bare(
        "init", "--store", str(other / "store"), "--config", str(other / "engram.toml"), "--purpose", "purpose:x"
    )
    assert ended.code == 0, ended
    for words in (["audit"], ["audit", "--headers-only"]):
        assert desk.bare(*words, "--config", str(other / "engram.toml")).code == 0
    assert desk.json("audit")["ok"]


@pytest.mark.parametrize("what", ["missing", "dangling", "file"])
@AUDITS
def test_an_anchor_that_cannot_be_asked(desk, how, what):
    place = desk.place / "elsewhere"
    if what == "dangling":
        place.symlink_to(desk.place / "nowhere")
    if what == "file":
        place.write_text("in the way", encoding="utf-8")
    _anchored_at(desk, place)
    words = {"missing": "is not there", "dangling": "is a link to nowhere", "file": "cannot be read"}[what]
    _named(desk.run("audit", "--json", *how), "STORE_UNAVAILABLE", str(place), words)
    found = examined(desk)["ANCHOR_MISSING"]
    assert (found["severity"], words in found["detail"]) == ("fault", True)


def test_an_anchor_that_was_never_needed(open_desk):
    _anchored_at(open_desk, open_desk.place / "not-yet")
    open_desk.captured("One.")
    assert open_desk.json("audit")["ok"]
    assert "ANCHOR_MISSING" not in examined(open_desk)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_in_the_anchor(desk, kind):
    place = desk.folder / f"{3:020d}"
    os.mkfifo(place) if kind == "pipe" else place.mkdir()
    for words in (["checkpoint"], ["backup", str(desk.place / "backup")]):
        ended = desk.process(*words, timeout=60)
        assert ended.code == 0, ended
    for how in ([], ["--headers-only"]):
        ended = desk.process("audit", "--json", *how, timeout=60)
        _named(ended, "INVALID_DIGEST", "the anchor: the checkpoint of 3 is not valid", "file")


def test_a_proof_in_other_hex_is_refused(desk):
    text = desk.ok("prove", "2").out
    file = desk.place / "proof"
    file.write_text(text, encoding="utf-8")
    desk.ok("prove", "--verify", str(file))
    frame = next(line for line in text.splitlines() if '"frame"' in line)
    file.write_text(text.replace(frame, frame.upper().replace('"FRAME"', '"frame"')), encoding="utf-8")
    ended = desk.run("prove", "--verify", str(file))
    assert (ended.code, "lower-case hex" in ended.err) == (1, True), ended

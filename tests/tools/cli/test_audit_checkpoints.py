"""engram audit against checkpoints: each attack is named by its code and in words, with keys and without any."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from journal.checkpointfiles import Anchor
from journal.store.lmdb import tables
from replay.claims import Claim, Claims
from tests.replay.tampering import changed, tampered
from tools.host.file import load_host_file


@pytest.fixture
def desk(open_desk):
    """A desk with six events and a checkpoint of them."""
    with open_desk.agent() as agent:
        for number in range(3):
            agent.remember(f"Words {number}.")
    open_desk.first = open_desk.json("checkpoint")
    assert open_desk.first["size"] == 6
    return open_desk


def _more(desk, *texts):
    with desk.agent() as agent:
        for text in texts:
            agent.remember(text)


def _scope(desk):
    host = load_host_file(desk.host_file).host
    from journal.scope import Scope

    return Scope.of(host.tenant, host.workspace)


def _saved(desk, name):
    """Write the newest checkpoint to a file outside, and the key to another."""
    value = desk.json("checkpoint")
    note, key = desk.place / f"{name}.note", desk.place / f"{name}.pub"
    note.write_text(value["note"], encoding="utf-8")
    key.write_text(value["public_key"], encoding="utf-8")
    return note, key


def _findings(ended):
    assert ended.code == 1, ended
    report = ended.json
    assert report["ok"] is False
    listed = [each for scope in report["scopes"] for each in scope["findings"]]
    return [(each["code"], each["detail"]) for each in [*listed, *report.get("elsewhere", [])]]


def _named(ended, code, words):
    found = _findings(ended)
    assert any(each == code and words in detail for each, detail in found), found


def _without_anchor(desk):
    shutil.rmtree(desk.first["anchor"])


def _cut(desk, keep):
    """Cut the tail of the closed journal, so that what is left holds in itself."""
    with tampered(desk.store, _scope(desk)) as opened:
        headers = opened.headers()[:keep]
        for cursor in range(keep + 1, len(opened.headers()) + 1):
            for part in tables.PARTS:
                opened.txn.delete(opened.key(cursor), db=opened.handles[part])
        opened.forge(headers)


# --- clean ------------------------------------------------------------------------------------------


def test_a_journal_that_went_on_is_clean(desk):
    note, key = _saved(desk, "kept")
    _more(desk, "More.")
    report = desk.json("audit", "--checkpoint", str(note), "--public-key", str(key))
    assert report["ok"]
    assert report["scopes"][0]["checkpoints"] == 1
    assert desk.json("audit")["ok"]


def test_headers_alone_need_no_key(desk):
    note, key = _saved(desk, "kept")
    whole = desk.json("audit")["scopes"][0]
    desk.root_key.unlink()
    shutil.rmtree(desk.store / "keys")
    for words in (
        ["--headers-only"],
        ["--checkpoint", str(note)],
        ["--checkpoint", str(note), "--public-key", str(key)],
    ):
        ended = desk.run("audit", "--json", *words)
        assert ended.code == 0, ended
        (scope,) = ended.json["scopes"]
        assert scope == {**whole, "bodies": None}
        assert ended.json["projections"] == []
    assert desk.run("audit").code == 2, "a whole audit says that it lacks the key"


def test_a_copy_needs_no_host_file(desk, tmp_path):
    note, key = _saved(desk, "kept")
    shutil.copytree(desk.store, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "keys")
    ended = desk.bare(
        "audit", "--store", str(tmp_path / "copy"), "--checkpoint", str(note), "--public-key", str(key), "--json"
    )
    assert ended.code == 0, ended
    assert ended.json["scopes"][0]["checkpoints"] == 1


def test_a_key_that_only_the_store_vouches_for_is_said(desk):
    _without_anchor(desk)
    ended = desk.run("audit", "--headers-only", "--json")
    assert ended.code == 0
    assert "proves little" in ended.err


# --- attacks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [[], ["--headers-only"]], ids=["whole", "headers"])
def test_a_cut_tail(desk, how):
    _cut(desk, 4)
    _named(desk.run("audit", "--json", *how), "CURSOR_GAP", "its tail was cut")


def test_a_cut_tail_is_found_by_a_kept_file_alone(desk):
    note, key = _saved(desk, "kept")
    _without_anchor(desk)
    shutil.rmtree(desk.store / "checkpoints")
    _cut(desk, 4)
    assert all(code != "CURSOR_GAP" for code, _ in _findings(desk.run("audit", "--json")))
    words = ["audit", "--headers-only", "--json", "--checkpoint", str(note), "--public-key", str(key)]
    _named(desk.run(*words), "CURSOR_GAP", "the journal ends at cursor 4")


@pytest.mark.parametrize("how", [[], ["--headers-only"]], ids=["whole", "headers"])
def test_a_rewritten_event(desk, how):
    with tampered(desk.store, _scope(desk)) as opened:
        headers = opened.headers()
        actor = msgspec.structs.replace(headers[2].actor, agent_id="agent:other")
        opened.forge(changed(headers, 3, actor=actor))
    _named(desk.run("audit", "--json", *how), "JOURNAL_CORRUPT", "an event was rewritten between cursors 1 and 6")


def test_a_rewritten_event_in_a_store_without_checkpoints_of_its_own(desk):
    _more(desk, "More.")
    desk.ok("checkpoint")
    shutil.rmtree(desk.store / "checkpoints")
    with tampered(desk.store, _scope(desk)) as opened:
        headers = opened.headers()
        actor = msgspec.structs.replace(headers[7].actor, agent_id="agent:other")
        opened.forge(changed(headers, 8, actor=actor))
    _named(desk.run("audit", "--json"), "JOURNAL_CORRUPT", "the anchor has a checkpoint of 8 with another root")
    _named(desk.run("audit", "--json"), "JOURNAL_CORRUPT", "rewritten between cursors 7 and 8")


def test_a_swapped_body(desk):
    with tampered(desk.store, _scope(desk)) as opened:
        one, other = opened.get(b"content", 1), opened.get(b"content", 3)
        opened.put(b"content", 1, other)
        opened.put(b"content", 3, one)
    _named(desk.run("audit", "--json"), "JOURNAL_CORRUPT", "is not what its header names")


def test_an_old_slot_file(desk):
    (path,) = (desk.store / "keys").glob("*.slots")
    old = path.read_bytes()
    with desk.agent() as agent:
        agent.forget(agent.remember("It goes."))
    path.write_bytes(old)
    _named(desk.run("audit", "--json"), "JOURNAL_CORRUPT", "the slot file is older than the journal")


def _forked(desk):
    """Let a copy of the store go another way, each signing its own; the copy has no part in the anchor."""
    copy = desk.store.with_name("copy")
    shutil.copytree(desk.store, copy)
    _more(desk, "One way.")
    desk.ok("checkpoint")
    shutil.rmtree(desk.store)
    copy.rename(desk.store)
    _more(desk, "Another way.", "And on.")
    text = desk.host_file.read_text(encoding="utf-8")
    elsewhere = desk.host_file.with_name("other.toml")
    elsewhere.write_text(text.replace('# anchor = "PATH"', 'anchor = "elsewhere"'), encoding="utf-8")
    assert desk.bare("checkpoint", "--config", str(elsewhere)).code == 0


@pytest.mark.parametrize("how", [[], ["--headers-only"]], ids=["whole", "headers"])
def test_a_forked_copy(desk, how):
    _forked(desk)
    _named(desk.run("audit", "--json", *how), "JOURNAL_CORRUPT", "a forked copy")
    assert desk.run("checkpoint").code == 2, "and it signs nothing against the anchor"


@pytest.mark.parametrize("how", [[], ["--headers-only"]], ids=["whole", "headers"])
def test_a_rolled_back_store(desk, how):
    shutil.copytree(desk.store, desk.store.with_name("old"))
    _more(desk, "More.")
    desk.ok("checkpoint")
    shutil.rmtree(desk.store)
    desk.store.with_name("old").rename(desk.store)
    _named(desk.run("audit", "--json", *how), "CURSOR_GAP", "the whole store was rolled back to an earlier moment")
    refused = desk.run("checkpoint")
    assert refused.code == 2
    assert "CURSOR_GAP" in refused.err
    _without_anchor(desk)
    assert desk.json("audit")["ok"], "without an outside anchor nothing inside can tell"


def test_a_store_that_was_emptied(desk):
    with tampered(desk.store, _scope(desk)) as opened:
        for name in tables.NAMES:
            if name != tables.STORE:
                opened.txn.drop(opened.handles[name], delete=False)
    _named(desk.run("audit", "--json"), "CURSOR_GAP", "the journal ends at cursor 0")


def test_a_file_that_nobody_signed(desk):
    note, _ = _saved(desk, "kept")
    note.write_text(note.read_text(encoding="utf-8").replace("\n6\n", "\n5\n"), encoding="utf-8")
    _named(desk.run("audit", "--json", "--checkpoint", str(note)), "INVALID_DIGEST", "is not a valid checkpoint")
    note.write_text("nothing", encoding="utf-8")
    _named(desk.run("audit", "--json", "--checkpoint", str(note)), "INVALID_DIGEST", "is not a valid checkpoint")


def test_a_checkpoint_of_a_scope_that_is_not_there(desk, tmp_path):
    from journal import checkpoints
    from journal.scope import Scope

    other = Scope.of("nobody", "nowhere")
    (tmp_path / "note").write_bytes(checkpoints.sign(other, 3, bytes(32), bytes(32)))
    ended = desk.run("audit", "--json", "--checkpoint", str(tmp_path / "note"))
    _named(ended, "CURSOR_GAP", "a scope of which the store has no event")


def test_a_broken_checkpoint_in_the_store_is_named(desk):
    (path,) = (desk.store / "checkpoints").glob("*/0*6")
    path.write_text("nothing", encoding="utf-8")
    _named(desk.run("audit", "--json"), "INVALID_DIGEST", "the store: the checkpoint of 6 is not valid")


def test_wrong_use(desk):
    for words in (["--checkpoint", "nowhere"], ["--public-key", "nowhere"], ["--store", str(desk.place / "nothing")]):
        ended = desk.run("audit", *words)
        assert (ended.code, ended.out) == (2, ""), words
        assert ended.err.count("\n") == 1


def test_the_anchor_is_the_one_that_the_host_file_names(desk):
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace('# anchor = "PATH"', 'anchor = "kept"'), encoding="utf-8")
    value = desk.json("checkpoint")
    assert value["anchor"].startswith(str(desk.place / "kept"))
    (tag,) = (desk.place / "kept").iterdir()
    assert [key.text() for key in Anchor(desk.place / "kept").keys(bytes.fromhex(tag.name))] == [value["public_key"]]
    desk.host_file.write_text(text.replace('# anchor = "PATH"', f'anchor = "{desk.store}/inside"'), encoding="utf-8")
    assert "lies in the store" in desk.run("checkpoint").err


# --- what claims mean -------------------------------------------------------------------------------


def test_each_source_is_named_once():
    claims = Claims(Claim(source, size, b"x", inside=source == "the store")
                    for source in ("the store", "the anchor") for size in (3, 4))  # fmt: skip
    found = list(claims.findings(2))
    assert [(error.code, cursor) for error, cursor in found] == [("CURSOR_GAP", 3), ("CURSOR_GAP", 3)]

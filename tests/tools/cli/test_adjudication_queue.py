"""engram candidates note, and what stands beside a candidate: notes, and the records most like it."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import SECOND

TEXT = "야간 빌드를 두 시 반으로 옮겼다."
SECRET = "AKIA" + "Q3EGRI4NLPJX7T2K"


def everything_in(desk) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(desk.store.rglob("*")) if path.is_file())


def test_a_note_stands_beside_the_candidate_and_the_record(desk):
    (candidate,) = desk.captured(TEXT)
    first = desk.json("candidates", "note", candidate, "민수에게 물어볼 것")
    assert set(first) == {"candidate_id", "cursor", "transaction_receipt_digest"}
    assert (first["candidate_id"], first["cursor"]) == (candidate, "2")
    desk.ok("candidates", "note", candidate[:20], "line one\nline two")
    shown = desk.json("candidates", "show", candidate)
    assert [(note["cursor"], note["text"]) for note in shown["notes"]] == [
        ("2", "민수에게 물어볼 것"),
        ("3", "line one\nline two"),
    ]
    assert shown["notes"][0]["by"].startswith("operator:")
    assert shown["state"] == "pending"
    told = desk.ok("candidates", "show", candidate).out
    assert "  민수에게 물어볼 것\n" in told
    assert "  line one\n  line two\n" in told
    record = desk.json("candidates", "accept", candidate)["record_id"]
    desk.ok("candidates", "note", record, "afterwards")
    assert [note["text"] for note in desk.json("candidates", "show", record)["notes"]][-1] == "afterwards"
    assert [each["type"] for each in desk.json("records", "history", record)] == [
        "capture", "adjudication_note", "adjudication_note", "accept", "adjudication_note",
    ]  # fmt: skip
    assert desk.json("audit")["ok"]


def test_the_list_says_where_and_by_whom_it_was_captured_and_that_a_note_was_left(desk):
    first, second = desk.captured(TEXT, "다른 것.")
    with desk.agent() as agent:
        agent.admit(second)
    for _ in range(2):
        desk.ok("candidates", "note", second, "민수에게 물어볼 것")
    listed = {row["candidate_id"]: row for row in desk.json("candidates", "list")}
    assert (listed[first]["notes"], listed[second]["notes"]) == ([], ["admission asked", "a note was left"])
    shown = desk.json("candidates", "show", first)
    assert {row["principal"] for row in listed.values()} == {shown["principal"]}
    told = desk.ok("candidates", "list").out.splitlines()
    assert told[0].split() == ["scope", "captured", "by", "says", "note", "candidate"]
    assert all(line.startswith("default / default  ") and f"  {shown['principal']}  " in line for line in told[1:])
    assert "admission asked; a note was left" in told[2]


def test_notes_and_decisions_are_told_in_their_order(desk):
    (candidate,) = desk.captured(TEXT)
    with desk.agent() as agent:
        agent.admit(candidate)
    desk.ok("candidates", "note", candidate, "민수에게 물어볼 것")
    desk.ok("candidates", "accept", candidate)
    told = desk.ok("candidates", "show", candidate).out.splitlines()
    assert [line.partition(" at cursor")[0] for line in told if " at cursor" in line] == [
        "adjudication",
        "note",
        "accept",
    ]


def test_a_note_is_no_clear_text_and_ends_with_its_candidate(desk):
    (candidate,) = desk.captured(TEXT)
    desk.ok("candidates", "note", candidate, "plantedword")
    assert b"plantedword" not in everything_in(desk)
    assert desk.json("audit")["ok"]
    desk.ok("candidates", "reject", candidate)
    (note,) = desk.json("candidates", "show", candidate)["notes"]
    assert note["text"] is None
    assert "(erased)" in desk.ok("candidates", "show", candidate).out
    audited = desk.json("audit")
    assert audited["ok"]
    assert audited["scopes"][0]["bodies"]["erased"] == 2  # the capture's and the note's
    ended = desk.run("candidates", "note", candidate, "too late")
    assert ended.code == 1
    assert "rejected" in ended.err


def test_no_agent_finds_a_note(desk):
    (candidate,) = desk.captured(TEXT)
    desk.ok("candidates", "note", candidate, "plantedword 빌드")
    record = desk.json("candidates", "accept", candidate)["record_id"]
    with desk.agent() as agent:
        assert agent.found("plantedword") == []
        assert "plantedword" not in str(agent.get(record))
    assert desk.json("projections", "verify")


def test_a_note_survives_backup_and_restore(desk, tmp_path):
    (candidate,) = desk.captured(TEXT)
    desk.ok("candidates", "note", candidate, "kept")
    desk.ok("backup", str(tmp_path / "backup"))
    assert desk.json("audit")["ok"]


def test_a_secret_is_never_noted(desk):
    (candidate,) = desk.captured(TEXT)
    before = desk.json("replay")
    ended = desk.run("candidates", "note", candidate, f"aws_access_key_id={SECRET}")
    assert ended.code == 1
    assert SECRET not in ended.out + ended.err
    assert desk.json("replay") == before


@pytest.mark.parametrize("text", ["", "x" * 4_097, "\udc80"])
def test_a_note_has_bounds(desk, text):
    (candidate,) = desk.captured(TEXT)
    assert desk.run("candidates", "note", candidate, text).code == 2
    assert desk.run("candidates", "note", candidate, "x" * 4_096).code == 0


@pytest.mark.parametrize("name", ["candidate_" + 64 * "0", "mem_aaaa", "", "nonsense", "confirmation_00"])
def test_an_unknown_id_is_refused(desk, name):
    ended = desk.run("candidates", "note", name, "text")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1


# --- near neighbours ------------------------------------------------------------------------------


def test_the_likest_records_are_shown_first(open_desk):
    desk = open_desk
    with desk.agent() as agent:
        like = agent.remember("야간 빌드를 두 시 반으로 옮겼다. 서버가 바빠서.")
        other = agent.remember("야간 근무표는 벽에 붙어 있다.")
        agent.remember("The office moves in May.")
        under = agent.remember("야간 빌드를 옮겼다.", purpose_ref=SECOND)
        gone = agent.remember("야간 빌드를 두 시 반으로 옮겼다!")
        agent.forget(gone)
        candidate = agent.capture(TEXT.replace("옮겼다", "옮긴다"))
    shown = desk.json("candidates", "show", candidate)["neighbours"]
    assert [each["record_id"] for each in shown] == [like, under, other]
    shares = [each["shared"] for each in shown]
    assert shares == sorted(shares, reverse=True)
    assert all(0 < share < 1_000_000 for share in shares)
    told = desk.ok("candidates", "show", candidate).out
    assert f"{like}  야간 빌드를 두 시 반으로 옮겼다. 서버가 바빠서." in told


def test_the_same_words_share_everything(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember(TEXT)
        candidate = agent.capture(TEXT)
    (near,) = open_desk.json("candidates", "show", candidate)["neighbours"]
    assert (near["record_id"], near["shared"]) == (record, 1_000_000)


def test_a_candidate_without_any_like_it_and_a_decided_one(desk):
    (candidate,) = desk.captured(TEXT)
    assert desk.json("candidates", "show", candidate)["neighbours"] == []
    desk.ok("candidates", "accept", candidate)
    assert desk.json("candidates", "show", candidate)["neighbours"] is None


def test_a_candidate_is_shown_also_where_the_index_cannot_be_asked(desk, monkeypatch):
    from journal.errors import ProjectionStale
    from projections.catchup import Projections

    (candidate,) = desk.captured(TEXT)

    def stale(*_):
        raise ProjectionStale("tests")

    monkeypatch.setattr(Projections, "snapshot", stale)
    shown = desk.json("candidates", "show", candidate)
    assert shown["neighbours"] is None
    assert shown["payload"]["components"][0]["text"] == TEXT

"""engram replay --receipt: files of kept answers, what is said of them, and the exit code."""

from __future__ import annotations

import json

import pytest

from tests.tools.memory.keeping import kept_get, kept_search, shown
from tests.tools.memory.world import changed

FIELDS = {"file", "line", "verdict", "tool", "system_as_of", "valid_as_of", "differs", "erased", "verified", "reason"}


@pytest.fixture
def kept(open_desk):
    """A desk, and three documents: two searches and a get."""
    with open_desk.agent() as agent:
        agent.remember("The release train leaves on Tuesday.")
        first = kept_search(agent, "release train")
        record_id = agent.remember("The release train leaves on Friday since May.")
        return open_desk, [first, kept_search(agent, "release train"), kept_get(agent, record_id)]


def _written(desk, name, *documents):
    path = desk.place / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(json.dumps(each, ensure_ascii=False) for each in documents) + "\n", encoding="utf-8")
    return str(path)


def _forget(desk, record_id):
    with desk.agent() as agent:
        agent.forget(record_id)


def test_one_file(kept):
    desk, (document, *_) = kept
    path = _written(desk, "one.json", document)
    value = desk.json("replay", "--receipt", path)
    receipt = document["answer"]["output"]["value"]["rank_receipt"]
    assert value == {
        "verdict": "derived",
        "counts": {"derived": 1, "order_underivable": 0, "altered": 0, "unverifiable": 0},
        "erased": [],
        "receipts": [{
            "file": path, "line": None, "verdict": "derived", "tool": "engram_memory_search", "differs": [],
            "system_as_of": receipt["system_as_of"], "valid_as_of": receipt["valid_as_of"], "erased": [], "verified": 1,
            "reason": None,
        }],
    }  # fmt: skip
    assert desk.ok("replay", "--receipt", path).out.startswith("derived ")


def test_a_file_as_a_person_lays_it_out(kept):
    desk, (document, *_) = kept
    path = desk.place / "laid out.json"
    path.write_text(json.dumps(document, indent=4, sort_keys=True), encoding="utf-8")
    assert desk.json("replay", "--receipt", str(path))["verdict"] == "derived"


def test_a_line_a_document_whatever_their_order(kept):
    desk, documents = kept
    path = _written(desk, "many.jsonl", *reversed(documents))
    value = desk.json("replay", "--receipt", path)
    assert [each["line"] for each in value["receipts"]] == [1, 2, 3]
    assert [each["tool"] for each in value["receipts"]] == [each["tool"] for each in reversed(documents)]
    assert value["counts"]["derived"] == 3
    assert desk.ok("replay", "--receipt", path).out.endswith("3 derived\n")


def test_a_directory_and_several_files(kept):
    desk, documents = kept
    _written(desk, "kept/b.json", documents[0])
    _written(desk, "kept/a.jsonl", *documents)
    _written(desk, "kept/notes.txt", documents[0])
    single = _written(desk, "single.json", documents[2])
    value = desk.json("replay", "--receipt", str(desk.place / "kept"), "--receipt", single)
    names = [each["file"].rpartition("/")[2] for each in value["receipts"]]
    assert names == ["a.jsonl"] * 3 + ["b.json", "single.json"]
    assert all(set(each) == FIELDS for each in value["receipts"])


def test_after_a_forgetting_the_exit_code_is_still_0_and_the_record_is_named(kept):
    desk, documents = kept
    gone = documents[2]["request"]["record_id"]
    _forget(desk, gone)
    path = _written(desk, "many.jsonl", *documents)
    value = desk.json("replay", "--receipt", path)
    assert [each["verdict"] for each in value["receipts"]] == ["derived", "order_underivable", "order_underivable"]
    assert [each["verified"] for each in value["receipts"]] == [1, 1, 0]
    assert value["erased"] == [gone]
    assert gone in shown(documents[1])
    assert f"erased since: {gone}" in desk.ok("replay", "--receipt", path).out


def test_an_altered_answer_is_exit_code_1(kept):
    desk, documents = kept
    made = changed(documents[0], "answer.output.value.records.0.score", 1)
    path = _written(desk, "many.jsonl", made, *documents)
    ended = desk.run("replay", "--receipt", path, "--json")
    assert (ended.code, ended.json["verdict"]) == (1, "altered")
    assert [each["verdict"] for each in ended.json["receipts"]] == ["altered"] + ["derived"] * 3
    assert "answer.output.value.records.0.score" in ended.json["receipts"][0]["differs"]
    assert "differs: answer.output.value.records.0.score" in desk.run("replay", "--receipt", path).out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"tool": 1, "tool": 2}',
        '{"tool": NaN}',
        "{" * 5_000,
        '{"tool":"x","request":{},"answer":{}}',
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_answer_is_exit_code_2_and_says_why(kept, text):
    desk, _ = kept
    path = desk.place / "odd.json"
    path.write_text(text, encoding="utf-8")
    ended = desk.run("replay", "--receipt", str(path), "--json")
    assert (ended.code, ended.json["verdict"]) == (2, "unverifiable")
    assert ended.json["receipts"][0]["reason"]


def test_another_store_does_not_know_it(kept):
    desk, documents = kept
    other = desk.place / "other"
    other.mkdir()
    stranger = type(desk)(other, desk._capsys)
    assert stranger.init("--purpose", documents[0]["request"]["purpose_ref"]).code == 0
    with stranger.agent() as agent:
        for _ in range(3):
            agent.capture()
    ended = stranger.run("replay", "--receipt", _written(desk, "many.jsonl", *documents), "--json")
    assert ended.code == 2
    assert {each["verdict"] for each in ended.json["receipts"]} == {"unverifiable"}


def test_no_file_and_an_empty_directory(kept):
    desk, _ = kept
    (desk.place / "empty").mkdir()
    for path in ("absent.json", "empty"):
        ended = desk.run("replay", "--receipt", str(desk.place / path))
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.count("\n") == 1


def test_a_process_of_its_own_says_the_same(kept):
    desk, documents = kept
    path = _written(desk, "many.jsonl", *documents)
    ended = desk.process("replay", "--receipt", path, "--json")
    assert (ended.code, ended.json["counts"]["derived"]) == (0, 3)

"""The file of the reference memory server: every observation and relation becomes a message, once."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.tools.conversation.exchanging import comparable, exported, imported, imported_graph, silent, written
from tests.tools.conversation.talks import assert_sound, born, speaker
from tests.tools.memory.world import World
from tools.conversation.exchange.import_server_memory import check_server_memory
from tools.conversation.exchange.reading import WrongLine

ENTITY = {
    "type": "entity",
    "name": "김철수",
    "entityType": "Person",
    "observations": ["커피를 좋아함 \u2615", "lives in Seoul"],
}
BARE = {"type": "entity", "name": "Engram", "entityType": "project", "observations": []}
RELATION = {"type": "relation", "from": "김철수", "to": "Engram", "relationType": "works on"}
TEXTS = [
    "김철수 (Person): 커피를 좋아함 \u2615", "김철수 (Person): lives in Seoul", "Engram (project)",
    "김철수 works on Engram",
]  # fmt: skip


@pytest.fixture
def one(world):
    return speaker(world)


def test_what_the_graph_says_is_found(world, one, tmp_path):
    path = written(tmp_path / "memory.jsonl", ENTITY, BARE, RELATION)
    assert imported_graph(one, path).imported == 4
    lines = exported(one, tmp_path / "a.jsonl")[1:]
    assert [line["message"] for line in lines] == TEXTS
    assert [line["tags"] for line in lines] == [
        {"d_tags": ["person", "김철수"]}, {"d_tags": ["person", "김철수"]}, {"d_tags": ["project", "engram"]},
        {"d_tags": ["김철수", "engram"]},
    ]  # fmt: skip
    header, content = born(world, lines[0]["id"])
    part = json.dumps(
        {"entityType": "Person", "name": "김철수", "observation": "커피를 좋아함 \u2615"}, ensure_ascii=False,
        separators=(",", ":"),
    )  # fmt: skip
    assert content == {
        "message": TEXTS[0], "role": "assistant", "agent_platform": "server-memory", "agent_model": "unknown",
        "external_id": "server-memory:" + hashlib.sha256(part.encode()).hexdigest(),
    }  # fmt: skip
    assert header.to_state == 1
    assert one.ids("커피")[0] == lines[0]["id"]
    assert_sound(world, one.engine)


def test_it_is_imported_once_and_what_grew_is_added(one, tmp_path):
    path = written(tmp_path / "memory.jsonl", ENTITY, BARE, RELATION, RELATION)
    assert (imported_graph(one, path).duplicates, imported_graph(one, path).duplicates) == (1, 5)
    grown = {**ENTITY, "observations": [*ENTITY["observations"], "new"]}
    summary = imported_graph(one, written(path, grown, BARE))
    assert (summary.imported, summary.duplicates) == (1, 3)


def test_pinned(one, tmp_path):
    imported_graph(one, written(tmp_path / "memory.jsonl", BARE), pin=True)
    assert [found["is_pinned"] for found in one.look()["results"]] == [True]


def test_every_observation_outlives_an_export_and_an_import(one, directory, tmp_path):
    imported_graph(one, written(tmp_path / "memory.jsonl", ENTITY, BARE, RELATION))
    lines = exported(one, tmp_path / "a.jsonl")
    world = World(directory / "elsewhere", seed=b"another")
    try:
        other = speaker(world)
        assert imported(other, tmp_path / "a.jsonl").imported == 4
        again = exported(other, tmp_path / "b.jsonl")
        assert comparable(again) == comparable(lines)
        assert [line["message"] for line in again[1:]] == TEXTS
        assert imported_graph(other, tmp_path / "memory.jsonl").duplicates == 4
    finally:
        world.close()


def test_names_that_are_no_keywords_are_no_tags(one, tmp_path):
    long = {**BARE, "name": "n" * 51, "entityType": "e\u0007"}
    longer = {**BARE, "name": "a" + " " * 300 + "b", "entityType": " "}
    imported_graph(one, written(tmp_path / "memory.jsonl", long, longer))
    assert ["tags" in line for line in exported(one, tmp_path / "a.jsonl")[1:]] == [False, False]


@pytest.mark.parametrize(
    "line",
    [
        {**ENTITY, "observations": "one"}, {**ENTITY, "observations": [1]}, {"type": "entity"}, {"type": "other"}, {},
        [], 1, b"{", b'{"type":"relation","from":"a","to":"b","to":"c","relationType":"d"}',
        {**BARE, "name": "x" * (256 * 1024)},
    ],
    ids=lambda line: str(line)[:40],
)  # fmt: skip
def test_the_first_wrong_line_is_named_before_anything_is_written(world, one, tmp_path, line):
    with pytest.raises(WrongLine) as refused:
        imported_graph(one, written(tmp_path / "memory.jsonl", BARE, b"", line))
    assert refused.value.number == 3
    assert world.journal.store.head(one.told_in).cursor == 0


def test_fields_of_forks_are_counted(tmp_path):
    path = written(tmp_path / "memory.jsonl", {**BARE, "createdAt": "x"}, RELATION, {**RELATION, "strength": 1})
    assert check_server_memory(path, silent) == 2

"""Embeddings where a person looks: stats, doctor, projections tell how far they are, and how what rests is mended."""

from __future__ import annotations

import pytest

from journal import limits
from projections.vector import standing
from tests.projections.vector.endpoints import DIMENSION, changed, status
from tests.tools.cli.desk import ready
from tests.tools.cli.examined import files

BAD = "xyzzy"
FIGURES = ("embedded", "wanted", "failed")


@pytest.fixture
def desk(tmp_path, capsys, served):
    """A desk whose host names an endpoint on this machine, and three records, one of which it may refuse."""
    desk = ready(tmp_path, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        for text in ("One.", "Two.", f"{BAD}."):
            agent.remember(text)
    naming(desk, served)
    return desk


def naming(desk, served, model="m"):
    text = desk.host_file.read_text(encoding="utf-8")
    named = f'provider = "openai"\nendpoint = "{served.address}"\nmodel = "{model}"\ndimension = {DIMENSION}\n'
    desk.host_file.write_text(text.replace('provider = "none"\n', named), encoding="utf-8")


def refusing(handler, request):
    if any(BAD in text for text in request.body["input"]):
        return status(400)(handler, request)
    return changed(lambda _: None)(handler, request)


def row_of(desk):
    (row,) = [row for row in desk.json("projections", "status") if row["name"] == "vector"]
    return row


def figures(desk):
    (scope,) = desk.json("stats")["scopes"]
    return scope["embeddings"]


def findings(desk):
    checks = desk.run("doctor", "--json").json["checks"]
    return {each["code"]: each for each in checks if each["code"].startswith("EMBEDDINGS")}


def counts(found):
    return tuple(found[name] for name in FIGURES)


def refuse_one(desk, served, monkeypatch):
    """Embed all but one, which rests."""
    monkeypatch.setattr(limits, "VECTOR_RETRY_SECONDS", 0)
    served.replies = [refusing] * 20
    ended = desk.run("projections", "rebuild", "vector", "--json")
    served.replies.clear()
    return ended


def test_without_a_provider_nothing_of_it_appears(open_desk):
    with open_desk.agent() as agent:
        agent.remember("One.")
    assert "vector" not in [row["name"] for row in open_desk.json("projections", "status")]
    assert "vector" not in [row["name"] for row in open_desk.json("projections", "verify")]
    assert "vector" not in [row["name"] for row in open_desk.json("projections", "rebuild", "--all")]
    assert "embeddings" not in open_desk.json("stats")["scopes"][0]
    assert "embeddings" not in open_desk.ok("stats").out
    assert findings(open_desk) == {}
    ended = open_desk.run("projections", "rebuild", "vector")
    assert (ended.code, ended.out) == (2, "")
    assert "no projection vector" in ended.err


def test_looking_asks_nobody_needs_no_key_and_embeds_nothing(desk, served, monkeypatch):
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace("dimension = 4\n", 'dimension = 4\napi_key_env = "NOT_SET"\n'))
    monkeypatch.delenv("NOT_SET", raising=False)
    before = files(desk.place)
    assert counts(figures(desk)) == (0, 3, 0)
    assert files(desk.place) == before
    found = findings(desk)["EMBEDDINGS_WANTED"]
    assert (found["severity"], found["subject"]) == ("note", "default / default")
    assert "openai (m): 0 embedded, 3 wanted, 0 failed" in found["detail"]
    row = row_of(desk)
    assert (row["state"], row["digest"], row["cursor"], counts(row)) == ("absent", None, "0", (0, 3, 0))
    assert not (desk.store / "projections" / "vector").exists()
    assert served.asked == []


def test_rebuild_embeds_what_is_missing_and_every_command_says_so(desk, served):
    before = desk.json("replay")
    (row,) = desk.json("projections", "rebuild", "vector")
    assert (row["name"], row["state"], counts(row)) == ("vector", "complete", (3, 0, 0))
    assert (row["provider"], row["model"], row["tenant_id"]) == ("openai", "m", "default")
    assert desk.json("replay") == before, "nothing is written to the journal"
    asked = len(served.asked)
    row = row_of(desk)
    assert (row["state"], row["version"], row["cursor"]) == ("complete", 1, row["head_cursor"])
    assert row["digest"].startswith("blake3:")
    assert counts(figures(desk)) == (3, 0, 0)
    assert figures(desk)["mend"] is None
    assert "openai (m): 3 embedded, 0 wanted, 0 failed" in desk.ok("stats").out
    assert findings(desk)["EMBEDDINGS"]["severity"] == "ok"
    desk.ok("projections", "rebuild", "--all")
    assert len(served.asked) == asked, "what is embedded stays"
    assert "complete" in desk.ok("projections", "rebuild", "vector").out


def test_more_is_wanted_once_more_is_remembered(desk):
    desk.ok("projections", "rebuild", "vector")
    with desk.agent() as agent:
        agent.remember("Three.")
    assert counts(figures(desk)) == counts(row_of(desk)) == (3, 1, 0)
    assert row_of(desk)["state"] == "embedding 3 of 4"
    assert "engram projections rebuild vector" in figures(desk)["mend"]


def test_what_the_provider_said_is_told(desk, served):
    host_file = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(host_file.replace(f"dimension = {DIMENSION}", "dimension = 64"), encoding="utf-8")
    ended = desk.run("projections", "rebuild", "vector")
    assert ended.code == 1
    said = f"a vector has {DIMENSION} numbers; the dimension is said to be 64"
    assert said in ended.err
    assert said in desk.run("search", "one").err


def test_what_rests_is_told_with_the_mend_which_mends_it(desk, served, monkeypatch):
    ended = refuse_one(desk, served, monkeypatch)
    assert ended.code == 1
    (row,) = ended.json
    assert (row["state"], counts(row)) == ("embedding 2 of 3, 1 failed", (2, 0, 1))
    assert row_of(desk)["state"] == row["state"]
    found = figures(desk)
    assert counts(found) == (2, 0, 1)
    assert found["failed_by_reason"] == {"unavailable": 0, "refused": 1, "lost": 0}
    assert "1 failed (1 refused); run engram projections rebuild vector" in " ".join(desk.ok("stats").out.split())
    told = findings(desk)["EMBEDDINGS_FAILED"]
    assert told["severity"] == "warning"
    assert "engram projections rebuild vector" in told["mend"]
    for out in (desk.ok("stats").out, desk.run("doctor").out, desk.ok("projections", "status").out, ended.err):
        assert BAD not in out
    assert counts(desk.json("projections", "rebuild", "vector")[0]) == (3, 0, 0)
    assert findings(desk)["EMBEDDINGS"]["severity"] == "ok"


def test_an_endpoint_that_is_down_ends_rebuild_and_is_told(desk, served, monkeypatch):
    monkeypatch.setattr(limits, "EMBEDDING_ATTEMPTS", 1)
    served.replies = [status(503)]
    ended = desk.run("projections", "rebuild", "vector", "--json")
    assert (ended.code, counts(ended.json[0])) == (1, (0, 3, 0))
    assert len(served.asked) == 1


def test_verify_finds_an_embedding_of_another_text(desk, monkeypatch):
    with monkeypatch.context() as patched:
        real = standing.record_text
        patched.setattr(standing, "record_text", lambda payload: real(payload).replace("Two", "Twenty"))
        desk.ok("projections", "rebuild", "vector")
    ended = desk.run("projections", "verify", "--json")
    (row,) = [row for row in ended.json if row["name"] == "vector"]
    assert (ended.code, row["ok"], row["rebuilt"]) == (1, False, False)
    assert row["live_digest"] != row["replayed_digest"]
    desk.ok("projections", "invalidate", "vector")
    desk.ok("projections", "rebuild", "vector")
    rows = desk.json("projections", "verify")
    assert rows[-1]["name"] == "vector"
    assert rows[-1]["live_digest"] == rows[-1]["replayed_digest"] == row_of(desk)["digest"]


def test_invalidate_is_an_event_and_all_is_made_anew(desk, served):
    desk.ok("projections", "rebuild", "vector")
    digest, asked = row_of(desk)["digest"], len(served.asked)
    (row,) = desk.json("projections", "invalidate", "vector")
    event = desk.json("replay")[-1]
    assert (event["type"], event["related"], event["cursor"]) == ("projection_invalidated", "vector", row["cursor"])
    assert row_of(desk)["state"] == "absent"
    assert counts(figures(desk)) == (0, 3, 0)
    desk.ok("projections", "rebuild", "vector")
    assert len(served.asked) > asked
    assert row_of(desk)["digest"] == digest, "over cursor, model and text alone"
    names = [row["name"] for row in desk.json("projections", "invalidate", "--all")]
    assert names[-1] == "vector"
    assert row_of(desk)["state"] == "absent"


def test_another_model_is_told_as_one_that_does_not_serve_yet(desk, served):
    desk.ok("projections", "rebuild", "vector")
    assert (figures(desk)["serves"], figures(desk)["other_models"]) == (True, 0)
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace('model = "m"', 'model = "n"'), encoding="utf-8")
    found = figures(desk)
    assert (found["serves"], found["other_models"], found["model"]) == (False, 1, "n")
    assert counts(found) == (0, 3, 0)
    desk.ok("projections", "rebuild", "vector")
    assert (figures(desk)["serves"], figures(desk)["other_models"]) == (True, 0)


def test_messages_count_and_what_ended_does_not(desk):
    with desk.agent() as agent:
        said = agent.value("save_message", {"role": "user", "message": "Hello."})["id"]
        agent.remember("Four.")
    assert counts(figures(desk)) == (0, 5, 0)
    desk.ok("messages", "erase", said, "--yes")
    assert counts(figures(desk)) == counts(row_of(desk)) == (0, 4, 0)


def test_what_is_lost_is_not_wanted_for_ever(desk):
    """A slot that is damaged is no key any more; the embedder leaves it out, and so do the figures."""
    desk.ok("projections", "rebuild", "vector")
    desk.ok("projections", "invalidate", "vector")
    (slots,) = (desk.store / "keys").glob("*.slots")
    content = bytearray(slots.read_bytes())
    content[512 + 20] ^= 1
    slots.write_bytes(content)
    assert counts(figures(desk)) == counts(row_of(desk)) == (0, 2, 0)


def test_a_folder_that_cannot_be_read_is_told(desk):
    desk.ok("projections", "rebuild", "vector")
    (data,) = (desk.store / "projections" / "vector").glob("*/*/data.mdb")
    data.write_bytes(data.read_bytes()[:5_000])
    assert figures(desk)["readable"] is False
    assert findings(desk)["EMBEDDINGS_BROKEN"]["severity"] == "warning"
    assert counts(desk.json("projections", "rebuild", "vector")[0]) == (3, 0, 0)
    assert findings(desk)["EMBEDDINGS"]["severity"] == "ok"


def test_a_provider_that_is_not_installed_is_said_and_stats_goes_on(desk):
    text = desk.host_file.read_text(encoding="utf-8")
    begin, end = text.index('provider = "openai"'), text.index("dimension = 4\n") + len("dimension = 4\n")
    desk.host_file.write_text(f'{text[:begin]}provider = "model2vec"\nfolder = "nowhere"\n{text[end:]}')
    assert "model2vec cannot be had" in figures(desk)["unavailable"]
    assert "model2vec cannot be had" in desk.ok("stats").out
    ended = desk.run("projections", "rebuild", "vector")
    assert (ended.code, ended.out) == (2, "")
    assert "model2vec cannot be had" in ended.err
    assert findings(desk) == {}


def _renamed(desk, named):
    """Return the host file with another provider."""
    text = desk.host_file.read_text(encoding="utf-8")
    start = text.index('provider = "openai"')
    return text[:start] + named + text[text.index("dimension = ", start) :].split("\n", 1)[1]


def test_what_an_earlier_provider_left_can_be_thrown_away(desk, served):
    desk.json("projections", "rebuild", "vector")
    desk.host_file.write_text(_renamed(desk, 'provider = "none"\n'), encoding="utf-8")
    assert [row["name"] for row in desk.json("projections", "invalidate", "vector")] == ["vector"]
    assert not list((desk.store / "projections" / "vector").rglob("data.mdb"))
    ended = desk.run("projections", "invalidate", "vector")
    assert (ended.code, "no projection vector" in ended.err) == (2, True)


def test_a_model_that_cannot_be_had_leaves_the_others_to_look_at(desk, tmp_path):
    named = f'provider = "model2vec"\nfolder = "{tmp_path}"\n'
    desk.host_file.write_text(_renamed(desk, named), encoding="utf-8")
    for command in ("status", "verify"):
        ended = desk.run("projections", command)
        assert (ended.code, "embeddings are left out" in ended.err) == (0, True)
        assert "lexical" in ended.out

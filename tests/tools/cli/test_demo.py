"""engram demo: told from beginning to end, and nothing of it touches what the person has."""

from __future__ import annotations

from tools.cli import main


def test_it_holds_and_explains_itself(desk):
    ended = desk.process("demo", env={"TMPDIR": str(desk.place)})  # desk.process gives --config, which is not used
    assert ended.code == 0, ended
    told = {line.split()[0]: line for line in ended.out.split("\n") if line.strip()}
    assert "copy of the journal with the words planted" in told["scan"]
    assert "2 lawfully erased: the record and the request's arguments, none missing" in told["audit"]
    assert "projection_invalidation: complete" in told["forgotten"] or "still being rebuilt" in told["forgotten"]
    assert "confirm approve confirmation_" in told["forget"]
    assert desk.json("replay") == []
    assert not list(desk.place.glob("engram-demo-*"))


def test_its_help_says_that_it_looks_at_no_other_host_file(capsys):
    assert main.run(["demo", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "--config FILE" in out
    assert "a host file of its own" in out

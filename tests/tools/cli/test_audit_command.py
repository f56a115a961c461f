"""engram audit: the report, its exit codes, beside a live server and on a copy."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import lmdb
import pytest

from replay.audit import Finding
from tests.tools.cli.desk import command_line, environment
from tests.tools.memory.world import forgetting
from tools.cli import audit, terminal
from tools.host.capabilities import FORGET

EVENTS = b"events"


def _change(store, table, change):
    """Let ``change`` work on a table of the closed journal: (transaction, table handle, keys in order)."""
    env = lmdb.open(str(store / "journal"), max_dbs=32, lib_version=0)
    handle = env.open_db(table, create=False)
    with env.begin(write=True) as txn:
        with txn.cursor(handle) as cursor:
            keys = [key for key, _ in cursor]
        change(txn, handle, keys)
    env.close()


@pytest.fixture
def full(open_desk):
    """A desk with records, a pending candidate, a forgotten record and an open confirmation request."""
    with open_desk.agent() as agent:
        agent.remember("One that stays.")
        agent.forget(agent.remember("One that goes."))
        agent.capture("One that waits.")
        assert agent.code(FORGET, forgetting(agent.remember("One more."))) == "gate_failed"
        agent.search("one")
    return open_desk


def test_by_whose_authority_each_event_stands(full):
    report = full.json("audit", "--authority")
    (scope,) = report["authority"]
    assert (scope["tenant_id"], scope["workspace_id"]) == ("default", "default")
    assert [event["cursor"] for event in scope["events"]] == [event["cursor"] for event in full.json("replay")]
    said = {event["type"]: event for event in scope["events"]}
    assert said["tombstone"]["confirmation"]["channel"] == "console"
    assert said["accept"]["policy"]["policy_id"] == "accept-asserted"
    human = full.ok("audit", "--authority").out.splitlines()
    (line,) = [line for line in human if "tombstone by engram_memory_forget" in line]
    for words in ("granted by the host file", "epoch 0", "receipt sha256:", "approved by operator:", "(console)"):
        assert words in line
    assert not any("One that" in line for line in human)
    for event in scope["events"]:
        (line,) = [line for line in human if line.startswith(f"  {event['cursor']}  ")]
        assert terminal.local_time(event["recorded_at"]) in line
        assert (event["record_id"] or event["subject"] or "") in line
    asked = said["confirmation_requested"]
    (line,) = [line for line in human if line.startswith(f"  {asked['cursor']}  ")]
    assert asked["related"].startswith("mem_")
    assert asked["related"] in line, "what is asked for"


@pytest.mark.parametrize("words", [("--headers-only",), ("--store", "elsewhere")])
def test_authority_needs_the_keys(full, words):
    ended = full.run("audit", "--authority", *words)
    assert ended.code == 2
    assert "keys" in ended.err


def test_a_clean_store(full):
    report = full.json("audit")
    assert set(report) == {"ok", "scopes", "projections"}
    assert report["ok"] is True
    (scope,) = report["scopes"]
    assert set(scope) == {
        "tenant_id", "workspace_id", "events", "head_cursor", "head_hash", "root", "bodies", "checkpoints", "findings",
    }  # fmt: skip
    assert scope["events"] == int(scope["head_cursor"]) == len(full.json("replay"))
    assert len(scope["head_hash"]) == len(scope["root"]) == 64
    assert scope["findings"] == []
    assert scope["bodies"]["erased"] == 2  # the forgotten record's, and the decided confirmation request's
    assert scope["bodies"]["missing"] == 0
    assert scope["bodies"]["present"] > 4
    for one in report["projections"]:
        assert {"name", "ok", "live_digest", "replayed_digest"} <= set(one)
        assert one["ok"] is True
        assert one["live_digest"] in (None, one["replayed_digest"])
    names = {one["name"]: one["live_digest"] for one in report["projections"]}
    assert list(names) == ["current", "lexical", "timeline", "messages", "tags", "profile"]
    assert None not in (names["current"], names["lexical"])
    human = full.ok("audit").out
    assert human.rstrip().endswith("clean")
    assert scope["root"] in human


def test_the_root_is_the_tree_over_the_events(full):
    from hashlib import sha256

    report = full.json("audit")
    leaves = [bytes.fromhex(event["event_digest"].removeprefix("sha256:")) for event in full.json("replay")]

    def root(hashes):
        if len(hashes) == 1:
            return hashes[0]
        split = 1 << (len(hashes) - 1).bit_length() - 1
        return sha256(b"\x01" + root(hashes[:split]) + root(hashes[split:])).digest()

    assert report["scopes"][0]["root"] == root(leaves).hex()


def test_it_writes_nothing(full):
    def files():
        return {
            path.relative_to(full.store): path.read_bytes()
            for path in sorted(full.store.rglob("*"))
            if path.is_file() and path.name != "lock.mdb"
        }

    before = files()
    full.ok("audit")
    assert files() == before


def test_it_does_not_bring_projections_to_the_head(full):
    before = full.json("audit")["projections"]
    with full.agent() as agent:
        agent.capture("Behind the projections.")
    data = {path: path.stat().st_mtime_ns for path in (full.store / "projections").rglob("data.mdb")}
    report = full.json("audit")
    assert report["ok"]
    assert report["projections"] != before
    assert {path: path.stat().st_mtime_ns for path in data} == data


def test_without_projections(full):
    shutil.rmtree(full.store / "projections")
    report = full.json("audit")
    assert report["ok"]
    assert [one["live_digest"] for one in report["projections"]] == [None] * 6
    assert not (full.store / "projections").exists()


def test_findings_are_exit_code_1_with_the_whole_report(full):
    _change(full.store, b"content", lambda txn, table, keys: txn.delete(keys[0], db=table))
    ended = full.run("audit", "--json")
    assert ended.code == 1
    report = ended.json
    assert report["ok"] is False
    (finding,) = report["scopes"][0]["findings"]
    assert set(finding) == {"code", "cursor", "detail"}
    assert (finding["code"], finding["cursor"]) == ("BLOB_MISSING", "1")
    assert report["scopes"][0]["bodies"]["missing"] == 1
    human = full.run("audit")
    assert human.code == 1
    assert "BLOB_MISSING at cursor 1" in human.out


@pytest.mark.parametrize("words", [["surplus"], ["--nonsense"], ["--workspace", "x"]], ids=str)
def test_wrong_use(full, words):
    ended = full.run("audit", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


def test_one_loss_in_many_places_is_told_once(full):
    for path in (full.store / "keys").iterdir():
        path.unlink()
    ended = full.run("audit", "--json")
    (scope,) = ended.json["scopes"]
    placed = [finding for finding in scope["findings"] if finding["cursor"] is not None]
    assert len(placed) > 5
    human = full.run("audit").out
    told = [line for line in human.split("\n") if "keyring file is missing" in line]
    assert f"{len(scope['findings'])} findings" in human
    runs: list[list[int]] = []  # of cursors that follow on each other
    for cursor in (int(finding["cursor"]) for finding in placed):
        if runs and cursor - runs[-1][-1] <= 1:
            runs[-1].append(cursor)
        else:
            runs.append([cursor])
    expected = [
        f" at cursor {run[0]} to {run[-1]} ({len(run)} findings): " if len(run) > 1 else f" at cursor {run[0]}: "
        for run in runs
    ]
    assert len(told) == len(runs) + len(scope["findings"]) - len(placed)
    for place in expected:
        assert sum(place in line for line in told) == 1


def test_what_says_something_else_is_told_by_itself():
    made = [("A", 1, "x"), ("A", 2, "x"), ("A", 2, "x"), ("A", 4, "x"), ("A", 5, "y"), ("B", 6, "y"), ("B", None, "y")]
    findings = [Finding(*each) for each in made]
    assert [len(run) for run in audit._runs(findings)] == [3, 1, 1, 1, 1]
    assert [audit._place(run) for run in audit._runs(findings)] == [
        " at cursor 1 to 2 (3 findings)", " at cursor 4", " at cursor 5", " at cursor 6", "",
    ]  # fmt: skip


def test_beside_a_process_that_writes(full):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "import itertools\n"
        "from tests.tools.memory import world\n"
        "world._numbers = itertools.count(1_000_000)\n"  # idempotency keys of its own
        "from tests.tools.memory.world import Caller\n"
        "from tools.host.binding import bind\n"
        "from tools.host.file import load_host_file\n"
        "from tools.memory.engine import Engine\n"
        "host_file = load_host_file(Path(sys.argv[1]))\n"
        "agent = Caller(Engine.open(host_file, bind(host_file)))\n"
        "print('ready', flush=True)\n"
        "for number in range(2000):\n"
        "    agent.remember(f'Number {number} of a busy day.')\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(full.host_file)], stdout=subprocess.PIPE, env=environment()
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        counts: list[int] = []
        ends_at = time.monotonic() + 60
        while len(counts) < 3 or (counts[0] == counts[-1] and time.monotonic() < ends_at):
            report = full.json("audit")
            assert report["ok"], report
            counts.append(report["scopes"][0]["events"])
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]  # it did run beside a writer
    finally:
        writer.kill()
        writer.communicate()


def test_on_a_copy(full, tmp_path):
    copied = tmp_path / "copy"
    shutil.copytree(full.store, copied)
    text = full.host_file.read_text(encoding="utf-8").replace(str(full.store), str(copied))
    other = tmp_path / "other.toml"
    other.write_text(text, encoding="utf-8")
    done = subprocess.run(
        command_line("audit", "--json", "--config", str(other)), capture_output=True, text=True, env=environment(),
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    original = full.json("audit")
    import json

    assert json.loads(done.stdout)["scopes"] == original["scopes"]


def test_no_bar_where_nobody_watches(full):
    assert full.ok("audit").err == ""

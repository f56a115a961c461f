"""engram init: whole, or nothing; and nothing is overwritten."""

from __future__ import annotations

import base64
import getpass
import os
import resource
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from journal.errors import StoreUnavailable
from journal.log import Journal
from tests.tools.cli.desk import environment
from tools.cli import init
from tools.host.capabilities import ALL_TOOLS, SEARCH
from tools.host.exceptions import HostFileError
from tools.host.file import load_host_file


def _everything(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


def test_it_makes_store_key_and_host_file(bare_desk):
    facts = bare_desk.init("--json").json
    host_file = load_host_file(bare_desk.host_file)
    assert host_file.store_path == bare_desk.store
    assert facts["store"] == str(bare_desk.store)
    assert facts["config"] == str(bare_desk.host_file)
    assert facts["root_key"] == str(bare_desk.root_key)
    assert facts["enabled"] is True
    assert set(facts["granted"]) == set(ALL_TOOLS) == host_file.granted
    assert host_file.host.enabled
    assert host_file.host.tenant_enabled
    assert host_file.host.principal == getpass.getuser()
    assert host_file.policy == "adjudicate"
    assert [purpose.ref for purpose in host_file.purposes] == ["purpose:memory"]
    assert len(base64.b64decode(bare_desk.root_key.read_bytes())) == 32


def test_nothing_is_open_to_others(bare_desk):
    bare_desk.init()
    assert stat.S_IMODE(bare_desk.root_key.stat().st_mode) == 0o600
    assert stat.S_IMODE(bare_desk.host_file.stat().st_mode) == 0o600
    for path in (bare_desk.store, *bare_desk.store.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_the_key_is_beside_the_host_file_and_not_in_the_store(bare_desk):
    bare_desk.init()
    key = bare_desk.root_key.read_bytes().strip()
    assert bare_desk.root_key.parent == bare_desk.host_file.parent
    assert not bare_desk.root_key.is_relative_to(bare_desk.store)
    assert all(key not in path.read_bytes() for path in bare_desk.store.rglob("*") if path.is_file())


def test_it_says_what_it_did_and_what_comes_next(bare_desk):
    out = bare_desk.init().out
    assert "host and tenant have opted in" in out
    assert "all tools of both facilities are granted" in out
    for client in ("claude-code", "codex", "gemini"):
        assert f"engram connect {client} --config {bare_desk.host_file}" in out


def test_its_sentences_fit_a_narrow_terminal_and_its_commands_stay_whole(bare_desk, monkeypatch):
    monkeypatch.setattr("tools.cli.terminal._columns", lambda: 80)
    lines = bare_desk.init().out.split("\n")
    keep = next(at for at, line in enumerate(lines) if line.startswith("Whoever holds"))
    assert max(map(len, lines[keep : keep + 3])) <= 80
    assert any(line.endswith(f"engram connect codex --config {bare_desk.host_file}") for line in lines)


def test_a_second_host_file_on_a_store_is_said_to_be_a_copy(bare_desk):
    bare_desk.init()
    second = bare_desk.bare("init", "--store", str(bare_desk.store), "--config", str(bare_desk.place / "two.toml"))
    assert (second.code, second.out) == (1, "")
    assert "copy the first one and change its principal" in second.err
    other = bare_desk.place / "other"
    other.mkdir()
    (other / "x").touch()
    assert "copy" not in bare_desk.bare("init", "--store", str(other), "--config", "two.toml").err


def test_every_option_reaches_the_host_file(bare_desk):
    ended = bare_desk.init(
        "--tenant", "회사", "--workspace", '작업 "하나"', "--principal", "김 서준", "--purpose", "purpose:a",
        "--purpose", "purpose:b", "--purpose", "purpose:a", "--grant", SEARCH, "--policy", "accept-asserted",
    )  # fmt: skip
    assert ended.code == 0, ended
    host_file = load_host_file(bare_desk.host_file)
    assert (host_file.host.tenant, host_file.host.workspace) == ("회사", '작업 "하나"')
    assert host_file.host.principal == "김 서준"
    assert [purpose.ref for purpose in host_file.purposes] == ["purpose:a", "purpose:b"]
    assert host_file.granted == {SEARCH}
    assert host_file.host.enabled
    assert host_file.policy == "accept-asserted"
    assert SEARCH in ended.out
    assert "all tools" not in ended.out


def test_paths_in_the_host_file_are_absolute(bare_desk, monkeypatch):
    monkeypatch.chdir(bare_desk.place)
    assert bare_desk.bare("init", "--store", "here/store", "--config", "there/../there/engram.toml").code == 0
    document = tomllib.loads((bare_desk.place / "there" / "engram.toml").read_text(encoding="utf-8"))
    assert document["store"]["path"] == str(bare_desk.place / "here" / "store")
    assert document["keys"]["root"]["file"] == str(bare_desk.place / "there" / "engram.key")


def test_an_empty_folder_will_do(bare_desk):
    bare_desk.store.mkdir(mode=0o755)
    assert bare_desk.init().code == 0
    assert stat.S_IMODE(bare_desk.store.stat().st_mode) == 0o700
    assert bare_desk.json("audit")["ok"]


def test_the_environment_and_the_users_folders_are_the_defaults(bare_desk, monkeypatch):
    named = bare_desk.place / "named.toml"
    monkeypatch.setenv("ENGRAM_CONFIG", str(named))
    monkeypatch.setenv("XDG_DATA_HOME", str(bare_desk.place / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(bare_desk.place / "config"))
    assert bare_desk.bare("init").code == 0
    assert load_host_file(named).store_path == bare_desk.place / "data" / "engram" / "store"
    monkeypatch.delenv("ENGRAM_CONFIG")
    ended = bare_desk.bare("init", "--store", str(bare_desk.place / "second"))
    assert ended.code == 0, ended
    assert load_host_file().store_path == bare_desk.place / "second"
    assert "--config" not in ended.out  # the place that is looked at anyway need not be named


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["host_file", "root_key"])
def test_an_existing_file_is_not_overwritten(bare_desk, what):
    path = getattr(bare_desk, what)
    path.write_text("mine", encoding="utf-8")
    before = _everything(bare_desk.place)
    ended = bare_desk.init()
    assert (ended.code, ended.out) == (1, "")
    assert "nothing is overwritten" in ended.err
    assert path.read_text(encoding="utf-8") == "mine"
    assert _everything(bare_desk.place) == before


def test_a_link_that_leads_nowhere_is_not_followed(bare_desk):
    bare_desk.host_file.symlink_to(bare_desk.place / "elsewhere")
    assert bare_desk.init().code == 1
    assert not (bare_desk.place / "elsewhere").exists()


@pytest.mark.parametrize("kind", ["full", "file"])
def test_a_store_that_is_something_else_is_refused(bare_desk, kind):
    if kind == "full":
        bare_desk.store.mkdir()
        (bare_desk.store / "mine").write_text("mine", encoding="utf-8")
    else:
        bare_desk.store.write_text("mine", encoding="utf-8")
    before = _everything(bare_desk.place)
    assert bare_desk.init().code == 1
    assert _everything(bare_desk.place) == before


def test_twice_is_refused_and_the_first_stays_whole(bare_desk):
    bare_desk.init()
    before = {path: path.read_bytes() for path in bare_desk.place.rglob("*") if path.is_file()}
    ended = bare_desk.init()
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "memory is set up here already" in ended.err
    assert f"connect claude-code --config {bare_desk.host_file}" in ended.err
    other = bare_desk.bare("init", "--store", str(bare_desk.store), "--config", str(bare_desk.place / "other.toml"))
    assert other.code == 1
    assert {path: path.read_bytes() for path in bare_desk.place.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "words",
    [
        ["--tenant", ""],
        ["--tenant", "x" * 513],
        ["--workspace", "e\u0301"],
        ["--principal", ""],
        ["--principal", "가" * 171],
        ["--purpose", ""],
        ["--purpose", "x" * 513],
        ["--purpose", "e\u0301"],
        ["--grant", "engram_memory_everything"],
        ["--policy", "anything"],
        ["--nonsense"],
        ["surplus"],
        ["--tenant"],
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_wrong_use_makes_nothing(bare_desk, words):
    ended = bare_desk.init(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("engram: ")
    assert ended.err.count("\n") == 1
    assert _everything(bare_desk.place) == []


def test_a_name_that_is_no_text_is_refused(bare_desk):
    for option in ("--tenant", "--principal", "--purpose"):
        ended = bare_desk.init(option, os.fsdecode(b"\xff\xfe"))
        assert ended.code == 2
        assert option in ended.err
    assert _everything(bare_desk.place) == []


def test_a_host_file_in_the_store_is_refused(bare_desk):
    ended = bare_desk.bare("init", "--store", str(bare_desk.store), "--config", str(bare_desk.store / "engram.toml"))
    assert ended.code == 2
    (bare_desk.place / "link").symlink_to(bare_desk.place)
    ended = bare_desk.bare(
        "init", "--store", str(bare_desk.store), "--config", str(bare_desk.place / "link" / "store" / "engram.toml")
    )
    assert ended.code == 2
    assert _everything(bare_desk.place) == ["link"]


def test_again_where_the_store_is_gone_says_how_to_have_one(bare_desk):
    bare_desk.init()
    shutil.rmtree(bare_desk.store)
    before = _everything(bare_desk.place)
    for ended in (bare_desk.init(), bare_desk.run("audit"), bare_desk.run("confirm", "approve", "x")):
        assert ended.code in (1, 2)
        assert ended.err.count("\n") == 1
        assert "restore the store from a backup (docs/backup.md), or choose a new --store and --config" in ended.err
        assert " init" not in ended.err
    assert _everything(bare_desk.place) == before
    assert " init`" in bare_desk.bare("audit", "--config", str(bare_desk.place / "missing.toml")).err


# --- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("layout.create", OSError(28, "No space left on device")),
        ("create_root_key_file", OSError(28, "No space left on device")),
        ("render_host_file", OSError(28, "No space left on device")),
        ("_try_out", StoreUnavailable("the store lies on nfs")),
        ("_try_out", KeyboardInterrupt()),
        ("os.link", OSError(1, "Operation not permitted")),
        ("os.link", FileExistsError(17, "File exists")),
    ],
    ids=str,
)
@pytest.mark.parametrize("standing", [False, True])
def test_a_failure_at_any_step_leaves_nothing(bare_desk, monkeypatch, where, error, standing):
    def fail(*_args, **_named):
        raise error

    if standing:
        bare_desk.store.mkdir()
    *owner, name = where.split(".")
    monkeypatch.setattr(getattr(init, owner[0]) if owner else init, name, fail)
    ended = bare_desk.init()
    assert ended.code in (1, 2, 130)
    assert ended.out == ""
    assert _everything(bare_desk.place) == (["store"] if standing else [])


def test_a_full_disk_leaves_nothing(bare_desk):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    script = (
        "import signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from tools.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [
            sys.executable, "-c",
            script,
            "init", "--store", str(bare_desk.store), "--config", str(bare_desk.host_file),
        ],
        capture_output=True, text=True, check=False, env=environment(), preexec_fn=small_files,
    )  # fmt: skip
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert _everything(bare_desk.place) == []


@pytest.mark.parametrize("option", ["--store", "--config"])
@pytest.mark.parametrize("parent", ["file", "/proc/missing", "x" * 300])
def test_a_folder_that_cannot_be_made(bare_desk, option, parent):
    (bare_desk.place / "file").write_text("", encoding="utf-8")
    path = bare_desk.place / parent / "sub" / "engram.toml"
    places = {"--store": bare_desk.store, "--config": bare_desk.host_file, option: path}
    ended = bare_desk.bare("init", *(str(word) for pair in places.items() for word in pair))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert f"{path} cannot be made (" in ended.err
    assert f"choose another place with {option}" in ended.err
    assert _everything(bare_desk.place) == ["file"]


@pytest.mark.parametrize(
    ("where", "option"),
    [("os.mkdir", "--"), ("create_root_key_file", "--config"), ("os.link", "--config")],
)
def test_what_the_system_refuses_is_told_by_its_own_name(bare_desk, monkeypatch, where, option):
    def fail(path, *_args, **_named):
        raise PermissionError(13, "Permission denied", str(path))

    *owner, name = where.split(".")
    monkeypatch.setattr(getattr(init, owner[0]) if owner else init, name, fail)
    ended = bare_desk.init()
    assert ended.code == 2
    assert "cannot be made (Permission denied): choose another place with " + option in ended.err
    assert "/." not in ended.err  # no draft's name
    assert _everything(bare_desk.place) == []


def test_a_host_file_that_does_not_hold_is_not_told_by_its_drafts_name(bare_desk, monkeypatch):
    def refuse(path):
        raise HostFileError(path, "", "can be written by others", "chmod it")

    monkeypatch.setattr(init, "load_host_file", refuse)
    ended = bare_desk.init()
    assert ended.code == 2
    assert f"engram: {bare_desk.host_file}: can be written by others" in ended.err


def test_two_at_once_make_one(bare_desk):
    words = [sys.executable, "-m", "tools.cli.main", "init", "--store", str(bare_desk.store)]
    running = [
        subprocess.Popen(
            [*words, "--config", str(bare_desk.place / f"{number}.toml")], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=environment(),
        )
        for number in range(4)
    ]  # fmt: skip
    errors = [process.communicate()[1] for process in running]
    codes = [process.returncode for process in running]
    assert sorted(codes) == [0, 1, 1, 1], errors
    winner = bare_desk.place / f"{codes.index(0)}.toml"
    host_file = load_host_file(winner)
    Journal.open(host_file.store_path, base64.b64decode(winner.with_suffix(".key").read_bytes())).close()
    assert sorted(path.name for path in bare_desk.place.iterdir()) == [
        f"{codes.index(0)}.key", f"{codes.index(0)}.toml", "store",
    ]  # fmt: skip

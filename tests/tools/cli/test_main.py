"""The command line as a whole: help, versions, exit codes, and how every command ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tomllib
from importlib import metadata

import click
import pytest
from click.testing import CliRunner

from journal.errors import CODES
from tests.tools.cli.desk import ROOT, command_line, environment
from tools.cli import commands, failures, main
from tools.cli.lazy import LazyGroup
from tools.host.exceptions import UntrustedContext

COMMANDS = [
    "init", "connect", "skill", "cite", "serve", "demo", "confirm", "candidates", "records", "keys", "replay", "audit",
    "checkpoint", "prove", "projections", "stats", "doctor", "backup", "restore", "export", "import", "brief",
    "timeline", "search", "messages", "tags", "profile",
]  # fmt: skip
GROUPS = {
    "confirm": ["approve", "deny", "list"],
    "candidates": ["accept", "list", "note", "reject", "show"],
    "records": [
        "copy", "dispute", "expire", "history", "list", "mark-non-current", "proposals", "resolve", "revoked", "rewind",
        "show", "supersede", "trust-invalidate",
    ],
    "messages": ["archive", "erase", "pin", "restore", "show", "unpin"],
    "tags": ["add", "alias", "list", "set"],
    "profile": ["history", "revert", "set", "show"],
    "keys": ["backup", "list", "recipient", "rotate"],
    "projections": ["invalidate", "rebuild", "status", "verify"],
}  # fmt: skip
LEAVES = [
    *([name] for name in ("init", "replay", "audit", "checkpoint", "stats", "doctor", "backup", "restore", "export")),
    *([name] for name in ("import", "brief", "timeline", "search")),
    *([group, name] for group, names in GROUPS.items() for name in names),
]


# --- help and version -------------------------------------------------------------------------------


def test_help_lists_every_command():
    out = CliRunner().invoke(main.root, ["--help"]).output
    assert set(commands.COMMANDS) >= set(COMMANDS)
    for name, (_, summary) in commands.COMMANDS.items():
        assert name in out
        assert summary.split()[0] in out


@pytest.mark.parametrize("group", GROUPS)
def test_groups_have_the_commands_of_the_design(group):
    command = main.root.get_command(click.Context(main.root), group)
    assert isinstance(command, click.Group)
    assert sorted(command.commands) == GROUPS[group]


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_help_config_and_json(words, capsys):
    assert main.run([*words, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--config FILE" in out
    assert "--json" in out


@pytest.mark.parametrize("words", [["--version"], ["--version", "audit"]], ids=str)
def test_version(words, capsys):
    assert main.run(words) == 0
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert capsys.readouterr().out in (f"engram {declared}\n", "engram unknown (not installed)\n")


def test_version_where_it_is_not_installed(capsys, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("engram ")


def test_without_words_it_tells_how_it_is_used(capsys):
    assert main.run([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: engram")


# --- imports ----------------------------------------------------------------------------------------


def _imported(*words: str) -> set[str]:
    script = (
        "import sys\nfrom tools.cli.main import run\n"
        "try:\n    run(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, env=environment(), check=True
    )
    return set(done.stderr.split())


def test_help_imports_no_command():
    seen = _imported("--help")
    assert not {name for name in seen if name.startswith(("journal", "projections", "replay", "tools.host", "numpy"))}
    assert not {"structlog", "lmdb", "msgspec", "cryptography", "mcp", "faiss"} & seen


def test_serve_imports_no_other_command_and_no_store():
    seen = _imported("serve", "--help")
    assert {name for name in seen if name.startswith("tools.cli.")} == {
        "tools.cli.main", "tools.cli.commands", "tools.cli.interrupts", "tools.cli.lazy", "tools.cli.options",
        "tools.cli.serve",
    }  # fmt: skip
    assert not {"numpy", "faiss", "detect_secrets", "lmdb", "structlog"} & seen


@pytest.mark.parametrize("group", ["candidates", "records", "confirm"])
def test_looking_needs_no_ranking(desk, group):
    seen = _imported(group, "list", "--config", str(desk.host_file))
    assert not {"numpy", "faiss", "mcp", "detect_secrets", "Stemmer"} & seen


# --- wrong use --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["audti"], "did you mean audit?"),
        (["zzz"], "no such command: zzz"),
        (["connect", "claude"], "there is no client claude; did you mean claude-code?"),
        (["connect", "emacs"], "there is no client emacs; there are claude-code, codex, gemini"),
        (["init", "--grant", "memory_serch"], "there is no tool memory_serch; did you mean"),
        (["init", "--grant", "engram_memory_serch"], "did you mean engram_memory_search?"),
        (["init", "--grant", "zzz"], "there is no tool zzz; there are engram_memory_search, "),
        (["init", "--policy", "acept-asserted"], "did you mean accept-asserted?"),
        (["candidates", "lst"], "No such command"),
        (["--nonsense"], "--nonsense"),
        (["audit", "--config"], "--config"),
        (["candidates", "show"], "ID"),
        (["candidates", "show", "a", "b"], "unexpected"),
        (["keys", "rotate", "--erse"], "--erse"),
        (["records", "superseed", "a", "--by", "b"], "No such command"),
        (["audit\x1b[31m"], "<U+001B>"),
    ],
)
def test_wrong_use_is_one_line_on_stderr(words, hint, capsys):
    assert main.run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("engram: ")
    assert err.count("\n") == 1
    assert hint in err


def _text_parameters(group, *words):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _text_parameters(command, *words, name)
        for parameter in command.params:
            if isinstance(parameter.type, click.types.StringParamType):
                yield [*words, name], parameter


def test_bytes_that_are_no_text_are_refused_by_every_command():
    odd, seen = os.fsdecode(b"ab\xff"), set()
    for words, parameter in _text_parameters(main.root):
        with pytest.raises(click.BadParameter, match="not UTF-8"):
            parameter.type.convert(odd, parameter, None)
        seen.add((*words, parameter.name))
    assert {("confirm", "approve", "confirmation_id"), ("search", "query"), ("grants", "add", "principal")} <= seen


@pytest.mark.parametrize(
    "words",
    [
        ["confirm", "approve"], ["confirm", "deny"], ["candidates", "accept"], ["records", "show"],
        ["messages", "show"], ["tenants", "disable"], ["search"], ["confirm", "list", "--workspace"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_stray_byte_is_told_in_plain_words(desk, words):
    ended = desk.run(*words, os.fsdecode(b"confirmation_\xff"))
    assert (ended.code, ended.out) == (2, "")
    assert "its bytes are not UTF-8" in ended.err
    assert ended.err.count("\n") == 1


def test_config_may_stand_at_the_group_too(desk):
    assert desk.bare("candidates", "--config", str(desk.host_file), "list", "--json").json == []
    assert desk.bare("candidates", "--config", str(desk.host_file), "--json", "list").json == []
    assert desk.bare("--config", str(desk.host_file), "candidates", "list", "--json").json == []
    assert desk.bare("--json", "candidates", "list", "--config", str(desk.host_file)).json == []
    assert desk.bare("--json", "audit", "--config", str(desk.host_file)).json["ok"] is True


def test_one_run_leaves_nothing_to_the_next(desk):
    desk.ok("candidates", "list", "--json")
    assert "No candidate" in desk.ok("candidates", "list").out
    assert desk.bare("candidates", "list").code == 2  # no host file is remembered


# --- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", CODES.values(), ids=lambda error: error.code)
def test_every_code_ends_as_one_line(error):
    code, line = failures.line_of(error("some detail\x1b"))
    assert code in (1, 2)
    assert line == f"engram: some detail<U+001B> [{error.code}]"
    assert failures.line_of(error())[1] == f"engram: {error.message()} [{error.code}]"


@pytest.mark.parametrize(
    ("name", "code"),
    [("NOT_FOUND", 1), ("ALREADY_TERMINAL", 1), ("gate_failed", 1), ("STORE_UNAVAILABLE", 2), ("JOURNAL_CORRUPT", 2)],
)
def test_a_no_is_1_and_what_keeps_it_from_answering_is_2(name, code):
    assert failures.line_of(CODES[name]())[0] == code


def test_a_purpose_that_is_not_bound_is_a_no():
    assert failures.line_of(UntrustedContext())[0] == 1


def test_a_fault_of_ours_tells_its_kind_and_place_and_not_its_words():
    with pytest.raises(ValueError, match="base 10") as caught:
        int("secret words")
    code, line = failures.line_of(caught.value)
    assert code == 2
    assert "ValueError" in line
    assert "test_main.py" in line
    assert "secret" not in line


def test_a_fault_in_a_command_is_no_stack_trace(desk, monkeypatch):
    from tools.cli import subjects

    def fault(*_):
        raise RuntimeError("words of a candidate")

    monkeypatch.setattr(subjects, "pending", fault)
    ended = desk.run("candidates", "list")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "words of a candidate" not in ended.err
    assert "RuntimeError" in ended.err


def test_a_module_without_a_command_is_a_fault():
    group = LazyGroup(table={"x": ("json", "no command")})
    with pytest.raises(AttributeError):
        group.get_command(click.Context(group), "x")
    group = LazyGroup(table={"x": ("tests.tools.cli.not_a_command", "no command")})
    with pytest.raises(TypeError, match="no command"):
        group.get_command(click.Context(group), "x")


def test_control_c_is_quiet(desk, monkeypatch):
    from tools.cli import subjects

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(subjects, "pending", interrupted)
    ended = desk.run("candidates", "list")
    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_control_c_of_a_real_process_is_quiet(desk):
    desk.captured("One.")
    stuck = (
        "import sys, time\nimport replay.audit as audited\n"
        "def hang(*_):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "audited._open_bodies = hang\n"
        "from tools.cli.main import run\nsys.exit(run(sys.argv[1:]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", stuck, "audit", "--config", str(desk.host_file)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


@pytest.mark.parametrize(
    "words", [["replay"], ["replay", "--json"], ["candidates", "list", "--json"], ["--help"], ["audit"]], ids=" ".join
)
def test_a_reader_who_leaves_is_no_error(desk, words):
    desk.captured("One.", "Two.")
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        command_line(*words, *([] if words == ["--help"] else ["--config", str(desk.host_file)])),
        stdout=writing, stderr=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        os.close(writing)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_a_terminal_without_letters_beyond_ascii_stops_nothing(desk):
    (candidate,) = desk.captured("야간 빌드")
    for words in (["candidates", "show", candidate], ["candidates", "show", candidate, "--json"]):
        ended = desk.process(*words, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "POSIX"})
        assert ended.code == 0
        assert "\\uc57c" in ended.out or "야간 빌드" in ended.out


def test_a_bar_is_drawn_on_a_terminal_and_not_in_the_data(open_desk):
    with open_desk.agent() as agent:
        agent.capture("One.")
    outer, inner = pty.openpty()
    try:
        process = subprocess.Popen(
            command_line("audit", "--json", "--config", str(open_desk.host_file)),
            stdout=subprocess.PIPE, stderr=inner, env={**environment(), "TERM": "xterm"},
        )  # fmt: skip
        out, _ = process.communicate(timeout=60)
        os.close(inner)
        drawn = os.read(outer, 65_536).decode()
    finally:
        os.close(outer)
    assert process.returncode == 0
    assert out.startswith(b"{")
    assert b"\x1b" not in out
    assert "audit" in drawn

"""What a person is told to type does start this program, wherever it is installed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.cli.desk import environment
from tools.cli import invocation


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """This program's script in a folder with a space in its name, and nothing of that name on $PATH."""
    script = tmp_path / "a place" / "engram"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tools.cli.main "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return script


def test_a_script_that_path_does_not_lead_to_is_named_whole_and_quoted(installed):
    assert shlex.split(invocation.word()) == [str(installed)]
    assert invocation.program() == (str(installed),)


@pytest.mark.parametrize("how", ["folder", "link"])
def test_a_script_that_path_leads_to_is_named_shortly(installed, tmp_path, monkeypatch, how):
    if how == "folder":
        monkeypatch.setenv("PATH", str(installed.parent))
    else:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "engram").symlink_to(installed)
    assert invocation.word() == "engram"
    assert invocation.program() == (str(installed),)  # a client's $PATH may be another


def test_another_program_of_that_name_is_not_meant(installed, tmp_path):
    other = tmp_path / "bin" / "engram"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n", encoding="utf-8")
    other.chmod(0o755)
    assert shlex.split(invocation.word()) == [str(installed)]


def test_without_a_script_it_is_python_and_the_module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["main.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert shlex.split(invocation.word()) == [str(tmp_path / "python"), "-m", "tools.cli.main"]


def test_a_script_called_by_a_relative_path_is_named_by_its_absolute_one(installed, monkeypatch):
    monkeypatch.chdir(installed.parent)
    monkeypatch.setattr(sys, "argv", ["./engram"])
    assert shlex.split(invocation.word()) == [str(installed)]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("run `engram init`, or", "run `W init`, or"),
        ("engram connect codex; engram cite FILE", "W connect codex; W cite FILE"),
        ("engram: no", "engram: no"),
        ("a fault in engram itself", "a fault in engram itself"),
        ("/srv/engram init", "/srv/engram init"),
        ("my-engram init", "my-engram init"),
        ("engram initials", "engram initials"),
    ],
)
def test_only_commands_are_rewritten(monkeypatch, text, typed):
    monkeypatch.setattr(invocation, "word", lambda: "W")
    assert invocation.typed(text) == typed


def test_what_init_and_a_mend_say_can_be_typed(bare_desk, installed):
    mend = bare_desk.run("audit").err
    assert f"{invocation.word()} init" in mend
    out = bare_desk.init().out
    lines = [line.strip() for line in out.split("\n") if line.startswith("  ")]
    assert len([line for line in lines if " connect " in line]) == 3
    for line in lines:
        if " connect " in line or " list" in line:
            done = subprocess.run(
                ["/bin/sh", "-c", line], capture_output=True, text=True, check=False,
                env={**environment(), "PATH": os.defpath},
            )  # fmt: skip
            assert done.returncode == 0, (line, done)

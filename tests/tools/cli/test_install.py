"""make install, over a stand-in for Python: what it says, and when."""

from __future__ import annotations

import shutil
import subprocess

from tests.tools.cli.desk import ROOT


def test_it_says_how_long_it_is_silent_before_it_is(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "venv", tmp_path / ".ci" / "venv")
    for name in ("requirements.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\n[ "$2" != pip ] || echo pip >&2\n', encoding="utf-8")
    python.chmod(0o755)
    said = subprocess.run([tmp_path / ".ci" / "venv", "run"], capture_output=True, text=True, check=True).stderr
    lines = said.split("\n")
    assert "about a minute" in lines[lines.index("pip") - 1]
    again = subprocess.run([tmp_path / ".ci" / "venv", "run"], capture_output=True, text=True, check=True)
    assert again.stderr == ""  # nothing is to be done, and nothing is said of it

"""What an extra brings is installed by the interpreter that runs, and by the name that the distribution has."""

from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path

from journal.extras import DISTRIBUTION, install_extra, pip_install

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_running_interpreter_installs():
    words = shlex.split(install_extra("otel"))
    assert words == [sys.executable, "-m", "pip", "install", "engram-journal[otel]"]
    assert PROJECT["name"] == DISTRIBUTION
    assert "otel" in PROJECT["optional-dependencies"]


def test_a_path_with_a_blank_is_one_word(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python")
    assert shlex.split(pip_install("lmdb>=1,<2"))[0] == "/opt/my python/bin/python"
    monkeypatch.setattr(sys, "executable", "")
    assert shlex.split(pip_install("lmdb"))[:2] == ["python3", "-m"]

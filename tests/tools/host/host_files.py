"""Host files for tests: what ``engram init`` writes, with a few words changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal.scope import Scope
from tools.host.file import HostFile, load_host_file
from tools.host.template import render_host_file

WORKSPACES = ("[[purposes]]", '[[workspaces]]\nname = "side"\n[[workspaces]]\nname = "옆"\n\n[[purposes]]')


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "engram.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def template(folder: Path, **changes: Any) -> str:
    arguments: dict[str, Any] = {
        "store": folder / "store",
        "root_key_file": folder / "root.key",
        "scope": Scope.of("tenant", "work"),
        "principal": "somebody",
        "purposes": ["purpose:work", "purpose:사례"],
    }
    return render_host_file(**{**arguments, **changes})


def loaded(folder: Path, *changes: tuple[str, str], mode: int = 0o600) -> HostFile:
    text = template(folder)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return load_host_file(written(folder, text, mode))

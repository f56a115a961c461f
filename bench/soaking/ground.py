"""The store of a soak: two workspaces, a host file for each, and every command a process of its own."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from pathlib import Path

from tests.rigs.place import ROOT, Place

WORKSPACES = ("default", "side")


class Ground(Place):
    """A store, seen from the workspace that its host file binds; what is kept outside the store lies beside it too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(directory)
        text = self.host_file.read_text(encoding="utf-8")
        listed = "".join(f'[[workspaces]]\nname = "{name}"\n\n' for name in WORKSPACES[1:])
        self.host_file.write_text(_replaced(text, "[[purposes]]\n", f"{listed}[[purposes]]\n"), encoding="utf-8")

    def environment(self, failpoint: str | None = None) -> dict[str, str]:
        """Return the environment of a process over this store: the user's own state folder is left alone."""
        return {**super().environment(failpoint), "XDG_STATE_HOME": str(self.directory / "state")}

    def bound_to(self, workspace: str) -> Ground:
        """Return this ground with a host file that binds another workspace."""
        other = copy.copy(self)
        if workspace != WORKSPACES[0]:
            other.host_file = self.directory / f"{workspace}.toml"
            text = self.host_file.read_text(encoding="utf-8")
            text = _replaced(text, 'workspace = "default"', f'workspace = "{workspace}"')
            text = _replaced(text, f'[[workspaces]]\nname = "{workspace}"\n', "")
            _write(other.host_file, text)
        return other

    def copied_to(self, name: str) -> Ground:
        """Return the ground of a copy of the store, where ``engram restore --to`` is told to put it."""
        other = copy.copy(self)
        other.directory = self.directory / name
        other.directory.mkdir(mode=0o700)
        other.store, other.host_file = other.directory / "store", other.directory / "engram.toml"
        text = self.host_file.read_text(encoding="utf-8")
        _write(other.host_file, _replaced(text, f'path = "{self.store}"', f'path = "{other.store}"'))
        return other

    def ended(self, *words: str, failpoint: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever it is; a soak's store is larger than a rig's, so it has longer."""
        return subprocess.run(
            self.words(*words), capture_output=True, text=True, check=False, env=self.environment(failpoint),
            timeout=600,
        )  # fmt: skip


def _write(host_file: Path, text: str) -> None:
    host_file.touch(mode=0o600)
    host_file.write_text(text, encoding="utf-8")


def _replaced(text: str, old: str, new: str) -> str:
    if text.count(old) < 1:
        raise ValueError(f"the host file no longer says {old!r}")
    return text.replace(old, new, 1)


def code_kept_in(folder: Path) -> None:
    """Copy the project's code into a folder: a soak takes half an hour, and its checkout may be worked on meanwhile.

    Processes that are started there with ``-m`` take their modules from it.
    """
    for name in ("journal", "projections", "replay", "tools", "bench", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


def bytes_by_kind(ground: Ground) -> dict[str, int]:
    """Return the bytes that files take on their disk: of each part of the store, and of what lies beside it."""
    found = dict.fromkeys(("journal", "keys", "generations", "checkpoints", "backups", "outside", "log"), 0)
    for kind, folder in (
        ("journal", ground.store / "journal"), ("keys", ground.store / "keys"),
        ("generations", ground.store / "projections"), ("checkpoints", ground.store / "checkpoints"),
        ("backups", ground.directory / "backups"), ("outside", ground.directory / "state"),
    ):  # fmt: skip
        found[kind] = _taken(folder)
    found["log"] = ground.log_file.stat().st_blocks * 512
    return found


def _taken(folder: Path) -> int:
    taken = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                taken += (Path(place) / name).stat().st_blocks * 512
            except FileNotFoundError:  # removed meanwhile
                continue
    return taken

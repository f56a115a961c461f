"""How a process of our own is started: the same interpreter, the same packages, nothing from the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]  # where the packages stand beside each other


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours.

    -P: the working directory is a stranger's and must not be able to bring a module.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def own_environment() -> dict[str, str]:
    """Return the environment in which it finds our packages, wherever this process was started."""
    path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path}

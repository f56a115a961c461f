"""How what an extra brings is installed: by the very interpreter that runs, for a bare pip is another environment's."""

from __future__ import annotations

import shlex
import sys
from typing import Final

DISTRIBUTION: Final = "engram-journal"


def pip_install(requirement: str) -> str:
    """Return the command that installs a requirement where this process would find it."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip install '{requirement}'"


def install_extra(name: str) -> str:
    """Return the command that installs what an extra of this distribution brings."""
    return pip_install(f"{DISTRIBUTION}[{name}]")

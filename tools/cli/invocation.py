"""How this very program is called: the word that a person types, and the words that a client runs.

After an installation into a virtual environment ``engram`` may stand on nobody's $PATH, or another installation's may.
So whatever tells a person what to type next asks here.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

from journal.scope import Scope
from tools.cli.commands import COMMANDS
from tools.cli.options import config_file, tenant_name, workspace_name

NAME = "engram"
_MODULE = "tools.cli.main"


def program() -> tuple[str, ...]:
    """Return the words that start this very installation, whatever $PATH says: its script, else Python and module."""
    script = _script()
    return (sys.executable, "-m", _MODULE) if script is None else (str(script),)


def word() -> str:
    """Return what to type for this program: ``engram`` where $PATH leads to it, else its absolute path, quoted."""
    script, found = _script(), shutil.which(NAME)
    if script is not None and found is not None and Path(found).samefile(script):
        return NAME
    return shlex.join(program())


def config_words() -> str:
    """Return the ``--config`` that a next command needs, quoted and with a blank before it; empty if none was given."""
    named = config_file()
    return "" if named is None else f" --config {shlex.quote(str(named.absolute()))}"


def scope_words(scope: Scope) -> str:
    """Return the options that name a scope to a command, quoted and with a blank before each."""
    return f" --tenant {shlex.quote(scope.tenant_id)} --workspace {shlex.quote(scope.workspace_id)}"


def place_words() -> str:
    """Return the ``--tenant``, ``--workspace`` and ``--config`` by which a next command is about the same scope.

    What was not given is left out; quoted and with a blank before each, and empty if none was given.
    """
    named = (("--tenant", tenant_name()), ("--workspace", workspace_name()))
    return "".join(f" {option} {shlex.quote(name)}" for option, name in named if name is not None) + config_words()


def typed(text: str) -> str:
    """Return a text with every command of this program in it written as it has to be typed."""
    return _commands().sub(lambda found: f"{word()} {found['command']}", text)


def _script() -> Path | None:
    """Return the script that started this process, else the one beside its Python; None where there is none."""
    called = Path(sys.argv[0] if sys.argv else "")
    for script in (called, Path(sys.executable).with_name(NAME)):
        if script.name == NAME and script.is_file():
            return script.absolute()
    return None


@cache
def _commands() -> re.Pattern[str]:
    """Return the pattern of a command in running text: the program's name as a word of its own, then a command's."""
    return re.compile(rf"(?<![\w./-]){NAME} (?P<command>{'|'.join(COMMANDS)})\b")

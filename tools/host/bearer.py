"""A bearer token that the host file names the place of: a file of its owner alone, or a variable of the environment.

It is read where it is needed and kept nowhere, so that one that is changed is in force at once. No error quotes it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from journal import limits

VISIBLE: Final = re.compile(r"[!-~]+")


class Unreadable(Exception):
    """There is no token to be had: what is wrong with its place, and the mend."""

    def __init__(self, key: str, reason: str, mend: str) -> None:
        super().__init__(reason)
        self.key = key  # "file" or "env"
        self.reason = reason
        self.mend = mend


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where a token stands; exactly one is given."""

    file: Path | None  # absolute
    env: str | None

    def read(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return the token, without the white space around it.

        Raises:
            Unreadable: it is not there, is open to others, or is none that can be sent.
        """
        if self.file is None:
            token, key = _of_environment(self.env or "", environ), "env"
        else:
            token, key = _of_file(self.file), "file"
        if not VISIBLE.fullmatch(token) or len(token) > limits.TOKEN_MAX_BYTES:
            raise Unreadable(key, "is empty, too long or no plain text", "write one line there")
        return token


def _of_environment(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if value is None:
        raise Unreadable("env", "names a variable that is not set", "set it for this process")
    return value.strip()


def _of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode  # of the very file that is read
            content = file.read(limits.TOKEN_FILE_MAX_BYTES)
    except OSError as error:
        raise Unreadable("file", f"cannot be read ({error.strerror})", "name a file that exists") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Unreadable("file", "is open to others", "chmod 600 it")
    return content.decode("ascii", errors="replace").strip()

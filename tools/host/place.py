"""Where the host file stands, and whether its place can be trusted.

A client starts the server in a project folder, and a cloned project must not be able to bring a key command or a
grant: so the working directory is never looked at, and a file that names a command must be the user's alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from journal import limits
from tools.host.exceptions import HostFileError

ENVIRONMENT_NAME = "ENGRAM_CONFIG"
FILE_NAME = "engram.toml"


def default_host_file() -> Path:
    """Return the place of a host file that nobody named: the user's configuration folder (XDG)."""
    import platformdirs  # not needed where the file is named, as clients do

    try:
        return platformdirs.user_config_path("engram") / FILE_NAME
    except RuntimeError:  # neither HOME nor an entry in the user table
        raise HostFileError(
            Path(FILE_NAME), "", "has no place: this user has no home", "name it with --config"
        ) from None


def state_directory() -> Path:
    """Return where is kept, outside any store, how far each has come: the user's state folder (XDG).

    Raises:
        RuntimeError: the user has no home.
    """
    import platformdirs

    return platformdirs.user_state_path("engram")


def default_anchor() -> Path | None:
    """Return where checkpoints are kept outside the store, unless the host file says: in the state folder."""
    try:
        return state_directory() / "anchors"
    except RuntimeError:  # no home
        return None


def locate(config: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the absolute path of the host file: ``--config``, else ``$ENGRAM_CONFIG``, else the XDG place.

    Raises:
        HostFileError: there is no such file, or the environment names a relative path.
    """
    if config is not None:
        return _existing(Path.cwd() / config.expanduser(), "name a file that exists, or run `engram init`")
    named = environ.get(ENVIRONMENT_NAME, "")
    if named:
        path = Path(named).expanduser()
        if not path.is_absolute():
            # A relative path would be looked up in the working directory, which a project controls.
            raise HostFileError(path, "", f"is a relative path in ${ENVIRONMENT_NAME}", "write an absolute path")
        return _existing(path, f"point ${ENVIRONMENT_NAME} at a file that exists, or run `engram init`")
    return _existing(default_host_file(), "run `engram init`, or name the file with --config")


def _existing(path: Path, mend: str) -> Path:
    try:
        exists = path.exists()
    except OSError:  # a name too long, a folder that may not be searched
        exists = False
    if not exists:
        raise HostFileError(path, "", "does not exist", mend)
    return path


@dataclass(frozen=True, slots=True)
class Opened:
    """A host file's bytes, and who else could have written them."""

    content: bytes
    foreign_hands: str | None  # in words, or None where only the user could


def read(path: Path) -> Opened:
    """Return the bytes of the host file, and what is wrong with its permissions.

    Raises:
        HostFileError: it cannot be read, is no regular file, or is over ``limits.HOST_FILE_MAX_BYTES``.
    """
    try:
        # Non-blocking, because opening a FIFO would wait for ever; judged by the descriptor, not by the name.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise HostFileError(path, "", "is not a regular file", "name the host file itself")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(limits.HOST_FILE_MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostFileError(path, "", f"cannot be read ({error.strerror})", "make it readable for you") from None
    if len(content) > limits.HOST_FILE_MAX_BYTES:
        raise HostFileError(path, "", f"is over {limits.HOST_FILE_MAX_BYTES} bytes", "name the right file")
    return Opened(content, _foreign_hands(path, status))


def _foreign_hands(path: Path, status: os.stat_result) -> str | None:
    """Say who but the user could have written the file or put another in its place."""
    own = (os.getuid(), 0)
    if status.st_uid not in own:
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others"
    folder = path.resolve().parent.stat()
    if folder.st_uid not in own:
        return "stands in another user's folder"
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX:
        return "stands in a folder that others can write to"
    return None

"""The root key: where it comes from. It is never logged, never in argv, and never in an exception."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from journal import limits
from journal.errors import StoreUnavailable
from journal.extras import install_extra

_COMMAND_TIMEOUT_SECONDS = 30
_TEXT_MAX_BYTES = 4_096  # base64 of 32 bytes has 44 characters


@dataclass(frozen=True, slots=True)
class RootKeySource:
    """Where the root key stands: a file's path, a variable's name, a command's words, a keyring's (service, user)."""

    kind: Literal["file", "env", "command", "keyring"]
    where: tuple[str, ...]


def create_root_key_file(path: Path) -> None:
    """Write a new random root key, mode 0600, atomically; an existing file is refused with FileExistsError."""
    write_root_key_file(path, secrets.token_bytes(limits.KEY_BYTES))


def write_root_key_file(path: Path, root_key: bytes) -> None:
    """Write a root key, mode 0600, atomically; an existing file is refused with FileExistsError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(base64.b64encode(root_key) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)  # unlike rename, link never replaces
    finally:
        temporary.unlink()
    flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Make a directory's entries durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def load_root_key(source: RootKeySource) -> bytes:
    """Return the 32 bytes of the root key.

    Raises:
        StoreUnavailable: it is not there, open to others, or not the base64 of 32 bytes. The detail never holds it.
    """
    text = _READERS[source.kind](source.where)
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != limits.KEY_BYTES:
        raise StoreUnavailable(f"the root key ({source.kind}) is not the base64 of 32 bytes")
    return key


def _from_file(where: tuple[str, ...]) -> bytes:
    path = Path(where[0])
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode  # of the very file that is read
            text = file.read(_TEXT_MAX_BYTES)
    except OSError as error:
        raise StoreUnavailable(f"the root key file {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreUnavailable(f"the root key file {path} is open to others: chmod 600 it")
    return text


def _from_env(where: tuple[str, ...]) -> bytes:
    value = os.environ.get(where[0])
    if value is None:
        raise StoreUnavailable(f"the root key's environment variable {where[0]} is not set")
    return value.encode()


def _from_command(where: tuple[str, ...]) -> bytes:
    try:
        result = subprocess.run(  # noqa: S603 - the host file names the command; no shell sees it
            where, capture_output=True, check=False, timeout=_COMMAND_TIMEOUT_SECONDS, stdin=subprocess.DEVNULL
        )
        failure = f"exit code {result.returncode}"
    except (OSError, subprocess.SubprocessError) as error:
        result, failure = None, type(error).__name__
    if result is None or result.returncode != 0:
        # Raised out here: the error above holds what the command printed, and would be this one's context.
        raise StoreUnavailable(f"the root key command failed: {failure}")
    return result.stdout


def _from_keyring(where: tuple[str, ...]) -> bytes:
    try:
        import keyring
    except ImportError:
        raise StoreUnavailable(f"the root key stands in the OS keyring: {install_extra('keyring')}") from None
    try:
        value = keyring.get_password(where[0], where[1])
    except Exception as error:  # noqa: BLE001 - each backend has errors of its own
        raise StoreUnavailable(f"the OS keyring cannot be asked: {type(error).__name__}") from None
    if value is None:
        raise StoreUnavailable("the OS keyring holds no such root key")
    return str(value).encode()


_READERS = {"file": _from_file, "env": _from_env, "command": _from_command, "keyring": _from_keyring}

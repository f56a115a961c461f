"""The store directory: what lies where, and the format that ``store.toml`` states.

    store.toml      format, the store's id, and when it was made
    journal/        the LMDB environment and its locks
    keys/           keyring and slot file a scope
    projections/    what can be thrown away at rest
    checkpoints/    signed checkpoints a scope, made with the first one

All of it is 0700, every file 0600.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blake3 import blake3

from journal.errors import JournalCorrupt, RegistryVersionUnavailable, StoreUnavailable
from journal.rootkey import flush_directory

FORMAT = 1
STORE_FILE = "store.toml"
JOURNAL = "journal"
KEYS = "keys"
PROJECTIONS = "projections"
CHECKPOINTS = "checkpoints"
_BEGUN = f".{STORE_FILE}"
_ID_BYTES = 16
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def create(path: Path, made_at: str, store_id: str | None = None, *, succeeds: str | None = None) -> None:
    """Make an empty store directory, 0700 throughout; its id is random unless 32 hex digits are given.

    ``succeeds`` is the id of the store in whose place this one was restored.

    One that was begun and not finished is finished: the store file comes last, and whole.

    Raises:
        FileExistsError: there is something at the path that is not an empty directory.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone_in(path):
        if not is_begun(path):
            raise FileExistsError(f"{path} is not empty")
        path.chmod(0o700)
        for name in (JOURNAL, KEYS, PROJECTIONS):
            (path / name).mkdir(mode=0o700, exist_ok=True)
        note = "# A store of engram-journal. Its journal is never replaced while a process may hold it open."
        name = secrets.token_hex(_ID_BYTES) if store_id is None else store_id
        text = f'{note}\nformat = {FORMAT}\nid = "{name}"\nmade_at = "{made_at}"\n'
        text += "" if succeeds is None else f'succeeds = "{succeeds}"\n'
        fd = os.open(path / _BEGUN, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        (path / _BEGUN).rename(path / STORE_FILE)  # whole or not at all
        flush_directory(path)
    flush_directory(path.parent)


@contextmanager
def _alone_in(path: Path) -> Iterator[None]:
    """Keep two who make a store in one directory from both finding it empty."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def is_begun(path: Path) -> bool:
    """Whether a folder has nothing but what a making that did not come to its end leaves; ``create`` finishes it."""
    return all(_is_begun(entry) for entry in path.iterdir())


def _is_begun(entry: Path) -> bool:
    """Whether an entry of a directory is what a making that did not come to its end may have left."""
    if entry.is_symlink():
        return False
    if entry.name == _BEGUN:
        return entry.is_file()
    return entry.name in (JOURNAL, KEYS, PROJECTIONS) and entry.is_dir() and not any(entry.iterdir())


def check(path: Path) -> None:
    """Check that a directory holds a store of this format.

    Raises:
        StoreUnavailable: there is no store. RegistryVersionUnavailable: its format is another.
    """
    _, stated = _stated(path)
    if stated.get("format") != FORMAT:
        found = stated.get("format")
        later = isinstance(found, int) and found > FORMAT
        hint = ": a later release of engram made it; take that one" if later else ""
        raise RegistryVersionUnavailable(f"the store at {path} has format {found!r}; this release reads {FORMAT}{hint}")


def check_journal(path: Path) -> None:
    """Check that a store whose scopes have keys has its journal: LMDB takes a file that is missing for a new store.

    Raises:
        JournalCorrupt: the journal's file is missing or empty.
    """
    data = path / JOURNAL / "data.mdb"
    if any((path / KEYS).glob("*.keyring")) and not (data.exists() and data.stat().st_size):
        raise JournalCorrupt("the journal's file is missing or empty: restore the store from a backup (docs/backup.md)")


def store_id(path: Path) -> str:
    """Return a store's id, 32 hex digits: what tells it from its own copy that a restore made.

    A store whose file states none has the BLAKE3 of that file for its id.

    Raises:
        StoreUnavailable: there is no store, or its file cannot be read.
    """
    text, stated = _stated(path)
    found = stated.get("id")
    if isinstance(found, str) and _ID.fullmatch(found):
        return found
    return blake3(text.encode()).hexdigest(_ID_BYTES)


def predecessor(path: Path) -> str | None:
    """Return the id of the store in whose place this one was restored, if any; raises as ``store_id``."""
    _, stated = _stated(path)
    found = stated.get("succeeds")
    return found if isinstance(found, str) and _ID.fullmatch(found) else None


def _stated(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of the store file, and what it states."""
    try:
        text = (path / STORE_FILE).read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise StoreUnavailable(f"there is no store at {path}: run engram init") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"{path / STORE_FILE} cannot be read: {type(error).__name__}") from error

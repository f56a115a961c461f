"""The store directory: what lies where, and the format that ``store.toml`` states.

    store.toml      format and when it was made
    journal/        the LMDB environment and its locks
    keys/           keyring and slot file a scope
    projections/    what can be thrown away at rest
    checkpoints/    signed checkpoints a scope, made with the first one

All of it is 0700, every file 0600.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from journal.errors import RegistryVersionUnavailable, StoreUnavailable
from journal.rootkey import flush_directory

FORMAT = 1
STORE_FILE = "store.toml"
JOURNAL = "journal"
KEYS = "keys"
PROJECTIONS = "projections"
CHECKPOINTS = "checkpoints"


def create(path: Path, made_at: str) -> None:
    """Make an empty store directory, 0700 throughout.

    Raises:
        FileExistsError: there is something at the path that is not an empty directory.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise FileExistsError(f"{path} is not empty")
    path.chmod(0o700)
    for name in (JOURNAL, KEYS, PROJECTIONS):
        (path / name).mkdir(mode=0o700)
    note = "# A store of engram-journal. Its journal is never replaced while a process may hold it open."
    text = f'{note}\nformat = {FORMAT}\nmade_at = "{made_at}"\n'
    fd = os.open(path / STORE_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    flush_directory(path)
    flush_directory(path.parent)


def check(path: Path) -> None:
    """Check that a directory holds a store of this format.

    Raises:
        StoreUnavailable: there is no store. RegistryVersionUnavailable: its format is another.
    """
    try:
        stated = tomllib.loads((path / STORE_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreUnavailable(f"there is no store at {path}: run engram init") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"{path / STORE_FILE} cannot be read: {type(error).__name__}") from error
    if stated.get("format") != FORMAT:
        found = stated.get("format")
        raise RegistryVersionUnavailable(f"the store at {path} has format {found!r}; this release reads {FORMAT}")

"""Where a scope's embeddings stand, one folder a model, and which one is in force.

    <store>/projections/vector/<scope tag, 32 hex digits>/CURRENT              the name of the folder in force
    <store>/projections/vector/<scope tag, 32 hex digits>/<16 hex digits>/     an LMDB environment and its mark

A folder is named by the first 8 bytes of its model's digest. A new model's folder is filled beside the one in force and
comes into force when it is complete; then the other is removed. A search asks the folder of the model that the host
names, so that there is no search by meaning while that one is filled. The directory's own lock is held to make, switch
and remove folders. An environment is open for the length of one look or one write, so that at rest it is flushed and
marked as clean, and nobody waits for a lock on it for long.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from journal import limits
from journal.errors import ProjectionStale, StoreUnavailable
from journal.scope import Scope
from projections import environment, marks
from projections.environment import Environment, Unusable
from projections.locks import InodeLock, identity_of

NAME = "vector"
CURRENT = "CURRENT"
VERSION = 1
"""Of the layout."""
TABLES = (f"embeddings_{VERSION}".encode(), f"failures_{VERSION}".encode())
"""An environment without these tables is of another release, and is made anew."""

_FOLDER = re.compile(r"[0-9a-f]{16}")
_NAMED_BYTES = 8
_ATTEMPTS = 8


def folder_name(digest: bytes) -> str:
    """Return the name of the folder of a model's digest."""
    return digest[:_NAMED_BYTES].hex()


class Folders:
    """The folders of one scope."""

    def __init__(self, projections_path: Path, scope: Scope) -> None:
        """Take the store's ``projections`` directory; nothing is made yet."""
        self.path = projections_path / NAME / scope.tag.hex()

    # --- which is in force -----------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all folders that are there, in order."""
        try:
            return sorted(entry.name for entry in self.path.iterdir() if _FOLDER.fullmatch(entry.name))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def current(self) -> str | None:
        """Return the name of the folder that was put in force, if it is still there."""
        try:
            stated = (self.path / CURRENT).read_text(encoding="ascii", errors="replace").removesuffix("\n")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return stated if _FOLDER.fullmatch(stated) and (self.path / stated).is_dir() else None

    def adopt(self, wanted: bytes) -> None:
        """Put a model's folder in force and remove every other.

        One that is in force already stays as it is, and so does what another process fills beside it.

        Raises:
            ProjectionStale: the lock was not had in time.
        """
        name = folder_name(wanted)
        if self.current() == name:
            return
        with self._locked(time.monotonic() + limits.VECTOR_LOCK_SECONDS) as lock:
            if not (self.path / name).is_dir():
                return
            marks.replace(lock.fd, CURRENT, f"{name}\n".encode())
            for other in self.names():
                if other != name:
                    self._remove(other)

    # --- opening ---------------------------------------------------------------------------------

    def open(self, name: str, *, make: bool) -> Environment | None:
        """Open a folder's environment; ``release`` it soon. None where there is none and none is to be made.

        One that cannot be used is thrown away.

        Raises:
            ProjectionStale: a lock was not had in time. StoreUnavailable: nothing can be read or made there.
        """
        deadline = time.monotonic() + limits.VECTOR_LOCK_SECONDS
        try:
            for _ in range(_ATTEMPTS):
                if (self.path / name).is_dir():
                    try:
                        return environment.attach(self.path / name, TABLES, deadline, summed=False)
                    except Unusable:
                        self.discard(name)
                if not make:
                    return None
                made = self._made(name, deadline)
                if made is not None:
                    return made
        except OSError as error:
            raise StoreUnavailable(f"embeddings cannot be opened: {type(error).__name__}") from error
        raise ProjectionStale("the folder of the embeddings keeps being deleted")

    def _made(self, name: str, deadline: float) -> Environment | None:
        """Return a new environment; None where another process made it first."""
        with self._locked(deadline):
            try:
                (self.path / name).mkdir(mode=0o700)
            except FileExistsError:
                return None
            return environment.create(self.path / name, TABLES, summed=False)

    def discard(self, name: str) -> None:
        """Throw away an environment that cannot be used: what it held is embedded again."""
        deadline = time.monotonic() + limits.VECTOR_LOCK_SECONDS
        with self._locked(deadline):
            try:
                # another may have made it anew
                environment.attach(self.path / name, TABLES, deadline, summed=False).release()
            except Unusable:
                self._remove(name)

    def remove(self, name: str) -> None:
        """Remove a folder whatever it holds, once nobody has it open.

        Raises:
            ProjectionStale: somebody kept it open.
        """
        with self._locked(time.monotonic() + limits.VECTOR_LOCK_SECONDS):
            if not self._remove(name):
                raise ProjectionStale("a folder of embeddings is held open")

    def _remove(self, name: str) -> bool:
        directory = self.path / name
        try:
            lock = InodeLock(directory / environment.DATA)
        except (FileNotFoundError, NotADirectoryError):
            shutil.rmtree(directory, ignore_errors=True)
            return True
        try:
            if not lock.acquire(time.monotonic() + limits.VECTOR_LOCK_SECONDS):
                return False
            shutil.rmtree(directory, ignore_errors=True)
            return True
        finally:
            lock.close()

    @contextmanager
    def _locked(self, deadline: float) -> Iterator[InodeLock]:
        """Hold the lock of the directory that stands at the path now."""
        for _ in range(_ATTEMPTS):
            for directory in (self.path.parent.parent, self.path.parent, self.path):
                directory.mkdir(mode=0o700, exist_ok=True)
            lock = InodeLock(self.path)
            try:
                if not lock.acquire(deadline):
                    raise ProjectionStale("the lock of the embeddings is held by another process")
                if identity_of(self.path) == lock.identity:
                    yield lock
                    return
            finally:
                lock.close()
        raise ProjectionStale("the directory of the embeddings keeps being deleted")

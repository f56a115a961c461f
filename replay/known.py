"""What is known of a store outside it: how far each scope's journal had come, so that an older copy is found out.

    <state directory>/heads/<store id>.json     {"succeeded_by": store id or null, "scopes": {tag: [cursor, hash]}}
    <anchor>/...                                signed checkpoints, as journal.checkpointfiles lays them out

``heads`` is written with every backup, and before any key is destroyed. A store that was restored in another's place
succeeds it: from then on the newest of both is what is known of the newer one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from journal import checkpoints, patience
from journal.checkpointfiles import Anchor
from journal.checkpoints import Checkpoint
from journal.errors import InvalidDigest, StoreUnavailable
from journal.filelock import FileLock
from journal.foreign import UNREADABLE
from journal.notes import PublicKey
from journal.rootkey import flush_directory
from journal.scope import Scope

_LOCK_SECONDS = 2.0


class Point(msgspec.Struct, array_like=True, frozen=True):
    """A place in a scope's journal: the cursor, and the hash (hex) of the frame there; empty where it is not known."""

    cursor: int
    hash: str = ""


class Heads(msgspec.Struct, forbid_unknown_fields=True):
    """What is known of one store, by scope tag (hex)."""

    succeeded_by: str | None = None
    scopes: dict[str, Point] = {}


class Outside:
    """The record in a state directory, and the anchor that holds checkpoints."""

    def __init__(self, directory: Path, anchor: Path | None = None) -> None:
        """Name the directory, which is made when something is first noted, and the anchor, if there is one."""
        self._heads = directory / "heads"
        self.anchor = None if anchor is None else Anchor(anchor)

    def note(self, store: str, points: dict[str, Point]) -> None:
        """Note how far scopes have come; what is further already stays.

        Raises:
            OSError, StoreUnavailable: it cannot be written.
        """

        def raised(heads: Heads) -> None:
            for tag, point in points.items():
                if point.cursor >= heads.scopes.get(tag, Point(0)).cursor:
                    heads.scopes[tag] = point

        self._change(store, raised)

    def succeed(self, older: str, newer: str, points: dict[str, Point]) -> None:
        """Note that a store was restored in the place of another, and where it begins; raises as ``note``."""
        self.note(newer, points)

        def succeeded(heads: Heads) -> None:
            heads.succeeded_by = newer

        self._change(self.newest_of(older), succeeded)

    def newest_of(self, store: str) -> str:
        """Return the id of the store that stands in this one's place now: its own, or its last successor's."""
        seen = {store}
        while (after := self._read(store).succeeded_by) is not None and after not in seen:
            seen.add(after)
            store = after
        return store

    def points(self, store: str) -> dict[str, Point]:
        """Return what is known of a store, by scope tag in hex.

        Raises:
            StoreUnavailable: the record is there and cannot be read.
        """
        return dict(self._read(store).scopes)

    def anchored(self, scope: Scope, signing_seed: bytes) -> int:
        """Return the greatest size of a checkpoint in the anchor that the scope's own key signed; 0: there is none.

        Raises:
            StoreUnavailable: the anchor is there and cannot be read.
        """
        return max((one.size for one in self.checkpoints(checkpoints.public_key(scope, signing_seed))), default=0)

    def checkpoints(self, key: PublicKey) -> list[Checkpoint]:
        """Return every checkpoint in the anchor that a key signed; raises as ``anchored``."""
        if self.anchor is None:
            return []
        folder, found = self.anchor.folder(key), []
        for size in folder.sizes():
            with suppress(InvalidDigest):  # the audit names it
                found.append(folder.checkpoint(size, key))
        return found

    # --- files ------------------------------------------------------------------------------------

    def _read(self, store: str) -> Heads:
        try:
            return msgspec.json.decode(self._path(store).read_bytes(), type=Heads)
        except FileNotFoundError:
            return Heads()
        except (OSError, *UNREADABLE) as error:
            raise StoreUnavailable(f"{self._path(store)} cannot be read: remove it only if you know why") from error

    def _change(self, store: str, how: Callable[[Heads], None]) -> None:
        self._heads.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(store)
        with closing(FileLock(self._heads / f"{store}.lock")) as lock:
            if not lock.acquire(patience.until(_LOCK_SECONDS)):
                raise patience.given_up("another process holds the record of heads")
            heads = self._read(store)
            how(heads)
            _replace(path, msgspec.json.encode(heads, order="sorted") + b"\n")

    def _path(self, store: str) -> Path:
        return self._heads / f"{store}.json"


def _replace(path: Path, raw: bytes) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    flush_directory(path.parent)

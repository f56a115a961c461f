"""The root key as a process holds it: it opens keyring files, and follows a replacement where it can."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from journal import keyringfile, rootchange
from journal.errors import JournalCorrupt, RegistryVersionUnavailable, StoreUnavailable
from journal.keyringfile import ScopeKeys
from journal.scope import Scope

_UNUSABLE = (JournalCorrupt, RegistryVersionUnavailable)


class HeldRoot:
    """A root key in memory, and where to look for the one in force by now."""

    def __init__(self, directory: Path, key: bytes, reread: Callable[[], bytes] | None) -> None:
        """Take the ``keys`` directory, the key, and what gives the key that is in force by now, where that is known."""
        self.key = key
        self._directory = directory
        self._reread = reread

    def check(self) -> None:
        """Check that the key is this store's, by any scope's keyring file that can be read.

        Raises:
            StoreUnavailable: it is another store's.
        """
        for raw in rootchange.keyrings(self._directory):
            with suppress(*_UNUSABLE):
                keyringfile.check_root(raw, self.key)
                return

    def follow(self) -> None:
        """Take over the key in force, by any scope's keyring file that can be read; raises as ``decode`` does."""
        for raw in rootchange.keyrings(self._directory):
            with suppress(*_UNUSABLE):
                self._open(raw)
                return

    def decode(self, scope: Scope, raw: bytes) -> ScopeKeys:
        """Return the keys in a scope's keyring file, with the root key that is in force by now.

        Raises:
            As ``keyringfile.decode``; StoreUnavailable says what to do where the root key was replaced.
        """
        self._open(raw)
        return keyringfile.decode(scope, raw, self.key)

    def _open(self, raw: bytes) -> None:
        try:
            keyringfile.check_root(raw, self.key)
        except StoreUnavailable:
            key = self.key if self._reread is None else self._reread()
        else:
            return
        try:
            keyringfile.check_root(raw, key)
        except StoreUnavailable as error:
            raise StoreUnavailable(
                "the root key does not open this store's keyring: it is another store's key, or it was replaced by "
                "engram keys rotate --erase: put the new one in its place and restart"
            ) from error
        self.key = key

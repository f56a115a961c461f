"""What an operator is told of a store that is damaged: what it is, once of each kind, and what to do about it."""

from __future__ import annotations

from typing import Final, Protocol

from journal.errors import BlobMissing, EngramError, JournalCorrupt, RegistryVersionUnavailable

DAMAGED: Final = (JournalCorrupt, BlobMissing, RegistryVersionUnavailable)

RESTORE: Final = (
    "move the store's folder away and restore the whole store from a backup and its key backup: engram restore FILE "
    "--keys FILE --identity FILE (docs/backup.md, What is damaged)"
)
"""Nothing restores a part: journal and keys belong together."""

DO: Final = f"run engram doctor, which names what is damaged and how it is mended; where it says so, {RESTORE}"

_LINES_MAX: Final = 32  # a line each; the audit names them all


class Log(Protocol):
    """Where it is told."""

    def error(self, event: str, **facts: object) -> None:
        """Log what an operator has to do something about."""
        ...


class DamageTold:
    """Tells that calls are refused for damage, once of each kind."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._told: set[tuple[str, str]] = set()

    def tell(self, error: EngramError) -> None:
        """Tell of an error, where it is damage and was not told yet."""
        kind = (error.code, error.detail)
        if not isinstance(error, DAMAGED) or kind in self._told or len(self._told) >= _LINES_MAX:
            return
        self._told.add(kind)
        self._log.error("store damaged", code=error.code, detail=error.detail, do=DO)

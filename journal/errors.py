"""The contract's error codes, one class a code (CONTRACT §4).

The docstring of a class is the whole message that an agent ever sees. What else is known about a failure is
given as ``detail``; it goes to the log and never to the agent.
"""

from __future__ import annotations

from typing import ClassVar


class EngramError(Exception):
    """The memory service failed."""

    code: ClassVar[str] = ""
    retriable: ClassVar[bool] = False

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.message())
        self.detail = detail

    @classmethod
    def message(cls) -> str:
        """Return the constant, sanitised message of this code."""
        return (cls.__doc__ or "").strip()


class RateLimited(EngramError):
    """Too many calls at once; back off and retry."""

    code = "RATE_LIMITED"
    retriable = True


class DeadlineExceeded(EngramError):
    """The call did not finish before its deadline; nothing was written."""

    code = "DEADLINE_EXCEEDED"
    retriable = True


class Cancelled(EngramError):
    """The call was cancelled before it wrote anything."""

    code = "CANCELLED"
    retriable = True


class StoreUnavailable(EngramError):
    """The memory store cannot be used right now."""

    code = "STORE_UNAVAILABLE"
    retriable = True


class FenceLost(EngramError):
    """The writer lost its right to write; nothing was written."""

    code = "FENCE_LOST"
    retriable = True


class CursorGap(EngramError):
    """The journal's next cursor is not the expected one."""

    code = "CURSOR_GAP"
    retriable = True


class PolicyUnavailable(EngramError):
    """The admission policy cannot be reached."""

    code = "POLICY_UNAVAILABLE"
    retriable = True


class PolicyStale(EngramError):
    """The admission policy's answer is not current."""

    code = "POLICY_STALE"
    retriable = True


class ProjectionStale(EngramError):
    """The projection could not be brought up to date in time."""

    code = "PROJECTION_STALE"
    retriable = True


class RankingUnavailable(EngramError):
    """A required ranking channel is not available."""

    code = "RANKING_UNAVAILABLE"
    retriable = True


class MutationOutcomeUnknown(EngramError):
    """The write may or may not have happened; retry with the same key and arguments."""

    code = "MUTATION_OUTCOME_UNKNOWN"
    retriable = True


class InvalidSchema(EngramError):
    """The arguments do not fit the tool's schema."""

    code = "INVALID_SCHEMA"
    retriable = False


class InvalidDigest(EngramError):
    """A digest does not match what it names."""

    code = "INVALID_DIGEST"
    retriable = False


class Unauthorized(EngramError):
    """The host does not allow this."""

    code = "UNAUTHORIZED"
    retriable = False


class AuthorizationExpired(EngramError):
    """The authorization has expired."""

    code = "AUTHORIZATION_EXPIRED"
    retriable = False


class AuthorizationRevoked(EngramError):
    """The authorization was revoked."""

    code = "AUTHORIZATION_REVOKED"
    retriable = False


class NotFound(EngramError):
    """No such target is available."""

    code = "NOT_FOUND"
    retriable = False


class DigestConflict(EngramError):
    """The idempotency key was used for another operation."""

    code = "DIGEST_CONFLICT"
    retriable = False


class IllegalTransition(EngramError):
    """The target's state forbids this operation."""

    code = "ILLEGAL_TRANSITION"
    retriable = False


class AlreadyTerminal(EngramError):
    """The target is in a terminal state."""

    code = "ALREADY_TERMINAL"
    retriable = False


class GateFailed(EngramError):
    """The host has not confirmed this operation."""

    code = "gate_failed"
    retriable = False


class StalePage(EngramError):
    """The page cursor is no longer good; search anew."""

    code = "STALE_PAGE"
    retriable = False


class ResultTooLarge(EngramError):
    """The receipts alone do not fit the packet budget."""

    code = "RESULT_TOO_LARGE"
    retriable = False


class ProjectionOversized(EngramError):
    """The next record alone is over the packet budget."""

    code = "PROJECTION_OVERSIZED"
    retriable = False


class CapabilityUnavailable(EngramError):
    """This capability is not available here."""

    code = "CAPABILITY_UNAVAILABLE"
    retriable = False


class JournalCorrupt(EngramError):
    """The journal failed its integrity check."""

    code = "JOURNAL_CORRUPT"
    retriable = False


class BlobMissing(EngramError):
    """A stored body is missing."""

    code = "BLOB_MISSING"
    retriable = False


class RegistryVersionUnavailable(EngramError):
    """A format version or event type is not known here."""

    code = "REGISTRY_VERSION_UNAVAILABLE"
    retriable = False


class BackupInvalid(EngramError):
    """The backup failed its verification."""

    code = "BACKUP_INVALID"
    retriable = False


class RestoreRefused(EngramError):
    """The restore was refused; nothing was written."""

    code = "RESTORE_REFUSED"
    retriable = False


class MigrationLedgerInvalid(EngramError):
    """The migration ledger is not complete."""

    code = "MIGRATION_LEDGER_INVALID"
    retriable = False


CODES: dict[str, type[EngramError]] = {error.code: error for error in EngramError.__subclasses__()}

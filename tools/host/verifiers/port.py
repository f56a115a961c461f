"""The evidence verifier port: what a verifier is shown, what it finds, and what trust follows from it.

Trust is a part of the record, and the record's id is fixed at capture; so it is at capture that a verifier looks, once,
and for a bounded time (docs/decisions/0021-verified-at-capture.md). What it finds of a citation that does not match is
for the host's eyes: it is sealed with the candidate, and the record says no more than that nothing was earned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from journal import limits
from journal.clock import instant
from journal.digests import sealed_receipt
from tools.lazylog import LazyLog

_log = LazyLog()

Result = Literal["matched", "mismatched", "unverified"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one citation, or of the evidence."""

    citation_id: str | None = None  # None: the evidence
    result: Result
    reason: str | None = None  # a constant sentence; None where it matched


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What a verifier found of a candidate."""

    trust_class: Literal["earned", "signed"]  # what is earned where everything matched
    findings: tuple[Finding, ...]

    @property
    def result(self) -> Result:
        """What it comes to: one mismatch is enough, and only what matched whole has matched."""
        results = {finding.result for finding in self.findings}
        if "mismatched" in results:
            return "mismatched"
        return "matched" if results == {"matched"} else "unverified"


class Verifier(Protocol):
    """Finds out whether what is cited is what it is said to be."""

    @property
    def verifier_id(self) -> str:
        """The verifier's name."""
        ...

    @property
    def verifier_version(self) -> str:
        """Its version."""
        ...

    @property
    def revocation_epoch(self) -> int:
        """The epoch under which trust is given; the host raises it when what was given before counts no more."""
        ...

    def verify(self, citations: Sequence[Mapping[str, Any]], evidence: Mapping[str, Any], deadline: float) -> Verified:
        """Return what is found.

        Args:
            citations: of the payload, in its order.
            evidence: as sent.
            deadline: time.monotonic seconds.
        """
        ...


_at_once = threading.BoundedSemaphore(limits.VERIFICATIONS_AT_ONCE_MAX)


def verified_in_time(
    verifier: Verifier, citations: Sequence[Mapping[str, Any]], evidence: Mapping[str, Any], seconds: float
) -> Verified:
    """Return what a verifier finds within the time; where it does not come to an end, nothing is verified.

    It runs in a thread of its own: reading from a file system that hangs cannot be ended, only left behind. It is told
    a little less time, so that what it has found by then still counts.
    """
    found: list[Verified] = []

    def look() -> None:
        try:
            found.append(verifier.verify(citations, evidence, time.monotonic() + 0.9 * seconds))
        except Exception as error:  # noqa: BLE001 - whatever a verifier raises: nothing is verified
            _log.warning("verifier_failed", kind=type(error).__name__)
        finally:
            _at_once.release()

    if not _at_once.acquire(blocking=False):
        return _nothing(citations, "too many are verified at once")
    thread = threading.Thread(target=look, name="engram-verifier", daemon=True)
    thread.start()
    thread.join(seconds)
    if found:
        return found[0]
    return _nothing(citations, "the verifier was too slow" if thread.is_alive() else "the verifier failed")


def _nothing(citations: Sequence[Mapping[str, Any]], reason: str) -> Verified:
    names = (*(citation["citation_id"] for citation in citations), None)
    return Verified(
        trust_class="earned",
        findings=tuple(Finding(citation_id=name, result="unverified", reason=reason) for name in names),
    )


def earned_trust(verifier: Verifier, verified: Verified, evidence_digest: str, now: int) -> dict[str, Any]:
    """Return the trust of a record all of whose citations matched; ``now`` is epoch milliseconds."""
    assert verified.result == "matched"
    return sealed_receipt(
        "trust",
        {
            "class": verified.trust_class,
            "evidence_digest": evidence_digest,
            "verifier_id": verifier.verifier_id,
            "verifier_version": verifier.verifier_version,
            "issued_at": instant(now),
            "revocation_epoch": str(verifier.revocation_epoch),
        },
    )


def finding_of_host(verifier: Verifier, verified: Verified, now: int) -> dict[str, Any]:
    """Return what is sealed with the candidate for the host's eyes: no path, no byte of a file, constant reasons."""
    return {
        "result": verified.result,
        "verifier_id": verifier.verifier_id,
        "verifier_version": verifier.verifier_version,
        "checked_at": instant(now),
        "findings": [
            {name: value for name, value in msgspec.to_builtins(finding).items() if value is not None}
            for finding in verified.findings
        ],
    }

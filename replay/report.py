"""What an audit says: findings with the contract's codes, a report for each scope, and one for the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from journal import limits
from replay.bodies import Verdict

if TYPE_CHECKING:
    from journal.errors import EngramError
    from journal.scope import Scope
    from journal.store.port import Head
    from replay.comparison import Compared


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong. ``detail`` names what and where, and never holds content."""

    code: str
    cursor: int | None
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the command line prints it."""
        cursor = None if self.cursor is None else str(self.cursor)
        return {"code": self.code, "cursor": cursor, "detail": self.detail}


@dataclass(slots=True)
class ScopeReport:
    """What the audit saw of one scope."""

    scope: Scope
    head: Head
    events: int = 0
    root: bytes | None = None  # RFC 6962, over all frames; None where one of them cannot be read
    bodies: dict[Verdict, int] | None = field(default_factory=lambda: dict.fromkeys(Verdict, 0))  # None: not looked at
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0
    checkpoints: int = 0  # how many it was compared with

    def find(self, error: EngramError, cursor: int | None) -> None:
        """Note a finding; beyond a bound only their number."""
        if len(self.findings) < limits.AUDIT_FINDINGS_MAX:
            self.findings.append(Finding(error.code, cursor, error.detail or error.message()))
        else:
            self.unlisted += 1

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command line prints it."""
        findings = [finding.as_json() for finding in self.findings]
        if self.unlisted:
            findings.append(Finding("JOURNAL_CORRUPT", None, f"{self.unlisted} further findings").as_json())
        bodies = None if self.bodies is None else {verdict.value: count for verdict, count in self.bodies.items()}
        return {
            "tenant_id": self.scope.tenant_id,
            "workspace_id": self.scope.workspace_id,
            "events": self.events,
            "head_cursor": str(self.head.cursor),
            "head_hash": self.head.hash.hex(),
            "root": None if self.root is None else self.root.hex(),
            "bodies": bodies,
            "checkpoints": self.checkpoints,
            "findings": findings,
        }


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What the audit saw of a store."""

    scopes: list[ScopeReport]
    projections: list[Compared]
    elsewhere: list[Finding] = field(default_factory=list)  # of no scope that the store has

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        clean = not self.elsewhere and not any(scope.findings for scope in self.scopes)
        return clean and all(one.ok for one in self.projections)

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command line prints it."""
        elsewhere = {"elsewhere": [each.as_json() for each in self.elsewhere]} if self.elsewhere else {}
        return {
            "ok": self.ok,
            "scopes": [scope.as_json() for scope in self.scopes],
            "projections": [one.as_json() for one in self.projections],
            **elsewhere,
        }

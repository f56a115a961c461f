"""What a check says: a stable code, how bad it is, what is wrong, and the mend in one plain sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum


class Severity(Enum):
    """How bad it is, best first."""

    OK = "ok"
    NOTE = "note"  # good to know; may be meant so
    WARNING = "warning"  # works, and should be mended
    FAULT = "fault"  # does not work, or must not go on

    @property
    def rank(self) -> int:
        """A number that grows with the badness."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found. Scripts rely on the code; nothing here holds content, a query or a key."""

    code: str
    severity: Severity
    subject: str  # the file, scope, process or setting that it is about
    detail: str
    mend: str = ""

    def as_json(self) -> dict[str, str]:
        """Return {code, severity, subject, detail, mend}."""
        return {**asdict(self), "severity": self.severity.value}


def ok(code: str, subject: str, detail: str) -> Finding:
    """Return the finding of a check that found nothing wrong."""
    return Finding(code, Severity.OK, subject, detail)


def note(code: str, subject: str, detail: str, mend: str) -> Finding:
    """Return a note."""
    return Finding(code, Severity.NOTE, subject, detail, mend)


def warning(code: str, subject: str, detail: str, mend: str) -> Finding:
    """Return a warning."""
    return Finding(code, Severity.WARNING, subject, detail, mend)


def fault(code: str, subject: str, detail: str, mend: str) -> Finding:
    """Return a fault."""
    return Finding(code, Severity.FAULT, subject, detail, mend)


def is_sound(findings: Iterable[Finding]) -> bool:
    """Whether there is no fault among them."""
    return all(finding.severity is not Severity.FAULT for finding in findings)

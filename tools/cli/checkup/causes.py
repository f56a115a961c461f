"""One cause is told once: what follows from it is named with it, and is mended with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from journal import layout
from tools.cli.checkup.finding import Finding, Severity

_CAUSES = frozenset({"KEYRING_BROKEN", "KEYS_MISSING"})
"""Without its keys nothing of a scope is read, folded, embedded or destroyed."""
_BROKEN = "JOURNAL_BROKEN"
_DAMAGE = frozenset({_BROKEN, "STORE_DAMAGED", "PAGES_DAMAGED"})
"""What else is seen of a journal that was found to be broken."""
_FOLLOWING = frozenset(
    {
        "PROJECTION_OUT_OF_FORCE", "PROJECTION_BROKEN", "PROJECTION_OLD", "PROJECTION_UNCLEAN", "PROJECTION_BEHIND",
        "GENERATION_LEFT_OVER", "GENERATION_HALF_BUILT", "DESTRUCTIONS_PENDING", "ERASURES_PENDING",
        "EMBEDDINGS_BROKEN", "EMBEDDINGS_FAILED", "EMBEDDINGS_WANTED",
    }
)  # fmt: skip


def joined(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings in their order, with those that follow from lost or broken keys named by their cause."""
    causes = [each for each in findings if each.code in _CAUSES and not Path(each.subject).is_absolute()]
    following = {id(cause): [each for each in findings if _follows(each, cause)] for cause in causes}
    for folder in (each for each in findings if _is_without_keys(each)):
        following = {id(folder): [*causes, *(each for found in following.values() for each in found)]}
    following |= _of_a_broken_journal(findings)
    gone = {id(each) for found in following.values() for each in found}
    return [_naming(each, following.get(id(each), [])) for each in findings if id(each) not in gone]


def _of_a_broken_journal(findings: Sequence[Finding]) -> dict[int, list[Finding]]:
    """Return what follows from a journal that is broken as a whole, by its finding: the first one, which walked it."""
    whole = [each for each in findings if each.code == _BROKEN and Path(each.subject).is_absolute()]
    return {id(whole[0]): [each for each in findings if each is not whole[0] and each.code in _DAMAGE]} if whole else {}


def _is_without_keys(finding: Finding) -> bool:
    return finding.code == "STORE_INCOMPLETE" and layout.KEYS in finding.detail.split()


def _follows(finding: Finding, cause: Finding) -> bool:
    """Whether a finding follows from what a scope's keys are: it is about that scope, or names the same file."""
    if finding is cause or finding.severity is Severity.OK:
        return False
    if finding.code in _CAUSES:
        return Path(finding.subject).is_absolute() and Path(finding.subject).name in cause.detail
    is_of_scope = finding.subject == cause.subject or finding.subject.endswith(f" of {cause.subject}")
    return finding.code in _FOLLOWING and is_of_scope


def _naming(cause: Finding, following: Sequence[Finding]) -> Finding:
    """Return a cause with what follows from it: each code once, and how often; what says the same is not repeated."""
    codes = Counter(each.code for each in following if each.code != cause.code)
    if not codes:
        return cause
    named = ", ".join(code if count == 1 else f"{code} ({count} times)" for code, count in codes.items())
    return replace(cause, detail=f"{cause.detail}; from it follows {named}")

"""What the host binds of admission: the section of the host file, checked, and what it names, read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from journal import limits
from projections.address import Address, address_of
from tools.host import sections
from tools.host.bearer import TokenPlace
from tools.host.capabilities import nearest
from tools.host.policies.by_rules import Rule, RuleDecision
from tools.host.sections import AdmissionSection, RuleSection

KINDS: Final = ("context", "decision", "evidence")
DECISIONS: Final = ("accept", "reject", "adjudicate")
TRUST_CLASSES: Final = ("asserted", "earned", "signed")
VERIFICATIONS: Final = ("matched", "mismatched", "unverified", "none")

_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "command": ("command", "policy_id", "policy_version"),
    "http": ("url", "policy_id", "policy_version"),
}
_BEARER: Final = ("bearer_env", "bearer_file")
_USED: Final = {**_NEEDED, "http": (*_NEEDED["http"], *_BEARER), "rules": ("rules", "rules_file")}
_OPTIONS: Final = ("command", "url", "policy_id", "policy_version", *_BEARER, "rules", "rules_file")
_MENDS: Final = {
    "command": "write a list of words, the program first",
    "url": 'write the address, such as "https://policy.example/decide"',
    "policy_id": "write the name that the policy answers with",
    "policy_version": "write the version that the policy answers with",
}

Flaw = tuple[str, str, str]
"""Key, reason and mend of what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who decides whether a candidate becomes a record."""

    policy: str = "adjudicate"
    command: tuple[str, ...] = ()  # of the policy "command"; a relative path is made absolute
    address: Address | None = None  # of the policy "http"
    bearer: TokenPlace | None = None  # what is sent there with each question
    policy_id: str = ""  # of both
    policy_version: str = ""
    timeout_seconds: int = limits.POLICY_TIMEOUT_SECONDS
    rules: tuple[Rule, ...] = ()  # of the policy "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Who finds out whether what a candidate cites is what it is said to be; no roots: nobody."""

    roots: tuple[Path, ...] = ()  # absolute
    revocation_epoch: int = 0


def flaw_of(section: AdmissionSection) -> Flaw | None:
    """Return what does not go together, or None. The policy's name is a known one."""
    for key in _OPTIONS:
        is_given = getattr(section, key) not in (None, ())
        if is_given and key not in _USED.get(section.policy, ()):
            return f"admission.{key}", f'is not used by the policy "{section.policy}"', "remove it, or name another"
        if not is_given and key in _NEEDED.get(section.policy, ()):
            return f"admission.{key}", f'is needed by the policy "{section.policy}"', _MENDS[key]
    for key in ("policy_id", "policy_version"):
        text = getattr(section, key)
        if text is not None and len(text.encode(errors="replace")) > limits.REF_MAX_BYTES:
            return f"admission.{key}", f"is over {limits.REF_MAX_BYTES} bytes", "write a shorter one"
    if section.policy == "rules" and bool(section.rules) == (section.rules_file is not None):
        return "admission.rules", "are given twice, or not at all", "write [[admission.rules]], or name a rules_file"
    if section.url is not None and (flaw := _url_flaw(section, section.url)):
        return flaw
    return rules_flaw(section.rules, "admission.rules")


def _url_flaw(section: AdmissionSection, url: str) -> Flaw | None:
    if section.bearer_env is not None and section.bearer_file is not None:
        return "admission.bearer_file", "and bearer_env are both given", "give one of the two"
    address = address_of(url)
    if address is None:
        mend = 'write one such as "https://policy.example/decide", without a user, a query or a key'
        return "admission.url", "is no plain address", mend
    if not address.is_private:
        mend = "write https:// (http:// is for this machine alone)"
        return "admission.url", "would ask and be answered in the clear", mend
    return None


def rules_flaw(rules: Sequence[RuleSection], key: str) -> Flaw | None:
    """Return what is wrong with rules, whose list stands under ``key``, or None."""
    known: dict[str, Sequence[str]] = {
        "kinds": KINDS,
        "trust_classes": TRUST_CLASSES,
        "verification": VERIFICATIONS,
        "families": sections.FAMILIES,
    }
    for position, rule in enumerate(rules):
        place = f"{key}[{position}]"
        flaw = _names_flaw(f"{place}.decision", (rule.decision,), DECISIONS)
        for name, names in known.items():
            flaw = flaw or _names_flaw(f"{place}.{name}", getattr(rule, name) or (), names)
        if flaw is not None:
            return flaw
        for scheme in rule.source_schemes or ():
            if ":" in scheme or scheme != scheme.lower():
                mend = 'write what stands before the colon, in lower case, such as "file"'
                return f"{place}.source_schemes", "names what is no scheme", mend
    return None


def _names_flaw(key: str, names: Sequence[str], known: Sequence[str]) -> Flaw | None:
    for name in names:
        if name not in known:
            near = nearest(name, known)
            mend = f'did you mean "{near}"?' if near else f"this release knows {', '.join(known)}"
            return key, f'names "{name}", which is not known here', mend
    return None


def admission_of(
    section: AdmissionSection,
    absolute: Callable[[str], Path],
    absolute_command: Callable[[tuple[str, ...]], tuple[str, ...]],
    rules_of_file: Callable[[str], tuple[RuleSection, ...]],
) -> Admission:
    """Return what a section without a flaw says.

    Args:
        section: the section.
        absolute: makes a path absolute.
        absolute_command: makes a program's relative path absolute.
        rules_of_file: reads the file of rules that the section names.
    """
    rules = section.rules if section.rules_file is None else rules_of_file(section.rules_file)
    return Admission(
        policy=section.policy,
        command=() if section.command is None else absolute_command(section.command),
        address=None if section.url is None else address_of(section.url),
        bearer=_bearer(section, absolute),
        policy_id=section.policy_id or "",
        policy_version=section.policy_version or "",
        timeout_seconds=section.timeout_seconds,
        rules=tuple(map(_rule, rules)),
    )


def _bearer(section: AdmissionSection, absolute: Callable[[str], Path]) -> TokenPlace | None:
    if section.bearer_file is not None:
        return TokenPlace(absolute(section.bearer_file), None)
    return None if section.bearer_env is None else TokenPlace(None, section.bearer_env)


def _rule(section: RuleSection) -> Rule:
    """Return a rule that was checked. A list's order says nothing, and must not change the version of the rules."""
    fields: dict[str, Any] = {
        name: tuple(sorted(set(value))) if isinstance(value, tuple) else value
        for name in RuleSection.__struct_fields__
        if name != "decision" and (value := getattr(section, name)) is not None
    }
    return Rule(decision=cast("RuleDecision", section.decision), **fields)

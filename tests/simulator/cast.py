"""Who speaks in the simulator, what is said, and the arguments of calls: plain constants and their spelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from journal.clock import instant
from tests.tools.memory.world import NOW, PURPOSE, SECOND, evidence, payload


@dataclass(frozen=True, slots=True)
class Person:
    """One principal in one scope, and what the host decided for it."""

    workspace: str
    principal: str
    policy: str
    destroy_expired: bool


PEOPLE = (
    Person("work", "principal:one", "accept-asserted", destroy_expired=False),
    Person("work", "principal:two", "adjudicate", destroy_expired=False),
    Person("side", "principal:one", "accept-asserted", destroy_expired=True),
)
WORDS = ("falcon", "harbour", "granite", "회의록", "lantern")
"""None is a part of another, and each is found by itself."""
PURPOSES = (PURPOSE, SECOND)
_SECRET = "AK" + "IA" + "Q7Z2M4N6P8R3S5T9"  # put together here, so that no scanner finds one
TEXTS = (
    "falcon harbour", "Falcon   HARBOUR", "granite", "falcon granite 회의록", "회의록 lantern", f"lantern {_SECRET}",
    "harbour lantern",
)  # fmt: skip
SECRETS = frozenset({TEXTS[5]})
TAGS = ("red", "green", "blue")
HOUR = 3_600_000


def capture_arguments(
    key: str, text: str, purpose: str, now: int, *, begins: int = -1_000, ends: int | None = None,
    expires: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return a capture's arguments; the times are milliseconds from ``now``."""
    valid = {"t": now + begins} | ({} if ends is None else {"t_end": now + ends})
    retention = None if expires is None else {"retention": {"expires_at": instant(now + expires)}}
    made = payload(text, purpose_ref=purpose, valid_time=valid, **(retention or {}))
    made["primary_event"]["at"] = NOW
    return {"idempotency_key": key, "payload": made, "evidence": evidence()}


def normal(text: str) -> str:
    """Return the form in which forgotten content is compared."""
    return " ".join(text.casefold().split())

"""The policy ``adjudicate``, the default: a person decides every candidate."""

from __future__ import annotations

from journal.clock import Clock
from tools.host.policies.port import PolicyAnswer, PolicyRequest, answer


class Adjudicate:
    """Answers ``adjudication_required``; the decision is an event that the host makes later."""

    policy_id = "adjudicate"
    policy_version = "1"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def decide(self, request: PolicyRequest) -> PolicyAnswer:
        """Leave it to a person."""
        return answer(request, "adjudication_required", self._clock.now())

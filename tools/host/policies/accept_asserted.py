"""The policy ``accept-asserted``: what an agent asserts is accepted; the secret screen and the guard still stand."""

from __future__ import annotations

from journal.clock import Clock
from tools.host.policies.port import PolicyAnswer, PolicyRequest, answer


class AcceptAsserted:
    """Answers ``accept``."""

    policy_id = "accept-asserted"
    policy_version = "1"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def decide(self, request: PolicyRequest) -> PolicyAnswer:
        """Accept it."""
        return answer(request, "accept", self._clock.now())

"""The policies that a host file can name."""

from __future__ import annotations

from collections.abc import Callable

from journal.clock import Clock
from tools.host.policies.accept_asserted import AcceptAsserted
from tools.host.policies.adjudicate import Adjudicate
from tools.host.policies.port import Policy

_BUILT_IN: dict[str, Callable[[Clock], Policy]] = {
    Adjudicate.policy_id: Adjudicate,
    AcceptAsserted.policy_id: AcceptAsserted,
}


def policy_named(name: str, clock: Clock) -> Policy:
    """Return the built-in policy of this name; the host file has checked that there is one."""
    return _BUILT_IN[name](clock)

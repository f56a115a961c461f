"""The policies that a host file can name, made of what it says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from journal.clock import Clock
from tools.host.policies.accept_asserted import AcceptAsserted
from tools.host.policies.adjudicate import Adjudicate
from tools.host.policies.port import Policy

if TYPE_CHECKING:
    from tools.host.admission import Admission

_BUILT_IN: dict[str, Callable[[Clock], Policy]] = {
    Adjudicate.policy_id: Adjudicate,
    AcceptAsserted.policy_id: AcceptAsserted,
}


def policy_named(name: str, clock: Clock) -> Policy:
    """Return the built-in policy of this name, one that needs to know no more."""
    return _BUILT_IN[name](clock)


def policy_of(admission: Admission, clock: Clock, environ: Mapping[str, str] = os.environ) -> Policy:
    """Return the policy that a host file names; nobody is asked and nothing is started. What it says was checked.

    Args:
        admission: what the host file says.
        clock: of the policies in this process.
        environ: of which a command gets a few names, and in which a service's token may stand.
    """
    if admission.policy == "command":
        from tools.host.policies.by_command import CommandPolicy

        return CommandPolicy(
            admission.command, admission.policy_id, admission.policy_version,
            timeout_seconds=admission.timeout_seconds, environ=environ,
        )  # fmt: skip
    if admission.policy == "http":
        from tools.host.policies.over_http import HttpPolicy

        assert admission.address is not None
        return HttpPolicy(
            admission.address, admission.policy_id, admission.policy_version,
            timeout_seconds=admission.timeout_seconds, bearer=admission.bearer, environ=environ,
        )  # fmt: skip
    if admission.policy == "rules":
        from tools.host.policies.by_rules import Rules

        return Rules(admission.rules, clock)
    return policy_named(admission.policy, clock)

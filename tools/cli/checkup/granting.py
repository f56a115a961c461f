"""Where only grant events grant: the scopes in which none stands, so that nobody there is listed a tool."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from journal.scope import Scope
from tools.cli.checkup.finding import Finding, note
from tools.cli.checkup.running import Check
from tools.cli.invocation import scope_words

if TYPE_CHECKING:
    from tools.host.file import HostFile

Granted = Sequence[tuple[str, str, Sequence[str]]]
"""Tenant, workspace and principals of each scope in which the host file allows somebody a tool."""


def by_events(host_file: HostFile) -> Granted | None:
    """Return who needs a grant to have a tool, and where; None where the host file grants by itself."""
    from tools.cli.bindings import places_of
    from tools.host.binding import bind
    from tools.host.principals import bind_principal

    if not host_file.grants_by_events:
        return None
    bindings = [bind(host_file), *(bind_principal(host_file, each) for each in host_file.http.principals)]
    found: dict[Scope, dict[str, None]] = {}
    for place in (place for binding in bindings for place in places_of(binding) if place.enabled):
        found.setdefault(place.scope, {})[place.principal] = None
    return [(scope.tenant_id, scope.workspace_id, list(names)) for scope, names in found.items()]


def check(subject: str, granted: Granted, standing: Callable[[], Iterable[Scope]]) -> Check:
    """Return the check that a grant stands in each scope; ``standing`` gives those in which one does."""

    def look() -> Iterator[Finding]:
        known = set(standing())
        for tenant, workspace, principals in granted:
            scope = Scope.of(tenant, workspace)
            if scope not in known:
                yield note(
                    "NO_GRANT_STANDS", f"{tenant} / {workspace}",
                    f"no tool is listed for {', '.join(principals)}: the host file grants by events alone, and none "
                    "stands",
                    f"run engram grants add --principal {shlex.quote(principals[0])} --tool all{scope_words(scope)}",
                )  # fmt: skip

    return Check("GRANTS", subject, "a grant stands wherever only events grant", look)

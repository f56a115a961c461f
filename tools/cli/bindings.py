"""Who the host file binds, and where: what the commands on authority choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from journal.scope import Scope
from tools.cli.opening import Bound, opened_engine
from tools.cli.options import config_file, tenant_name, workspace_name
from tools.host.authority import scope_of
from tools.host.binding import Binding, bind
from tools.host.file import HostFile, load_host_file, workspace_of
from tools.host.principals import bind_principal

if TYPE_CHECKING:
    from tools.memory.engine import Engine


@dataclass(frozen=True, slots=True)
class Place:
    """One principal in one scope, and what the host file allows it there at most."""

    scope: Scope
    principal: str
    tools: frozenset[str]
    enabled: bool  # host and tenant opted in, by the host file
    by_events: bool


@contextmanager
def opened_bindings(*, readonly: bool) -> Iterator[tuple[Engine, Bound]]:
    """Yield the engine and the host file under its own binding: the commands name their workspace themselves.

    Raises:
        HostFileError: the host file cannot be used. StoreUnavailable, JournalCorrupt: the store cannot be opened.
    """
    host_file = load_host_file(config_file())
    with opened_engine(readonly=readonly, command=Bound(host_file, bind(host_file, environ={}))) as opened:
        yield opened


def places(host_file: HostFile, *, everywhere: bool = False) -> list[Place]:
    """Return every principal that the host file binds, in every scope that its calls are about and that is meant.

    Args:
        host_file: the host file.
        everywhere: the host's own principal in every workspace that is listed, and not in the directory's alone.
    """
    named, tenant = workspace_name(), tenant_name()
    found: dict[tuple[Scope, str], Place] = {}
    for binding in _bindings(host_file, named, everywhere=everywhere):
        for place in places_of(binding):
            if tenant not in (None, place.scope.tenant_id) or named not in (None, place.scope.workspace_id):
                continue
            key = (place.scope, place.principal)
            known = found.get(key)
            found[key] = place if known is None else _joined(known, place)
    return list(found.values())


def scopes(found: Iterable[Place]) -> list[Scope]:
    """Return the scopes of places, each once."""
    return list(dict.fromkeys(place.scope for place in found))


def _bindings(host_file: HostFile, named: str | None, *, everywhere: bool) -> Iterator[Binding]:
    chosen = (workspace_of(host_file, Path.cwd()),) if named is None and not everywhere else host_file.workspaces
    for name in chosen:
        yield bind(host_file, workspace=name, environ={})
    for principal in host_file.http.principals:
        yield bind_principal(host_file, principal)


def places_of(binding: Binding) -> Iterator[Place]:
    """Yield the scopes that the calls of a binding are about, with the tools of each."""
    tools: dict[Scope, set[str]] = {}
    for tool in binding.granted:
        tools.setdefault(scope_of(binding, tool), set()).add(tool)
    for scope, names in tools.items():
        yield Place(scope, binding.principal, frozenset(names), binding.enabled, binding.by_events)


def _joined(one: Place, other: Place) -> Place:
    """Return the place of a principal to whom several tokens are bound there."""
    return Place(
        one.scope, one.principal, one.tools | other.tools, one.enabled or other.enabled, one.by_events
    )  # fmt: skip

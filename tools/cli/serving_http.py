"""``engram serve --transport http``: the store opened once, and a service a principal over it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from journal.scope import Scope
from tools.cli.opening import check_store, walk_told
from tools.cli.rereading import Rereading
from tools.host.binding import Binding, bind
from tools.host.exceptions import HostFileError
from tools.host.file import HostFile
from tools.host.http import exposure_flaw
from tools.host.principals import bind_principal
from tools.host.telemetry.starting import tracing_of
from tools.memory.engine import Engine
from tools.memory.service import MemoryService
from tools.memory.sweeper import Sweeper
from tools.server import logs
from tools.server.http.serving import Served, bound_socket, make_room_for_files, serve_http
from tools.server.http.tokens import verifier_of
from tools.server.service import Service
from tools.server.tracing import TCP, traced


def serve_over_http(host_file: HostFile, host: str | None, port: int | None, version: str) -> None:
    """Serve until a signal ends it.

    Args:
        host_file: the host file.
        host: the address that the command line names; None: the host file's.
        port: likewise the port.
        version: of the server, as clients are told.

    Raises:
        HostFileError: the address does not go with the host file, or a token cannot be read.
        StoreUnavailable, JournalCorrupt: the store cannot be opened, or the address cannot be taken.
    """
    http = host_file.http
    host = http.host if host is None else host
    flaw = exposure_flaw(host, has_tokens=bool(http.tokens), has_hosts=bool(http.allowed_hosts))
    if flaw is not None:
        raise HostFileError(host_file.path, *flaw)
    logs.configure()
    verifier = verifier_of(http, host_file.path)
    check_store(host_file)
    listening = bound_socket(host, http.port if port is None else port)
    bindings = [bind_principal(host_file, principal) for principal in http.principals]
    _make_room(bindings)
    _tell_unconfirmed(bindings)
    with walk_told(host_file):
        engine = Engine.open(host_file, bind(host_file, environ={}))
    engine.tracing = tracing_of(host_file.telemetry, version)
    try:
        sweeper = Sweeper(engine, bindings)
        try:
            serve = partial(_service, engine, host_file)

            def tell(bindings: Sequence[Binding]) -> None:
                sweeper.include(bindings)
                _make_room(bindings)
                _tell_unconfirmed(bindings)

            served = Served(
                http=http, verifier=verifier, services=[serve(binding) for binding in bindings],
                look=_Look(engine, engine.binding.scope), version=version,
                home=engine.binding.scope, reread=Rereading(host_file, host, serve, tell),
            )  # fmt: skip
            serve_http(served, host, listening)
        finally:
            sweeper.close()
    finally:
        engine.close()
        listening.close()


def _tell_unconfirmed(bindings: Sequence[Binding]) -> None:
    """Log who has tools whose every call is gate_failed."""
    for binding in bindings:
        if binding.never_confirmed:
            logs.warn(
                "never_confirmed", tenant=binding.scope.tenant_id, workspace=binding.scope.workspace_id,
                principal=binding.principal, tools=sorted(binding.never_confirmed),
                reason="no client over HTTP shows a form, and confirmation.channels does not name console",
            )  # fmt: skip


def _make_room(bindings: Sequence[Binding]) -> None:
    make_room_for_files(len({scope for each in bindings for scope in (each.scope, each.conversation.scope)}) + 1)


def _service(engine: Engine, host_file: HostFile, binding: Binding) -> Service:
    service = MemoryService(engine.bound_to(binding), logs_refusals=False)
    names_principal = host_file.telemetry.names_principals
    return traced(service, engine.tracing, binding, transport=TCP, names_principal=names_principal)


class _Look:
    """Reads the head of a scope: whoever can, can read the store."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine = engine
        self._scope = scope

    def __call__(self) -> None:
        self._engine.journal.store.head(self._scope)

"""Who is served: the principals and their servers, which may come and go while the process runs.

The gate reads both lists between two awaits, so that it sees one state or the next and never half of each. Each server
lives in a task of its own: what opens its sessions must also end them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.to_thread import run_sync

from journal import limits
from journal.scope import Scope
from tools.host.http import HttpPrincipal
from tools.server.envelope import Envelope
from tools.server.http.ending import Ending
from tools.server.http.endpoints import Endpoint
from tools.server.http.metering import MeteredService
from tools.server.http.metrics import Metrics
from tools.server.http.tokens import StaticTokens, TokenVerifier
from tools.server.logs import note, warn
from tools.server.service import CallContext, Remembered, Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """Who is to be served from now on."""

    principals: Sequence[HttpPrincipal]
    services: Sequence[Service | None]  # of the principals, in the same order; None: it is served as it was
    tokens: StaticTokens


Reread = Callable[[], Roll | None]
"""Looks whether there is another roll, and returns it; None: there is not. It may wait, and it logs what is wrong."""


@dataclass(frozen=True, slots=True)
class _Served:
    principal: HttpPrincipal
    service: _Own
    endpoint: Endpoint
    scope: anyio.CancelScope  # of its task


class Roster:
    """The principals that are served, and a server for each."""

    def __init__(
        self, keeping: TaskGroup, workers: ThreadPoolExecutor, metrics: Metrics, ending: Ending, version: str,
        home: Scope,
    ) -> None:  # fmt: skip
        """Begin with nobody; ``keeping`` is where the servers' tasks run, ``home`` is whose no other scope is named."""
        self._home = home
        self.principals: list[HttpPrincipal] = []
        self.endpoints: list[Endpoint] = []
        self._served: list[_Served] = []
        self._keeping = keeping
        self._workers = workers
        self._metrics = metrics
        self._ending = ending
        self._version = version

    async def take(
        self, principals: Sequence[HttpPrincipal], services: Sequence[Service | None],
        at_once: Callable[[], None] = lambda: None,
    ) -> tuple[int, int]:  # fmt: skip
        """Serve these and nobody else; return how many came, and how many went.

        Who goes has no access from here on: its sessions end, and its calls under way are told to. ``at_once`` is done
        in the same moment: no token may mean somebody else than it is of.
        """
        before = {served.principal: served for served in self._served}
        now = [
            before[principal] if service is None else await self._begin(principal, service)
            for principal, service in zip(principals, services, strict=True)
        ]
        gone = [served for served in self._served if served not in now]
        came = [served for served in now if served not in self._served]
        at_once()
        self._served = now
        self.principals[:] = [served.principal for served in now]
        self.endpoints[:] = [served.endpoint for served in now]
        for served in gone:
            served.service.leaves = True
            served.endpoint.end()
            served.scope.cancel()
        return len(came), len(gone)

    async def _begin(self, principal: HttpPrincipal, service: Service) -> _Served:
        whose = {
            "tenant": principal.tenant or self._home.tenant_id,
            "workspace": principal.workspace or self._home.workspace_id,
            "principal": principal.principal,
        }
        own = _Own(MeteredService(service, self._metrics, whose))
        endpoint = Endpoint(own, self._workers, self._ending, version=self._version, name=principal.principal)
        scope = anyio.CancelScope()
        await self._keeping.start(_keep, endpoint, scope)
        return _Served(principal, own, endpoint, scope)

    async def follow(self, reread: Reread, verifier: TokenVerifier) -> None:
        """Take each new roll that there is, as long as the task runs."""
        while True:
            await anyio.sleep(limits.HTTP_REREAD_SECONDS)
            if self._ending.draining:
                return
            try:
                roll = await run_sync(reread, abandon_on_cancel=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, who is served now is served on
                warn("principals not read again", error=type(error).__name__)
                continue
            if roll is not None:
                came, went = await self.take(roll.principals, roll.services, partial(verifier.take, roll.tokens))
                note("principals read again", principals=len(self.principals), came=came, went=went)


async def _keep(endpoint: Endpoint, scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    with scope:
        async with endpoint.open():
            task_status.started()
            await anyio.sleep_forever()


class _Own:
    """The service of one principal, over what it shares with others; it passes everything on but their end."""

    def __init__(self, service: Service) -> None:
        self.leaves = False  # it alone ends: what is shared goes on
        self._service = service

    def purposes(self) -> Sequence[str]:
        return self._service.purposes()

    def listed_tools(self) -> Sequence[str]:
        return () if self.leaves else self._service.listed_tools()

    def remembered(self, timeout_seconds: float) -> Remembered | None:
        return None if self.leaves else self._service.remembered(timeout_seconds)

    def call(self, tool_name: str, arguments: dict[str, Any], context: CallContext) -> Envelope:
        return self._service.call(tool_name, arguments, context)

    def stop(self) -> None:
        if not self.leaves:
            self._service.stop()

    def close(self) -> None:
        self._service.close()

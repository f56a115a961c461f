"""The host file read again while a server over HTTP runs: who is bound to which token, and nothing else of it.

A principal that is taken out of the file loses access at once, and one that is changed begins anew. A file that cannot
be used changes nothing; the log says what is wrong with it. Store, keys, address, issuer and policy are those of the
start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from msgspec import structs

from tools.host.exceptions import HostFileError
from tools.host.file import HostFile, load_host_file
from tools.host.http import exposure_flaw
from tools.host.principals import bind_principal
from tools.lazylog import LazyLog
from tools.server.http.roster import Roll
from tools.server.http.tokens import static_tokens_of

if TYPE_CHECKING:
    from pathlib import Path

    from tools.host.binding import Binding
    from tools.server.service import Service

_log = LazyLog()

_SECTIONS: Final = {
    "store_path": "store", "root_key": "keys", "granted": "grants", "grants_by_events": "grants",
    "packet_cap_bytes": "limits", "rates": "limits", "families": "reconciliation", "anchor": "checkpoints",
    "checkpoint_every_events": "checkpoints",
}  # fmt: skip
"""The section of what a host file says, where it has another name."""

Mark = tuple[int, int, int] | None
"""What tells whether a file is another than before: its number, its size, its time. None: it is not there."""


class Rereading:
    """Looks whether the host file or a token's file has changed, and says who is to be served then."""

    def __init__(
        self, host_file: HostFile, host: str, serve: Callable[[Binding], Service],
        tell: Callable[[Sequence[Binding]], None],
    ) -> None:  # fmt: skip
        """Begin with what is in force.

        Args:
            host_file: as it was read at the start.
            host: the address that is listened at.
            serve: makes the service of a binding.
            tell: is told of all bindings when they change.
        """
        self._in_force = host_file
        self._host = host
        self._serve = serve
        self._tell = tell
        self._seen = self._marks()
        self._tokens = static_tokens_of(host_file.http, host_file.path)

    def __call__(self) -> Roll | None:
        """Return who is to be served from now on; None where nothing changed, or what changed cannot be used."""
        marks = self._marks()
        if marks == self._seen:
            return None
        self._seen = marks
        try:
            fresh = self._changed(load_host_file(self._in_force.path))
            tokens = static_tokens_of(fresh.http, fresh.path)
        except HostFileError as error:
            _log.warning("principals_not_read_again", detail=str(error))
            return None
        before = {each: bind_principal(self._in_force, each) for each in self._in_force.http.principals}
        after = {each: bind_principal(fresh, each) for each in fresh.http.principals}
        secrets_changed = {each.token for each in after if tokens.differs(self._tokens, each.token)}
        self._in_force, self._tokens = fresh, tokens
        self._seen = self._marks()  # it may name other files now
        self._tell(list(after.values()))
        return Roll(
            principals=list(after),
            services=[
                None if before.get(each) == binding and each.token not in secrets_changed else self._serve(binding)
                for each, binding in after.items()
            ],
            tokens=tokens,
        )

    def _changed(self, fresh: HostFile) -> HostFile:
        """Return what is in force with what a file that was read again may change.

        Raises:
            HostFileError: its tokens do not go with the address that is listened at.
        """
        started = self._in_force
        http = replace(started.http, tokens=fresh.http.tokens, principals=fresh.http.principals)
        flaw = exposure_flaw(self._host, has_tokens=bool(http.tokens), has_hosts=bool(http.allowed_hosts))
        if flaw is not None:
            raise HostFileError(fresh.path, *flaw)
        opted = {"enabled": fresh.host.enabled, "tenant_enabled": fresh.host.tenant_enabled}
        changed = replace(
            started, http=http, host=structs.replace(started.host, **opted), granted=fresh.granted,
            purposes=fresh.purposes, workspaces=fresh.workspaces,
        )  # fmt: skip
        if changed != fresh:
            sections = sorted(_sections_apart(changed, fresh))
            _log.warning("host_file_changed", sections=sections, reason="they are in force at the next start")
        return changed

    def _marks(self) -> list[Mark]:
        files = [self._in_force.path, *(token.file for token in self._in_force.http.tokens if token.file is not None)]
        return [_mark(file) for file in files]


def _sections_apart(one: HostFile, other: HostFile) -> set[str]:
    """Return the sections of which two host files say something else."""
    names = [each.name for each in fields(HostFile)]
    return {_SECTIONS.get(name, name) for name in names if getattr(one, name) != getattr(other, name)}


def _mark(file: Path) -> Mark:
    try:
        found = os.stat(file)  # noqa: PTH116 - the fields are what is wanted
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns

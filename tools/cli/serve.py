"""``engram serve``: the MCP server."""

from __future__ import annotations

from pathlib import Path

import click

from tools.cli.options import config_file, config_option
from tools.host.binding import Binding, bind
from tools.host.file import HostFile, load_host_file
from tools.server import logs
from tools.server.opening import OpeningService
from tools.server.service import Service
from tools.server.start import serve_stdio


class _HostListing:
    """What the host file says before any store is open (tools.server.service.Listing)."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding

    def purposes(self) -> tuple[str, ...]:
        """Return the purposes that the host bound."""
        return self._binding.purpose_refs

    def listed_tools(self) -> tuple[str, ...]:
        """Return the tools that are granted, served and enabled."""
        return self._binding.listed_tools


def _open(host_file: HostFile, binding: Binding) -> Service:
    # Imported here: the store, its keys and numpy would cost the first tools/list a fifth of a second.
    from tools.memory.engine import Engine
    from tools.memory.erasure import Sweeper
    from tools.memory.service import MemoryService

    logs.configure()
    engine = Engine.open(host_file, binding)
    return MemoryService(engine, Sweeper(engine))


@click.command("serve")
@config_option
@click.option(
    "--transport", type=click.Choice(["stdio"]), default="stdio", show_default=True, help="How clients connect."
)
def command(transport: str) -> None:
    """Serve the granted tools over MCP, to one client, until it closes its end."""
    del transport  # stdio is the only one yet; the option is there because scripts name it
    host_file = load_host_file(config_file())
    binding = bind(host_file, Path.cwd())
    listing = _HostListing(binding)
    serve_stdio(OpeningService(listing, lambda: _open(host_file, binding)), version=_version())


def _version() -> str:
    from importlib.metadata import version

    return version("engram-journal")

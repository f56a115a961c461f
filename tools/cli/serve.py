"""``engram serve``: the MCP server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from journal.errors import EngramError
from tools.cli.options import config_file, config_option
from tools.damage import DAMAGED, DO
from tools.host import environment
from tools.host.binding import Binding, bind
from tools.host.capabilities import MEMORY_STARTUP
from tools.host.exceptions import HostFileError
from tools.host.file import HostFile, load_host_file
from tools.host.telemetry.starting import tracing_of
from tools.server import logs
from tools.server.instructions import CONVERSATION_TOOLS
from tools.server.opening import OpeningService
from tools.server.service import Service
from tools.server.start import serve_stdio
from tools.server.tracing import PIPE, traced


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

    def remembered(self, timeout_seconds: float) -> None:
        """Return nothing: what is remembered lies in the store."""
        del timeout_seconds


class _Opening:
    """Opens what is served, and tells the operator where it cannot be opened: once of each kind."""

    def __init__(self, host_file: HostFile, binding: Binding) -> None:
        self._host_file = host_file
        self._binding = binding
        self._told: set[tuple[str, str]] = set()

    def look(self) -> None:
        """Look whether there is a store, before any client asks: that is the likeliest fault, and soon seen."""
        try:
            is_there = (self._host_file.store_path / "store.toml").exists()
        except OSError:
            is_there = False  # the check says why, if it is so still
        if not is_there:
            try:
                self._check()
            except EngramError as error:
                self.tell(error)

    @staticmethod
    def import_what_it_needs() -> None:
        """Import what an opening imports."""
        import tools.memory.engine
        import tools.memory.service
        import tools.memory.sweeper  # noqa: F401 - importing is all that is wanted

    def __call__(self) -> Service:
        """Return the service (tools.server.opening.ServiceFactory)."""
        # Imported here: the store, its keys and numpy would cost the first tools/list a fifth of a second.
        from tools.cli.opening import walk_told
        from tools.memory.engine import Engine
        from tools.memory.service import MemoryService
        from tools.memory.sweeper import Sweeper

        logs.configure()
        self._check()
        with walk_told(self._host_file):
            engine = Engine.open(self._host_file, self._binding)
        engine.tracing = tracing_of(self._host_file.telemetry, _version())
        service = MemoryService(engine, Sweeper(engine))
        names_principal = self._host_file.telemetry.names_principals
        return traced(service, engine.tracing, engine.binding, transport=PIPE, names_principal=names_principal)

    def _check(self) -> None:
        from tools.cli.opening import check_store

        check_store(self._host_file)

    def tell(self, error: Exception) -> None:
        """Log why it cannot be opened, and what to do about it where it is damaged."""
        kind = (type(error).__name__, error.detail if isinstance(error, EngramError) else "")
        if kind in self._told:
            return
        self._told.add(kind)
        import structlog

        logs.configure()
        # The words of an exception that is not the contract's may quote what nobody should read.
        facts: dict[str, str | None] = {"error": type(error).__name__}
        if isinstance(error, EngramError):
            facts = {"do": DO} if isinstance(error, DAMAGED) else {}
            facts |= {"error": error.code, "detail": error.detail}
        structlog.get_logger().error("store cannot be opened", **facts)


@click.command("serve")
@config_option
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="How clients connect: one over stdin and stdout, or many over HTTP.",
)
@click.option("--host", metavar="HOST", help="Of http: the address to listen at; else the host file's.")
@click.option("--port", metavar="PORT", type=click.IntRange(0, 65_535), help="Of http: the port; 0 takes a free one.")
def command(transport: str, host: str | None, port: int | None) -> None:
    """Serve the granted tools over MCP: to one client, until it closes its end, or over HTTP to all that are bound."""
    if transport == "stdio" and (host, port) != (None, None):
        raise click.UsageError("--host and --port are of --transport http")
    host_file = load_host_file(config_file())
    if transport == "http":
        from tools.cli.serving_http import serve_over_http  # which imports a web server

        _heed_environment(host_file)
        serve_over_http(host_file, host, port, _version())
    else:
        _serve_over_stdio(host_file)


def _serve_over_stdio(host_file: HostFile) -> None:
    binding = bind(host_file, Path.cwd())
    if not CONVERSATION_TOOLS.isdisjoint(binding.listed_tools):
        _heed_environment(host_file)
    opening = _Opening(host_file, binding)
    opening.look()
    if sys.stdin.isatty():
        _greet()
    service = OpeningService(_HostListing(binding), opening, list_once_open=binding.by_events, tell=opening.tell)

    def open_ahead() -> None:
        """Have the store open when the client is greeted: the greeting carries what is remembered."""
        if MEMORY_STARTUP in binding.listed_tools:
            opening.import_what_it_needs()
            service.open_ahead()

    serve_stdio(service, version=_version(), elicited=binding.elicited, ahead=open_ahead)


def _heed_environment(host_file: HostFile) -> None:
    """Refuse an environment that asks for another store, and tell what else of it nobody listens to.

    Raises:
        HostFileError: names of the environment say where messages are to be kept.
    """
    if names := environment.store_names(os.environ):
        raise HostFileError(
            host_file.path,
            "store.url",
            f"is how a database server is named, and this release has none yet, but {', '.join(names)} of the "
            "environment would name one",
            f"messages are kept at store.path: take those names out of this server's environment "
            f"(env -u {' -u '.join(names)} ...)",
        )
    for name in environment.ignored(os.environ):
        logs.warn("environment ignored", name=name, reason="a caller says itself what it is")
    for name in environment.read(os.environ).unread:
        logs.warn("environment ignored", name=name, reason="its value cannot be read")


def _greet() -> None:
    """Tell a person at a terminal what this is: they will type something, and it is no MCP."""
    from tools.cli.invocation import word

    click.echo(f"engram: waiting for an MCP client on stdin; to set one up see {word()} connect --help", err=True)


def _version() -> str:
    from importlib.metadata import version

    return version("engram-journal")

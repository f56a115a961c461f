"""Opening what a command works on, and closing it again however the command ends.

A command that only looks opens the journal for reading: it works beside a live server, on a copy, and where nothing may
be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal.scope import Scope
from tools.cli.options import config_file, tenant_name, workspace_name
from tools.cli.tenancy import bind_place
from tools.host.binding import Binding
from tools.host.file import HostFile, load_host_file

if TYPE_CHECKING:
    from journal.log import Journal
    from tools.memory.engine import Engine


@dataclass(frozen=True, slots=True)
class Bound:
    """A host file and the binding that it makes for this command."""

    host_file: HostFile
    binding: Binding

    @property
    def scope(self) -> Scope:
        """The scope that the command is about."""
        return self.binding.scope

    @property
    def operator(self) -> str:
        """Who sits at the terminal: the operating system's name of the user, for the journal."""
        return os_user_name()


def os_user_name() -> str:
    """Return the operating system's name of the user, or its number where it has none; NFC, and never empty."""
    import getpass
    import os
    import unicodedata

    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    return unicodedata.normalize("NFC", name) or f"uid-{os.getuid()}"


def bound() -> Bound:
    """Return the host file that the command line names and its binding.

    Raises:
        HostFileError: it cannot be used, or does not bind the scope.
    """
    host_file = load_host_file(config_file())
    return Bound(host_file, bind_place(host_file, tenant_name(), workspace_name()))


@contextmanager
def opened_store() -> Iterator[Journal]:
    """Yield the whole store's journal, for reading only.

    Raises:
        HostFileError: the host file cannot be used. StoreUnavailable, JournalCorrupt: the store cannot be opened.
    """
    with reading(load_host_file(config_file())) as journal:
        yield journal


@contextmanager
def opened_journal() -> Iterator[tuple[Journal, Scope]]:
    """Yield the journal, for reading only, and the scope that the command is about.

    Raises:
        HostFileError: the host file cannot be used. StoreUnavailable, JournalCorrupt: the store cannot be opened.
    """
    command = bound()
    with reading(command.host_file) as journal:
        yield journal, command.scope


def check_store(host_file: HostFile) -> None:
    """Check that the store is there; whoever has a host file made one once, and must not be told to make another.

    Raises:
        StoreUnavailable: it is not, or the system does not let it be seen.
    """
    from journal import layout
    from journal.errors import StoreUnavailable
    from journal.systemfaults import faults_told

    with faults_told():
        is_there = (host_file.store_path / layout.STORE_FILE).exists()
    if not is_there:
        raise StoreUnavailable(
            f"there is no store at {host_file.store_path}, where {host_file.path} says that it is: "
            "restore the store from a backup (docs/backup.md), or choose a new --store and --config"
        )


@contextmanager
def reading(host_file: HostFile) -> Iterator[Journal]:
    """Yield the journal of a host file, for reading only.

    Raises:
        StoreUnavailable, JournalCorrupt: the store cannot be opened.
    """
    from journal.log import Journal
    from journal.rootchange import root_key_in_force

    check_store(host_file)
    root_key = root_key_in_force(host_file.store_path, host_file.root_key)
    journal = Journal.open(host_file.store_path, root_key, readonly=True)
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def walk_told(host_file: HostFile) -> Iterator[None]:
    """Log how long an opening within took that has the journal walked, because somebody did not close it."""
    import time

    from journal import layout
    from journal.store.lmdb.markers import Markers
    from tools.server.logs import note

    marks, began = Markers(host_file.store_path / layout.JOURNAL), time.monotonic()
    is_unclean = bool(marks.killed()) or marks.crashed()
    yield
    if is_unclean:
        note("store walked after an unclean end", seconds=round(time.monotonic() - began, 1))


def _log_to_stderr(*, quiet: bool) -> None:
    """Keep stdout for data; a person at a terminal is told of warnings alone, and a program of nothing."""
    import logging
    import sys

    import structlog

    rendered = structlog.processors.KeyValueRenderer(key_order=["level", "event"])
    structlog.configure(
        processors=[structlog.processors.add_log_level, rendered],
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL if quiet else logging.WARNING),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


@contextmanager
def opened_engine(
    *, readonly: bool, quiet: bool = False, command: Bound | None = None
) -> Iterator[tuple[Engine, Bound]]:
    """Yield the engine that the tools stand on, with the command's binding; with ``quiet`` nothing is logged.

    ``command``: the binding, where it is not the one that the command line names.

    Raises:
        HostFileError: the host file cannot be used. StoreUnavailable, JournalCorrupt: the store cannot be opened.
    """
    from tools.memory.engine import Engine

    _log_to_stderr(quiet=quiet)
    command = bound() if command is None else command
    check_store(command.host_file)
    engine = Engine.open(command.host_file, command.binding, readonly=readonly)
    try:
        yield engine, command
    finally:
        engine.close()

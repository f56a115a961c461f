"""What there is to check: the host file, whole or broken, and what can still be known of store and key without it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journal.rootkey import RootKeySource
from journal.scope import Scope
from tools.host import place
from tools.host.exceptions import HostFileError
from tools.host.file import HostFile, load_host_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the checks look at. What cannot be known is None."""

    named: Path | None  # what --config named
    environ: Mapping[str, str]
    directory: Path  # the working directory
    path: Path | None = None  # the host file in force
    host_file: HostFile | None = None  # whole
    refusal: HostFileError | None = None  # why it is not
    store: Path | None = None
    root_key: RootKeySource | None = None
    scope: Scope | None = None  # the host's own


def situation(named: Path | None, environ: Mapping[str, str] = os.environ) -> Situation:
    """Return what there is to check; never raises for what the host file says."""
    directory = Path.cwd()
    try:
        path = place.locate(named, environ)
    except HostFileError as error:
        return Situation(named=named, environ=environ, directory=directory, refusal=error)
    try:
        host_file = load_host_file(path, environ)
    except HostFileError as error:
        store, root_key = _loosely(path)
        return Situation(
            named=named, environ=environ, directory=directory, path=path, refusal=error, store=store,
            root_key=root_key,
        )  # fmt: skip
    return Situation(
        named=named, environ=environ, directory=directory, path=path, host_file=host_file, store=host_file.store_path,
        root_key=host_file.root_key, scope=Scope.of(host_file.host.tenant, host_file.host.workspace),
    )  # fmt: skip


def _loosely(path: Path) -> tuple[Path | None, RootKeySource | None]:
    """Return the store and the key file that a broken host file names, if it can be read at all.

    Never a key command: a file that is refused is not to be trusted with one.
    """
    document: dict[str, Any] = {}
    with suppress(HostFileError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        document = tomllib.loads(place.read(path).content.decode())
    store = _text(document, "store", "path")
    key = _text(document, "keys", "root", "file")
    return (
        None if store is None else _absolute(path, store),
        None if key is None else RootKeySource("file", (str(_absolute(path, key)),)),
    )


def _text(document: Any, *keys: str) -> str | None:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, str) and document and "\0" not in document else None


def _absolute(path: Path, text: str) -> Path:
    expanded = Path(text)
    with suppress(RuntimeError):  # no home
        expanded = expanded.expanduser()
    return Path(os.path.normpath(path.parent / expanded))

"""The machine and the installation: Python, the libraries, the LMDB engine, core dumps, the umask."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from journal.extras import DISTRIBUTION, pip_install
from tools.cli.checkup.finding import Finding, fault, note, warning

PYTHON_MIN = (3, 11)
LMDB_ENGINE = (0, 9)  # the engine that the crash suite holds to
_WRITABLE_BY_OTHERS = 0o022
_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?P<bounds>[^;]*)$")
_BOUND = re.compile(r"^(?P<how>>=|<)(?P<version>[0-9.]+)$")


def python() -> Iterator[Finding]:
    """Yield what is wrong with the interpreter."""
    running = ".".join(str(part) for part in sys.version_info[:3])
    if tuple(sys.version_info[:2]) < PYTHON_MIN:
        mend = f"install Python {'.'.join(str(part) for part in PYTHON_MIN)} or newer"
        yield fault("PYTHON_TOO_OLD", sys.executable, f"Python {running} is too old", mend)
    if sys.maxsize < 2**32:
        yield fault(
            "PYTHON_NOT_64_BIT", sys.executable, "this Python has 32 bits and cannot map a store",
            "install a 64-bit Python",
        )  # fmt: skip


def libraries() -> Iterator[Finding]:
    """Yield the libraries that are missing or not of the versions that the distribution asks for."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield note(
            "NOT_INSTALLED", DISTRIBUTION, "the distribution is not installed, so its libraries cannot be compared",
            f"install it from its source folder, or run {pip_install(DISTRIBUTION)}",
        )  # fmt: skip
        return
    for requirement in required:
        parsed = _REQUIREMENT.match(requirement)
        if parsed is None or ";" in requirement:
            continue  # an extra: wanted only where it was asked for
        name, bounds = parsed["name"], parsed["bounds"].strip()
        mend = f"run {pip_install(name + bounds)}"
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield fault("LIBRARY_MISSING", name, "is not installed", mend)
            continue
        if not _fits(version, bounds):
            yield warning("LIBRARY_OTHER_VERSION", name, f"is {version}, and {bounds} is asked for", mend)


def _fits(version: str, bounds: str) -> bool:
    found = _numbers(version)
    for bound in filter(None, (each.strip() for each in bounds.split(","))):
        parsed = _BOUND.match(bound)
        if parsed is None:
            continue  # a form that this distribution does not use
        wanted = _numbers(parsed["version"])
        if (found < wanted) if parsed["how"] == ">=" else (found >= wanted):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, trailing zeros left out, so that 1.0 and 1 are equal."""
    leading = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def engine() -> Iterator[Finding]:
    """Yield what is wrong with the LMDB engine."""
    import lmdb

    version = lmdb.version()
    if tuple(version[:2]) != LMDB_ENGINE:
        stated = ".".join(str(part) for part in version)
        yield fault(
            "LMDB_ENGINE_OTHER", "lmdb", f"its default engine is {stated}, and stores are kept by 0.9",
            "install the lmdb package that this release asks for, without a system library in its place",
        )  # fmt: skip


def hygiene() -> Iterator[Finding]:
    """Yield what could let a key or a file out of the process."""
    import resource

    if resource.getrlimit(resource.RLIMIT_CORE)[0] != 0:
        yield note(
            "CORE_DUMPS_ENABLED", "RLIMIT_CORE", "a process that dies may leave its memory, keys included, on disk",
            "run ulimit -c 0 where the server is started from",
        )  # fmt: skip
    mask = os.umask(0o077)
    os.umask(mask)
    if mask & _WRITABLE_BY_OTHERS != _WRITABLE_BY_OTHERS:
        yield note(
            "UMASK_OPEN", "umask", f"new files can be written by others (umask {mask:03o})",
            "run umask 077 in the shell's start-up file",
        )  # fmt: skip

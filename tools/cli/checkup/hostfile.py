"""The host file: whether it can be used, who else could write it, whether another one disagrees, what it allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.cli.checkup.finding import Finding, fault, note, warning
from tools.cli.checkup.situation import Situation, situation
from tools.host import place
from tools.host.binding import bind
from tools.host.exceptions import HostFileError
from tools.host.file import load_host_file


def whole(look_at: Situation) -> Iterator[Finding]:
    """Yield why the host file cannot be used."""
    if look_at.refusal is None:
        return
    code = "HOST_FILE_MISSING" if look_at.path is None else "HOST_FILE_REFUSED"
    yield _refused(code, look_at.refusal)


def _refused(code: str, error: HostFileError) -> Finding:
    """Return a refusal as a finding: its sentence is the file, the key with the reason, and the mend."""
    reason, _, mend = str(error).removeprefix(f"{error.file}:").strip().partition("; ")
    return fault(code, str(error.file), reason, mend)


def permissions(look_at: Situation) -> Iterator[Finding]:
    """Yield who else could write the host file, or read it where they should not."""
    if look_at.path is None:
        return
    try:
        opened = place.read(look_at.path)
    except HostFileError:
        return  # told by ``whole``
    if opened.foreign_hands is not None:
        yield warning(
            "HOST_FILE_OPEN_TO_OTHERS", str(look_at.path), opened.foreign_hands,
            f"make it and its folder yours alone: chown and chmod go-w {look_at.path} {look_at.path.parent}",
        )  # fmt: skip


def others(look_at: Situation) -> Iterator[Finding]:
    """Yield other places of a host file that hold one which names another store or scope."""
    if look_at.path is None:
        return
    for where, other in _places(look_at):
        if other.resolve() == look_at.path.resolve():
            continue
        there = situation(other, look_at.environ)
        mend = f"keep one of the two, or name the wanted one with --config; in force is {look_at.path}"
        if there.store is not None and look_at.store is not None and there.store.resolve() != look_at.store.resolve():
            yield warning(
                "TWO_STORES", str(other), f"the host file {where} names another store, {there.store}", mend
            )  # fmt: skip
        elif there.scope != look_at.scope:
            yield warning("HOST_FILES_DISAGREE", str(other), f"the host file {where} names another scope", mend)
    yield from _default_store(look_at)


def _places(look_at: Situation) -> Iterator[tuple[str, Path]]:
    """Yield the host files that another command would find: $ENGRAM_CONFIG's and the user's own."""
    named = look_at.environ.get(place.ENVIRONMENT_NAME, "")
    candidates = [(f"of ${place.ENVIRONMENT_NAME}", Path(named).expanduser())] if named.startswith(("/", "~")) else []
    for where, path in [*candidates, ("in the user's configuration folder", place.default_host_file())]:
        if path.is_file():
            yield where, path


def _default_store(look_at: Situation) -> Iterator[Finding]:
    import platformdirs

    from journal import layout

    default = platformdirs.user_data_path("engram") / "store"
    if look_at.store is None or not (default / layout.STORE_FILE).is_file():
        return
    if default.resolve() != look_at.store.resolve():
        yield note(
            "TWO_STORES", str(default), f"a second store stands in the user's data folder; in force is {look_at.store}",
            "if nothing uses it any more, back it up and remove it; else name its host file with --config",
        )  # fmt: skip


def allowed(look_at: Situation) -> Iterator[Finding]:
    """Yield what the host file does not allow, so that an agent sees less than the person may expect."""
    host_file = look_at.host_file
    if host_file is None:
        return
    subject = str(host_file.path)
    for opted_in, key in (
        (host_file.host.enabled, "host.enabled"),
        (host_file.host.tenant_enabled, "host.tenant_enabled"),
    ):
        if not opted_in:
            yield warning("MEMORY_OFF", subject, f"{key} is false, so that no tool is listed", f"set {key} = true")
    if not host_file.granted:
        yield warning("NO_GRANTS", subject, "no tool is granted, so that none is listed", "name tools in grants.tools")
    elif not bind(host_file).listed_tools and host_file.host.enabled and host_file.host.tenant_enabled:
        yield warning(
            "NO_GRANTS", subject, "none of the granted tools is served by this release",
            "grant engram_memory_search and engram_memory_capture in grants.tools",
        )  # fmt: skip
    if not host_file.confirmation.channels:
        yield note(
            "NO_CONFIRMATION_CHANNEL", subject, "withdraw and forget always fail, for nobody could approve them",
            'set confirmation.channels = ["console"]',
        )  # fmt: skip


def scope_file(look_at: Situation) -> Iterator[Finding]:
    """Yield why ``.engram-scope`` in the working directory cannot be used."""
    if look_at.host_file is None:
        return
    try:
        bind(load_host_file(look_at.host_file.path, look_at.environ), look_at.directory)
    except HostFileError as error:
        yield _refused("SCOPE_FILE_REFUSED", error)

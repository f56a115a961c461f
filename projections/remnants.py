"""What was deleted and is still open somewhere: the bytes of an unlinked file live as long as anybody has it open.

Locks do not tell it. A generation whose directory was deleted by hand can no longer be found at its place, and a place
of one's own (``projections.aside``) locks a directory that may be deleted too. Linux says in ``/proc`` what every
process of the same user has open; elsewhere, and of processes that look at the store by another path, nothing is known.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")
_DELETED = " (deleted)"


def deleted_but_open(directory: Path, processes: Path = _PROCESSES) -> list[str]:
    """Return what was deleted at or under a directory and is open in some process, relative to it, each once, in order.

    The directory itself is ".". Processes of other users cannot be looked into; they cannot open a store of ours.
    """
    place = os.path.realpath(directory)
    found = set()
    for process in _numbered(processes):
        for target in _open_in(process):
            if target.endswith(_DELETED):
                path = target.removesuffix(_DELETED)
                if path == place or path.startswith(place + os.sep):
                    found.add(os.path.relpath(path, place))
    return sorted(found)


def _numbered(processes: Path) -> list[Path]:
    try:
        return [process for process in processes.iterdir() if process.name.isdigit()]
    except OSError:
        return []


def _open_in(process: Path) -> list[str]:
    """Return the paths that a process has open, as the kernel names them; none of one that ended or is not ours."""
    targets = []
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                targets.append(str(descriptor.readlink()))
    return targets

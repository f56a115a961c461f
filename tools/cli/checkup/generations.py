"""A scope's projections on disk, looked at without a key: which generation is in force, and what it stands for."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import lmdb
import msgspec

from journal import layout, limits
from journal.errors import EngramError
from journal.foreign import UNREADABLE
from journal.frames import GENESIS, frame_hash
from journal.scope import Scope
from journal.store.lmdb.view import LmdbView
from projections import environment, marks
from projections.current import Current
from projections.generation import FORMAT, Meta
from projections.inforce import CURRENT
from projections.lexical.projection import LexicalProjection
from projections.messages.projection import MessagesProjection
from projections.port import META
from projections.profile import Profile
from projections.tags import Tags
from projections.timeline import Timeline
from tools.cli.checkup import reading
from tools.cli.checkup.finding import Finding, note, warning
from tools.cli.checkup.locks import Holder, holders

OpenView = Callable[[Scope], AbstractContextManager[LmdbView]]

SERVED = {kind.name: kind.version for kind in (Current, LexicalProjection, Timeline, MessagesProjection, Tags, Profile)}
_NUMBER = re.compile(r"[0-9]{8}")
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.05
_UNCLEAN = "PROJECTION_UNCLEAN"


class Standing(Enum):
    """How a projection stands on disk."""

    ABSENT = "absent"  # nobody asked for it yet, or projections/ was deleted
    OUT_OF_FORCE = "out of force"
    IN_FORCE = "in force"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Found:
    """What a projection's folder holds."""

    name: str
    path: Path
    standing: Standing
    number: str | None = None  # of the generation in force
    meta: Meta | None = None
    trusted: bool = True
    replaced: tuple[str, ...] = ()
    being_built: tuple[str, ...] = ()


def found(store: Path, scope: Scope, name: str) -> Found:
    """Look at a projection's folder; look again where what is broken may only be busy with a switch."""
    path = store / layout.PROJECTIONS / scope.tag.hex() / name
    looked = _found(path, name)
    for _ in range(_ATTEMPTS):
        if looked.standing is not Standing.BROKEN and _stated(path) == looked.number:
            break
        time.sleep(_PAUSE_SECONDS)
        looked = _found(path, name)
    return looked


def _found(path: Path, name: str) -> Found:
    numbers = numbers_in(path)
    number = _stated(path)
    if number is None:
        standing = Standing.OUT_OF_FORCE if (path / CURRENT).exists() else Standing.ABSENT
        return Found(name, path, standing, replaced=numbers)
    replaced = tuple(each for each in numbers if each < number)
    being_built = tuple(each for each in numbers if each > number)
    meta = None
    with suppress(OSError, EngramError, lmdb.Error, *UNREADABLE):
        meta = None if marks.changed(path / number) else _meta(path / number)  # such bytes are not to be mapped
    standing = Standing.BROKEN if meta is None else Standing.IN_FORCE
    trusted = meta is None or marks.trusted(path / number)
    return Found(name, path, standing, number, meta, trusted, replaced, being_built)


def numbers_in(path: Path) -> tuple[str, ...]:
    """Return the numbers of the generations in a projection's folder, in order."""
    with suppress(OSError):
        return tuple(sorted(entry.name for entry in path.iterdir() if _NUMBER.fullmatch(entry.name)))
    return ()


def _stated(path: Path) -> str | None:
    with suppress(OSError):
        text = (path / CURRENT).read_text(encoding="ascii", errors="replace").removesuffix("\n")
        return text if _NUMBER.fullmatch(text) else None
    return None


def _meta(directory: Path) -> Meta | None:
    # The generation's shared lock, as everybody takes it who opens one: it is not removed under our hands.
    with (directory / environment.DATA).open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        size_bytes = max(limits.PROJECTION_MAP_SIZE_BYTES, os.fstat(file.fileno()).st_size)
        with (
            reading.opened(directory, max_dbs=limits.PROJECTION_TABLES_MAX, map_size_bytes=size_bytes) as env,
            env.begin() as txn,
        ):
            raw = txn.get(META, db=env.open_db(META, txn=txn, create=False))
            return None if raw is None else msgspec.msgpack.decode(raw, type=Meta)


def holders_of_replaced(store: Path, scope: Scope) -> list[Holder]:
    """Return the processes that keep generations open which are to be removed, by their numbers."""
    held: dict[int, Holder] = {}
    for name in SERVED:
        looked = found(store, scope, name)
        for number in looked.replaced:
            held.update((each.pid, each) for each in holders(looked.path / number / environment.DATA))
    return [held[pid] for pid in sorted(held)]


# --- the check -----------------------------------------------------------------------------------


def projections(store: Path, scope: Scope, view_of: OpenView) -> Iterator[Finding]:
    """Yield what is wrong with a scope's projections. None of it loses anything: they are rebuilt from the journal."""
    unclean: list[Finding] = []
    for each in _each(store, scope, view_of):
        if each.code == _UNCLEAN:
            unclean.append(each)
        else:
            yield each
    if len(unclean) == 1:
        yield unclean[0]
    elif unclean:  # a copy has all of them so: one cause, one mend
        names = ", ".join(each.subject.split()[0] for each in unclean)
        yield note(
            _UNCLEAN, f"{names} of {scope.tenant_id} / {scope.workspace_id}",
            "were not closed before the machine went down, or are copies",
            "search once, or run engram projections rebuild --all",
        )  # fmt: skip


def _each(store: Path, scope: Scope, view_of: OpenView) -> Iterator[Finding]:
    for name, version in SERVED.items():
        looked = found(store, scope, name)
        subject = f"{name} of {scope.tenant_id} / {scope.workspace_id}"
        rebuild = f"run engram projections rebuild {name}"
        if looked.standing is Standing.OUT_OF_FORCE:
            yield note("PROJECTION_OUT_OF_FORCE", subject, "was taken out of force", f"search once, or {rebuild}")
        elif looked.standing is Standing.BROKEN:
            yield warning(
                "PROJECTION_BROKEN", subject, f"its generation {looked.number} is changed or unreadable", rebuild
            )
        elif looked.meta is not None:
            yield from _in_force(looked, looked.meta, version, subject, scope, view_of)
        yield from _left_over(looked, subject)


def _in_force(
    looked: Found, meta: Meta, version: int, subject: str, scope: Scope, view_of: OpenView
) -> Iterator[Finding]:
    rebuild = f"run engram projections rebuild {looked.name}"
    if meta.format > FORMAT or meta.version > version:
        yield warning(
            "PROJECTION_NEWER", subject, "a newer release wrote it", "restart this one with the newer release"
        )
    elif (meta.format, meta.version) != (FORMAT, version):
        yield note("PROJECTION_OLD", subject, f"is of version {meta.version}, this release serves {version}", rebuild)
    elif (meta.name, meta.scope) != (looked.name, scope):
        yield warning("PROJECTION_FOREIGN", subject, "is another projection's or another scope's", rebuild)
    elif not looked.trusted:
        yield note(
            _UNCLEAN, subject, "was not closed before the machine went down, or is a copy",
            f"search once, or {rebuild}",
        )  # fmt: skip
    else:
        yield from _position(meta, subject, rebuild, scope, view_of)


def _position(meta: Meta, subject: str, rebuild: str, scope: Scope, view_of: OpenView) -> Iterator[Finding]:
    with view_of(scope) as view:
        head = view.head.cursor
        event = view.event(meta.cursor) if meta.cursor else None
        known = GENESIS if meta.cursor == 0 else None if event is None else frame_hash(event.frame)
    behind = head - meta.cursor
    if known != meta.head_hash:
        yield warning("PROJECTION_FOREIGN", subject, "was folded from another journal, or one rolled back", rebuild)
    elif behind > limits.OVERLAY_MAX_EVENTS:
        yield note(
            "PROJECTION_BEHIND", subject, f"is {behind} events behind the head, so that the next search waits for it",
            rebuild,
        )  # fmt: skip


def _left_over(looked: Found, subject: str) -> Iterator[Finding]:
    if looked.standing is not Standing.IN_FORCE:
        return
    for number in looked.replaced:
        held = holders(looked.path / number / environment.DATA)
        if not (looked.path / number).exists():
            continue  # removed meanwhile
        by = f", held by {', '.join(holder.told() for holder in held)}" if held else ""
        yield note(
            "GENERATION_LEFT_OVER", subject, f"the replaced generation {number} is still there{by}",
            "end or restart the processes named here" if held else "engram serve removes it, as the next rebuild does",
        )  # fmt: skip
    for number in looked.being_built:
        if _is_abandoned(looked, number):
            yield note(
                "GENERATION_HALF_BUILT", subject, f"the rebuild of generation {number} was broken off",
                f"run engram projections rebuild {looked.name} to finish it",
            )  # fmt: skip


def _is_abandoned(looked: Found, number: str) -> bool:
    """Whether nobody has a generation open that is being built; looked at twice, for one may be making it just now."""
    data = looked.path / number / environment.DATA
    for _ in range(2):
        if holders(data) or not data.exists() or _stated(looked.path) != looked.number:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True

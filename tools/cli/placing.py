"""Writing a file so that it is whole or not there: beside its place first, then put in it."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tools.cli.failures import CannotRun, Refused


def check_place(path: Path, *, force: bool) -> None:
    """Check early that a file may be written in a place.

    Raises:
        Refused: something is there, and ``force`` is not given. CannotRun: it is no file that could be replaced, or its
        folder is not there.
    """
    if not path.parent.is_dir():
        raise CannotRun(f"{path.parent}: no such folder")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise CannotRun(f"{path}: is there, and no regular file")
    if not force:
        raise Refused(f"{path}: is there already; --force replaces it")


@contextmanager
def put_in_place(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Yield a file that only its user can read, and put it in its place if all goes well; else nothing is left of it.

    Raises:
        Refused: something came to stand there meanwhile, and ``force`` is not given. OSError: it cannot be written.
    """
    check_place(path, force=force)
    draft = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            draft.replace(path)
        else:
            _link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _flush_directory(path.parent)


def _link(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)  # unlike rename, link never replaces
    except FileExistsError:
        raise Refused(f"{path}: is there already; --force replaces it") from None
    except OSError:  # a file system without links
        check_place(path, force=False)
        draft.rename(path)


def _flush_directory(path: Path) -> None:
    """Make a new name durable, where the file system can."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

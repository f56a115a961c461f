"""Where checkpoints are kept: in the store, and again outside it, where who rolls the store back does not reach.

    <store>/checkpoints/<scope tag>/                       in the store
    <anchor>/<scope tag>/<fingerprint of the public key>/  outside it
    <anchor>/<scope tag>/<fingerprint>.until-<instant>/    of a history that a restore gave up
        <size, 20 digits>      a signed note
        key.pub                the public key as a vkey text and a line end
        store.<store id>       outside the store only, empty: a store that signed here; so that it is known to be missed

A note is written once and never replaced: two different ones of one size would be two histories.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from journal import limits
from journal.checkpoints import Checkpoint, verified
from journal.errors import EngramError, InvalidDigest, JournalCorrupt, StoreUnavailable
from journal.notes import PublicKey
from journal.rootkey import flush_directory

KEY_FILE = "key.pub"
_SIGNER = "store."
_ASIDE = ".until-"
_DIGITS = 20
_TAG = re.compile(r"[0-9a-f]{32}")
_ASIDE_MAX = 100  # of one instant


class CheckpointFolder:
    """The checkpoints of one scope in one place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sizes(self) -> list[int]:
        """Return the sizes of which there is a note, in order.

        Raises:
            StoreUnavailable: the folder cannot be read.
        """
        try:
            names = [each.name for each in self.path.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be read: {error.strerror}") from error
        return sorted(int(name) for name in names if len(name) == _DIGITS and name.isascii() and name.isdigit())

    def note(self, size: int) -> bytes:
        """Return the note of a size.

        Raises:
            StoreUnavailable: it is not there or cannot be read.
        """
        return read_file(self._place(size))

    def checkpoint(self, size: int, key: PublicKey) -> Checkpoint:
        """Return the verified checkpoint of a size.

        Raises:
            InvalidDigest: it is not signed by this key, or of another size. StoreUnavailable: it cannot be read.
        """
        checkpoint = verified(self.note(size), key)
        if checkpoint.size != size:
            raise InvalidDigest("a checkpoint under the name of another size")
        return checkpoint

    def key(self) -> PublicKey | None:
        """Return the public key that stands beside the checkpoints, None where there is none that can be read."""
        with suppress(EngramError, UnicodeDecodeError):
            return PublicKey.parse(read_file(self.path / KEY_FILE).decode())
        return None

    def keep(self, key: PublicKey, size: int, note: bytes) -> None:
        """Put a note and the key that signed it in their places, durably.

        Raises:
            JournalCorrupt: another note of this size is there. StoreUnavailable: the place cannot be written.
        """
        try:
            for folder in reversed([each for each in (self.path, *self.path.parents) if not each.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)  # each by itself: "parents" would leave those open to others
                flush_directory(folder.parent)
            if not (self.path / KEY_FILE).exists():
                place_file(self.path / KEY_FILE, f"{key.text()}\n".encode(), replace=False)
            if not place_file(self._place(size), note, replace=False) and self.note(size) != note:
                raise JournalCorrupt(f"another checkpoint of size {size} was signed before: there are two histories")
        except InvalidDigest as error:
            raise StoreUnavailable(f"{self.path}: what stands in the place of {size} is no checkpoint") from error
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be written: {error.strerror}") from error

    def sign_in(self, store: str) -> None:
        """Note the id of a store that keeps its checkpoints here.

        Raises:
            StoreUnavailable: the place cannot be written.
        """
        try:
            place_file(self.path / f"{_SIGNER}{store}", b"", replace=False)
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be written: {error.strerror}") from error

    def signers(self) -> list[str]:
        """Return the ids of the stores that keep their checkpoints here; none where an older release wrote them."""
        with suppress(OSError):
            return sorted(each.name.removeprefix(_SIGNER) for each in self.path.glob(f"{_SIGNER}*"))
        return []

    def _place(self, size: int) -> Path:
        return self.path / f"{size:0{_DIGITS}d}"


@dataclass(frozen=True, slots=True)
class Held:
    """One key's folder in an anchor, of a history that no restore gave up."""

    tag: str  # of the scope, hex
    fingerprint: str
    folder: CheckpointFolder


class Anchor:
    """The place outside the store: one folder for each key, so that stores with the same scopes do not meet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, key: PublicKey) -> CheckpointFolder:
        """Return the place of a key's checkpoints; the key's name is the scope's origin."""
        return CheckpointFolder(self.path / key.name.rpartition("/")[2] / key.fingerprint)

    def keys(self, tag: bytes) -> list[PublicKey]:
        """Return the public keys of which there are checkpoints of a scope."""
        with suppress(OSError):
            folders = sorted((self.path / tag.hex()).iterdir())
            found = [(folder.name, CheckpointFolder(folder).key()) for folder in folders]
            origin = f"engram/{tag.hex()}"
            return [key for name, key in found if key is not None and (key.name, key.fingerprint) == (origin, name)]
        return []

    def held(self) -> list[Held]:
        """Return every key's folder, of every scope and store, without those that were set aside.

        Raises:
            StoreUnavailable: a folder cannot be read.
        """
        scopes = [each for each in _folders(self.path) if _TAG.fullmatch(each.name)]
        return [
            Held(scope.name, key.name, CheckpointFolder(key))
            for scope in scopes
            for key in _folders(scope)
            if _ASIDE not in key.name
        ]

    def trouble(self) -> str | None:
        """Return why nothing can be compared with this anchor, None where it can be read."""
        try:
            with os.scandir(self.path):
                return None
        except FileNotFoundError:
            return "is a link to nowhere" if self.path.is_symlink() else "is not there"
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    def set_aside(self, key: PublicKey, instant: str) -> Path:
        """Rename a key's folder: what it holds binds a history that was given up then. Return where it is now.

        Raises:
            StoreUnavailable: it cannot be renamed.
        """
        folder = self.folder(key).path
        name = f"{folder.name}{_ASIDE}{instant}"
        aside = folder.with_name(name)
        for number in range(2, _ASIDE_MAX):
            if not aside.exists():
                break
            aside = folder.with_name(f"{name}.{number}")
        try:
            folder.rename(aside)
            flush_directory(folder.parent)
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be renamed: {error.strerror}") from error
        return aside


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if each.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error


def read_file(path: Path, *, is_named: bool = False) -> bytes:
    """Return the bytes of a small file.

    Args:
        path: where it is.
        is_named: whether a person named it; it may be a pipe then. Else whoever put it there could hold up the reader.

    Raises:
        StoreUnavailable: it is not there, cannot be read, or is too long.
        InvalidDigest: it is no regular file.
    """
    try:
        with open(path, "rb", opener=_opened if is_named else _opened_at_once) as file:
            if not is_named and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidDigest("no regular file")
            raw = file.read(limits.NOTE_MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise InvalidDigest("a folder in the place of a file") from error
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > limits.NOTE_MAX_BYTES:
        raise StoreUnavailable(f"{path} is over {limits.NOTE_MAX_BYTES} bytes")
    return raw


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC)


def _opened_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)  # to open a pipe for reading waits for a writer


def place_file(path: Path, raw: bytes, *, replace: bool) -> bool:
    """Put a small file in its place, whole or not at all and durably; False where it is there and may not be replaced.

    Raises:
        OSError: the place cannot be written.
    """
    if not replace and path.exists():
        return False
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.rename(path)
        else:
            with suppress(FileExistsError):
                os.link(temporary, path)  # unlike rename, link never replaces
    finally:
        temporary.unlink(missing_ok=True)
    flush_directory(path.parent)
    return True

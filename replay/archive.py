"""The file of a backup: a tar archive of pages and a manifest, and behind its end a digest over all of it.

    scopes/<scope tag>/events/<first cursor, 20 digits>      MessagePack array of [frame, content or nil, ledger or nil]
    scopes/<scope tag>/erasures/<number, 20 digits>          MessagePack array of replay.erasures.Erasure
    scopes/<scope tag>/checkpoints/<size, 20 digits>         a signed note (journal.checkpoints)
    manifest.json                                            replay.archive.Manifest
    end of the archive (zero blocks)
    "ENGRTAIL" (8), BLAKE3 of everything before (32)

So ``tar -xOf FILE manifest.json`` shows what a file is, and no byte of it can change unseen. The digest has no
key: whoever makes a file can make it right, so that no more of tar is read than is written (replay.ustar). What makes
a file true, and not merely whole, is the signature on each scope's part of the manifest, by the key that signs its
checkpoints.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

import msgspec
from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from journal import limits
from journal.canonical import canonical_bytes
from journal.errors import BackupInvalid, RegistryVersionUnavailable, StoreUnavailable
from journal.filelock import FileLock
from journal.foreign import UNREADABLE
from journal.rootkey import flush_directory
from journal.scope import Scope
from replay import ustar

FORMAT = 1
JOURNAL, LEDGER = "journal", "ledger"
MANIFEST = "manifest.json"
_TAIL = b"ENGRTAIL"
_DIGEST_BYTES = 32
_CHUNK_BYTES = 1 << 20
_NAME = re.compile(r"scopes/[0-9a-f]{32}/(?:events|erasures|checkpoints)/[0-9]{20}", re.ASCII)
_CONTEXT = b"engram backup scope v1\0"


class Member(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A file of the archive."""

    name: str
    size_bytes: int
    blake3: str  # hex


class ScopeEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A scope's journal up to a head; hashes in hex."""

    tenant_id: str
    workspace_id: str
    head_cursor: int
    head_hash: str
    root: str  # RFC 6962, over all frames
    recorded_at: int
    slot_generation: int
    erasures: int
    members: list[Member]
    signature: str = ""  # Ed25519

    @property
    def scope(self) -> Scope:
        """The scope."""
        return Scope(self.tenant_id, self.workspace_id)


class Manifest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a file holds: ``journal`` has events and erasures, ``ledger`` erasures alone."""

    format: int
    kind: str
    store: str
    made_at: str
    scopes: list[ScopeEntry]

    def signed(self, seed_of: Callable[[Scope], bytes]) -> Manifest:
        """Return the manifest with every scope's entry signed by that scope's 32-byte signing seed."""
        entries = []
        for entry in self.scopes:
            signature = Ed25519PrivateKey.from_private_bytes(seed_of(entry.scope)).sign(self._text(entry))
            entries.append(msgspec.structs.replace(entry, signature=signature.hex()))
        return msgspec.structs.replace(self, scopes=entries)

    def check_signature(self, entry: ScopeEntry, seed: bytes) -> None:
        """Check that a scope's entry was signed by the scope's own key.

        Raises:
            BackupInvalid: it was not.
        """
        key: Ed25519PublicKey = Ed25519PrivateKey.from_private_bytes(seed).public_key()
        try:
            key.verify(bytes.fromhex(entry.signature), self._text(entry))
        except (InvalidSignature, ValueError):
            raise BackupInvalid("a scope's part is not signed by the scope's key") from None

    def _text(self, entry: ScopeEntry) -> bytes:
        unsigned = msgspec.to_builtins(msgspec.structs.replace(entry, signature=""))
        tags = [each.scope.tag.hex() for each in self.scopes]  # so that no scope can be left out
        head = {"format": self.format, "kind": self.kind, "store": self.store, "made_at": self.made_at, "tags": tags}
        return _CONTEXT + canonical_bytes({**head, "scope": unsigned})


# --- writing ----------------------------------------------------------------------------------------


class Writer:
    """An archive being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = blake3()
        self._size_bytes = 0

    def add(self, name: str, raw: bytes) -> Member:
        """Write a member."""
        for part in (ustar.header(name.encode("ascii"), len(raw)), raw, ustar.fill(len(raw))):
            self._write(part)
        return Member(name, len(raw), blake3(raw).hexdigest())

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest and the digest over everything, durably."""
        self.add(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        self._write(ustar.end(self._size_bytes))
        self._file.write(_TAIL + self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write(self, raw: bytes) -> None:
        self._file.write(raw)
        self._digest.update(raw)
        self._size_bytes += len(raw)


@contextmanager
def appearing(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Yield an unnamed place to write to, which takes its name when the block ends, whole; an error leaves nothing.

    What a killed process left of an earlier try is removed.

    Raises:
        FileExistsError: there is something at the path. OSError: it cannot be written there.
    """
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists; nothing is overwritten")
    for left in path.parent.glob(f".{escape(path.name)}.*.part"):
        with suppress(OSError):
            lock = FileLock(left, create=False)
            if lock.try_acquire():
                left.unlink()
            lock.close()
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    lock = FileLock(draft)
    try:
        lock.try_acquire()
        with draft.open("wb") as file:
            yield file, draft
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike rename, link never replaces
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error  # a write names no file
        raise
    finally:
        draft.unlink(missing_ok=True)
        lock.close()
    flush_directory(path.parent)


# --- reading ----------------------------------------------------------------------------------------


class Archive:
    """An open archive, known to be whole: every byte is what was written."""

    def __init__(self, path: Path) -> None:
        """Open a file and check it from end to end.

        Raises:
            BackupInvalid: it is no archive, or not whole. RegistryVersionUnavailable: a later release made it.
            StoreUnavailable: it cannot be read.
        """
        self._file, size_bytes = opened_regular(path)
        try:
            self._members = self._listed(_checked_tail(self._file, size_bytes))
            self.manifest = self._read_manifest()
            self._check_members()
        except BaseException:
            self.close()
            raise

    def _listed(self, size_bytes: int) -> dict[str, tuple[int, int]]:
        """Return name -> (offset, bytes) of every member; the manifest is the last."""
        found: dict[str, tuple[int, int]] = {}
        for name, offset, content_bytes in ustar.members(self._file, size_bytes):
            is_known = name == MANIFEST or _NAME.fullmatch(name) is not None
            if not is_known or name in found or MANIFEST in found or content_bytes > limits.BACKUP_MEMBER_MAX_BYTES:
                raise BackupInvalid("the archive holds something that no backup holds")
            found[name] = offset, content_bytes
        return found

    def _read_manifest(self) -> Manifest:
        place = self._members.pop(MANIFEST, None)
        if place is None or place[1] > limits.BACKUP_MANIFEST_MAX_BYTES:
            raise BackupInvalid("the archive has no manifest")
        raw = self._content(*place)
        try:
            stated = msgspec.json.decode(raw)
            if isinstance(stated, dict) and isinstance(stated.get("format"), int) and stated["format"] > FORMAT:
                raise RegistryVersionUnavailable(
                    f"the backup has format {stated['format']}; this release reads {FORMAT}: take the one that made it"
                )
            manifest = msgspec.convert(stated, Manifest)
        except UNREADABLE as error:
            raise BackupInvalid("the archive's manifest cannot be read") from error
        if manifest.format != FORMAT or manifest.kind not in (JOURNAL, LEDGER):
            raise BackupInvalid("the archive's manifest is of another kind")
        return manifest

    def _check_members(self) -> None:
        stated = [member for entry in self.manifest.scopes for member in entry.members]
        sizes = {name: content_bytes for name, (_, content_bytes) in self._members.items()}
        if len(stated) != len(sizes) or {member.name: member.size_bytes for member in stated} != sizes:
            raise BackupInvalid("the archive holds other members than its manifest says")

    def read(self, member: Member) -> bytes:
        """Return a member's bytes, checked.

        Raises:
            BackupInvalid: they are not what the manifest says.
        """
        raw = self._content(*self._members[member.name])
        if blake3(raw).hexdigest() != member.blake3:
            raise BackupInvalid(f"{member.name} is not what the manifest says")
        return raw

    def _content(self, offset: int, size_bytes: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(size_bytes)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Yield an archive; raises as ``Archive``."""
    archive = Archive(path)
    try:
        yield archive
    finally:
        archive.close()


def opened_regular(path: Path) -> tuple[IO[bytes], int]:
    """Return a regular file, open, and its bytes; never waits for a pipe, and never reads a device.

    Raises:
        BackupInvalid: it is no regular file. StoreUnavailable: it cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise BackupInvalid(f"{path} is no regular file")
    return os.fdopen(fd, "rb"), found.st_size


def _checked_tail(file: IO[bytes], size_bytes: int) -> int:
    """Check the digest at a file's end; return how many bytes stand before it."""
    archive_bytes = left = size_bytes - len(_TAIL) - _DIGEST_BYTES
    digest = blake3()
    while left > 0:
        raw = file.read(min(left, _CHUNK_BYTES))
        if not raw:
            break
        digest.update(raw)
        left -= len(raw)
    if left != 0 or file.read(len(_TAIL) + _DIGEST_BYTES + 1) != _TAIL + digest.digest():
        raise BackupInvalid("the file is no backup, or it is cut or altered")
    return archive_bytes

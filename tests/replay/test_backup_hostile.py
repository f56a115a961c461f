"""Archives that somebody made, with a digest that is right: refused in plain words, and nothing is written."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from blake3 import blake3

from journal.errors import BackupInvalid
from replay import ustar
from replay.archive import Archive, opened
from tests.replay.restores import Safe, told

TAIL_BYTES = 40


def numbered(size_bytes: int) -> bytes:
    """Return a size as GNU tar spells what octal digits cannot hold."""
    return size_bytes.to_bytes(12, "big", signed=True) if size_bytes < 0 else b"\x80" + size_bytes.to_bytes(11, "big")


def header(name: bytes, size_bytes: int, kind: bytes = b"0") -> bytes:
    """Return a tar header of any kind, with a checksum that is right."""
    raw = bytearray(ustar.header(name, 0))
    raw[124:136] = b"%011o\0" % size_bytes if 0 <= size_bytes < 8**11 else numbered(size_bytes)
    raw[148:156], raw[156:157] = b" " * 8, kind
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


def block(raw: bytes) -> bytes:
    return raw.ljust(512, b"\0")


def chained(kind: bytes, raw: bytes) -> bytes:
    return (header(b"././@LongLink", len(raw), kind) + block(raw)) * 3_000 + header(b"x", 0) + bytes(1_024)


HOSTILE = {
    "long names in a chain": chained(b"L", b"a\0"),
    "extended headers in a chain": chained(b"x", b"11 path=ab\n"),
    "a long name of a terabyte": header(b"x", 2**40, b"L") + bytes(2_048),
    "a long name without end": header(b"x", 2**62, b"L") + bytes(2_048),
    "an extended header of a terabyte": header(b"x", 2**40, b"x") + bytes(2_048),
    "a size below nothing": header(b"p", 20, b"x") + block(b"20 size=-1000000000\n") + header(b"x", 0) + bytes(1_024),
    "a member below nothing": header(b"manifest.json", -512) + bytes(2_048),
    "a manifest of a terabyte": header(b"manifest.json", 2**40) + bytes(2_048),
    "a link": header(b"manifest.json", 0, b"2") + bytes(1_024),
    "a path that leads out": header(b"../manifest.json", 0) + ustar.end(512),
    "no member": ustar.end(0),
    "nothing": b"",
    "a manifest too deep": header(b"manifest.json", 1_024) + b"[" * 1_024 + ustar.end(1_536),
    "a manifest that is no text": header(b"manifest.json", 3) + block(b'"\xff"') + ustar.end(1_024),
}


def sealed(raw: bytes) -> bytes:
    return raw + b"ENGRTAIL" + blake3(raw).digest()


@pytest.fixture
def safe(tmp_path):
    made = Safe(tmp_path)
    told(made)
    made.keys()
    made.backup()
    made.world.close()
    return made


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_archive_that_is_none_is_refused(tmp_path, raw):
    (tmp_path / "backup").write_bytes(sealed(raw))
    with pytest.raises(BackupInvalid):
        Archive(tmp_path / "backup")


def test_a_refused_archive_leaves_nothing(safe):
    for raw in HOSTILE.values():
        (safe.place / "backup").write_bytes(sealed(raw))
        before = safe.beside()
        with pytest.raises(BackupInvalid):
            safe.restore()
        assert safe.beside() == before


def test_no_byte_around_the_members_may_change(safe):
    """Headers, what fills a block, and the end: none of it is in a digest with a key, and none of it is free."""
    path = safe.place / "backup"
    whole = path.read_bytes()
    archive = whole[:-TAIL_BYTES]
    with opened(path) as read:
        inside = {at for first, size in read._members.values() for at in range(first, first + size)}
    manifest = archive.index(b"{", archive.index(b"manifest.json"))
    inside |= set(range(manifest, archive.rindex(b"}") + 1))
    around = [at for at in range(len(archive)) if at not in inside]
    assert len(around) > 2_048
    for at in [*around[:512], *around[512::23], around[-1]]:
        changed = bytearray(archive)
        changed[at] ^= 1
        path.write_bytes(sealed(bytes(changed)))
        with pytest.raises(BackupInvalid):
            Archive(path)
    for changed in (archive + bytes(512), archive + bytes(10_240), archive[:-512], archive + b"more"):
        path.write_bytes(sealed(bytes(changed)))
        with pytest.raises(BackupInvalid):
            Archive(path)


@pytest.mark.parametrize("size_bytes", [0, 1, 511, 512, 513, 10_239, 10_240])
def test_what_is_written_is_what_tar_writes(size_bytes):
    name, raw = "scopes/" + "a" * 32 + "/events/" + "1".zfill(20), b"x" * size_bytes
    by_the_book = io.BytesIO()
    with tarfile.open(fileobj=by_the_book, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        told_of = tarfile.TarInfo(name)
        told_of.size, told_of.mode = size_bytes, 0o600
        tar.addfile(told_of, io.BytesIO(raw))
    ours = ustar.header(name.encode(), size_bytes) + raw + ustar.fill(size_bytes)
    ours += ustar.end(len(ours))
    assert ours == by_the_book.getvalue()
    assert list(ustar.members(io.BytesIO(ours), len(ours))) == [(name, 512, size_bytes)]


@pytest.mark.parametrize(("name", "size_bytes"), [(b"", 0), (b"n" * 100, 0), (b"a\0b", 0), (b"n", 8**11), (b"n", -1)])
def test_what_no_header_holds_is_not_written(name, size_bytes):
    with pytest.raises(ValueError, match="no header"):
        ustar.header(name, size_bytes)


def test_only_a_regular_file_is_read(safe):
    pipe = safe.place / "pipe"
    os.mkfifo(pipe)
    for odd in (Path("/dev/zero"), Path("/dev/null"), pipe, safe.place):
        for changes in ({"backup": odd}, {"keys": odd}, {"ledgers": [odd]}):
            with pytest.raises(BackupInvalid, match="no regular file"):
                safe.restore(**changes)

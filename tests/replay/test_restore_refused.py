"""Files that are altered, cut, foreign, another's or too late: refused, and nothing stands at the target."""

from __future__ import annotations

import random

import msgspec
import pytest

from journal.errors import BackupInvalid, EngramError, RegistryVersionUnavailable, RestoreRefused
from journal.recipients import create_identity_file, load_identity
from replay.archive import MANIFEST, Archive, Manifest, Writer, opened
from tests.replay.restores import Safe, told


@pytest.fixture
def safe(tmp_path):
    made = Safe(tmp_path)
    told(made)
    made.keys()
    made.backup()
    made.backup("ledger", ledger=True)
    made.world.close()
    return made


@pytest.fixture
def other(tmp_path):
    made = Safe(tmp_path / "other")
    told(made)
    made.keys()
    made.backup()
    made.backup("ledger", ledger=True)
    made.world.close()
    return made


@pytest.fixture(scope="module")
def chance():
    return random.Random(11)


def refused(safe, error=EngramError, **changes):
    """Expect a refusal, and nothing at the target or beside it."""
    before = safe.beside()
    with pytest.raises(error) as caught:
        safe.restore(**changes)
    assert safe.beside() == before
    return caught.value


@pytest.fixture(autouse=True)
def _made(tmp_path):
    (tmp_path / "other").mkdir()


def test_the_control_is_restored(safe):
    assert safe.restore(ledgers=[safe.place / "ledger"]).lost == 0


@pytest.mark.parametrize("name", ["backup", "ledger", "keys"])
def test_altered_at_any_byte(safe, name, chance):
    path = safe.place / name
    raw = path.read_bytes()
    for at in chance.sample(range(len(raw)), 200):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ (1 << chance.randrange(8))]) + raw[at + 1 :])
        error = refused(safe, ledgers=[safe.place / "ledger"])
        assert error.code in {"BACKUP_INVALID", "RESTORE_REFUSED", "REGISTRY_VERSION_UNAVAILABLE"}
        assert error.code == "BACKUP_INVALID" or name == "keys"


@pytest.mark.parametrize("name", ["backup", "ledger", "keys"])
def test_cut_or_grown(safe, name, chance):
    path = safe.place / name
    raw = path.read_bytes()
    for size in [0, 1, len(raw) - 1, *chance.sample(range(len(raw)), 20)]:
        path.write_bytes(raw[:size])
        refused(safe, BackupInvalid, ledgers=[safe.place / "ledger"])
    for more in (b"\0", raw):
        path.write_bytes(raw + more)
        refused(safe, BackupInvalid, ledgers=[safe.place / "ledger"])


def test_files_of_another_store(safe, other):
    refused(safe, RestoreRefused, keys=other.place / "keys", identity=other.identity)
    refused(safe, RestoreRefused, backup=other.place / "backup")
    refused(safe, RestoreRefused, ledgers=[other.place / "ledger"])
    refused(safe, BackupInvalid, backup=safe.place / "ledger")
    refused(safe, BackupInvalid, backup=safe.place / "keys")
    refused(safe, BackupInvalid, keys=safe.place / "backup")
    refused(safe, BackupInvalid, ledgers=[safe.place / "identity"])
    refused(safe, backup=safe.place / "none")


def test_another_recipient(safe, tmp_path):
    create_identity_file(tmp_path / "second")
    error = refused(safe, RestoreRefused, identity=load_identity(tmp_path / "second"))
    assert "another recipient" in error.detail


def test_a_key_backup_whose_time_is_up(safe):
    safe.world.clock.advance(days=90)
    assert "expired" in refused(safe, RestoreRefused).detail
    safe.world.clock.advance(milliseconds=-1)
    assert safe.restore().lost == 0


def test_an_expiry_that_was_moved_does_not_open(safe):
    safe.world.clock.advance(days=91)
    raw = (safe.place / "keys").read_bytes()
    line = raw.partition(b"\n")[0]
    stated = msgspec.json.decode(line)
    stated["expires_at"] = "2036-01-01T00:00:00.000Z"
    (safe.place / "keys").write_bytes(msgspec.json.encode(stated) + raw[len(line) :])
    refused(safe, BackupInvalid)


def rewritten(path, how):
    """Write an archive anew with another manifest, whole in itself."""
    with opened(path) as archive:
        contents = {member.name: archive.read(member) for entry in archive.manifest.scopes for member in entry.members}
        manifest = how(archive.manifest, contents)
    with path.open("wb") as file:
        writer = Writer(file)
        members = {name: writer.add(name, raw) for name, raw in contents.items()}
        scopes = [
            msgspec.structs.replace(entry, members=[members[member.name] for member in entry.members])
            for entry in manifest.scopes
        ]
        writer.finish(msgspec.structs.replace(manifest, scopes=scopes))


def test_whoever_has_no_key_cannot_write_a_backup_that_is_believed(safe):
    """A ledger without its ends, whole in every digest: only the signature tells."""

    def emptied(manifest: Manifest, contents: dict[str, bytes]) -> Manifest:
        contents.clear()
        entries = [msgspec.structs.replace(entry, erasures=0, members=[]) for entry in manifest.scopes]
        return msgspec.structs.replace(manifest, scopes=entries)

    rewritten(safe.place / "ledger", emptied)
    Archive(safe.place / "ledger").close()
    error = refused(safe, BackupInvalid, ledgers=[safe.place / "ledger"])
    assert "not signed" in error.detail


def test_no_scope_can_be_left_out(safe):
    def without_the_last(manifest: Manifest, contents: dict[str, bytes]) -> Manifest:
        *rest, last = manifest.scopes
        for member in last.members:
            del contents[member.name]
        return msgspec.structs.replace(manifest, scopes=rest)

    rewritten(safe.place / "backup", without_the_last)
    assert "not signed" in refused(safe, BackupInvalid).detail


def test_a_backup_of_a_later_release_is_named_so(safe):
    whole = (safe.place / "backup").read_bytes()
    rewritten(safe.place / "backup", lambda manifest, _: msgspec.structs.replace(manifest, format=2))
    assert "format 2" in refused(safe, RegistryVersionUnavailable).detail
    raw = (safe.place / "keys").read_bytes()
    (safe.place / "keys").write_bytes(raw.replace(b'"format":1', b'"format":9', 1))
    (safe.place / "backup").write_bytes(whole)
    assert "format 9" in refused(safe, RegistryVersionUnavailable).detail


def test_an_archive_that_holds_more_than_its_manifest_says(safe):
    with opened(safe.place / "backup") as archive:
        manifest = archive.manifest
        contents = {member.name: archive.read(member) for entry in manifest.scopes for member in entry.members}
    for extra in ("surplus", next(iter(contents)), MANIFEST):
        with (safe.place / "backup").open("wb") as file:
            writer = Writer(file)
            for name, raw in contents.items():
                writer.add(name, raw)
            writer.add(extra, b"{}")
            writer.finish(manifest)
        refused(safe, BackupInvalid)

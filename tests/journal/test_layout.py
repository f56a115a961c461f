"""The store directory."""

from __future__ import annotations

import pytest

from journal import layout
from journal.errors import RegistryVersionUnavailable, StoreUnavailable


def test_a_made_store_is_private_throughout_and_can_be_checked(tmp_path):
    path = tmp_path / "deep" / "store"
    layout.create(path, "2026-01-02T03:04:05.678Z")
    assert sorted(entry.name for entry in path.iterdir()) == ["journal", "keys", "projections", "store.toml"]
    for entry in [path, *path.iterdir()]:
        assert entry.stat().st_mode & 0o777 == (0o600 if entry.name == "store.toml" else 0o700)
    assert 'made_at = "2026-01-02T03:04:05.678Z"' in (path / "store.toml").read_text().splitlines()
    layout.check(path)


def test_an_empty_directory_is_taken(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    path.chmod(0o755)  # whatever the umask
    layout.create(path, "now")
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_holds_something_is_left_as_it_is(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    path.chmod(0o755)  # whatever the umask
    (path / "letter").write_text("dear")
    with pytest.raises(FileExistsError):
        layout.create(path, "now")
    assert path.stat().st_mode & 0o777 == 0o755
    assert [entry.name for entry in path.iterdir()] == ["letter"]


def test_a_store_is_never_made_twice(tmp_path):
    layout.create(tmp_path / "store", "now")
    with pytest.raises(FileExistsError):
        layout.create(tmp_path / "store", "now")


def test_no_store_is_told_with_what_to_do(tmp_path):
    with pytest.raises(StoreUnavailable, match="engram init"):
        layout.check(tmp_path)


@pytest.mark.parametrize("text", [b"format = ", b"\xff\xfe", b"[["])
def test_a_broken_store_file_is_refused(tmp_path, text):
    layout.create(tmp_path / "store", "now")
    (tmp_path / "store" / "store.toml").write_bytes(text)
    with pytest.raises(StoreUnavailable):
        layout.check(tmp_path / "store")


@pytest.mark.parametrize("text", ["", "format = 2", 'format = "1"', "format = 0"])
def test_another_format_is_refused_by_its_number(tmp_path, text):
    layout.create(tmp_path / "store", "now")
    (tmp_path / "store" / "store.toml").write_text(text)
    with pytest.raises(RegistryVersionUnavailable):
        layout.check(tmp_path / "store")


@pytest.mark.parametrize("name", [".store.toml", "journal"])
def test_a_link_is_nothing_that_was_begun(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    if name == "journal":
        elsewhere.mkdir()
    else:
        elsewhere.write_text("kept", encoding="utf-8")
    place = tmp_path / "store"
    place.mkdir()
    (place / name).symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        layout.create(place, "now")
    assert elsewhere.is_dir() or elsewhere.read_text(encoding="utf-8") == "kept"


def test_what_was_begun_and_not_finished_is_told_from_anything_else(tmp_path):
    assert layout.is_begun(tmp_path)
    (tmp_path / "keys").mkdir()
    (tmp_path / ".store.toml").touch()
    assert layout.is_begun(tmp_path)
    layout.create(tmp_path, "now")
    assert not layout.is_begun(tmp_path)

"""Replacing the root key: at every moment one root key opens the whole store, and whoever comes next finishes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from journal import failpoints, limits
from journal.errors import EngramError, StoreUnavailable
from journal.filelock import FileLock
from journal.lifecycle import Operation
from journal.log import Journal
from journal.rootchange import SWITCHED, plan_for, root_key_in_force
from journal.rootkey import RootKeySource, create_root_key_file, load_root_key
from journal.scope import Scope
from journal.slots import HEADER_BYTES
from tests.journal.stores import ACTOR, OTHER, SCOPE, capture, make, move, text_of

ROOT = Path(__file__).parents[2]
STEPS = [name for name in failpoints.NAMES if name.startswith("root.")]
SCOPES = (SCOPE, OTHER)


class Place:
    """A store whose root key stands in a file beside it."""

    def __init__(self, path: Path) -> None:
        self.store, self.key_file = path / "store", path / "root.key"
        create_root_key_file(self.key_file)
        make(self.store)
        self.source = RootKeySource("file", (str(self.key_file),))
        self.texts: dict[tuple[Scope, str], str | None] = {}

    @contextmanager
    def opened(self, key=None, **how):
        journal = Journal.open(
            self.store, key or self.key(), reread_root=partial(root_key_in_force, self.store, self.source), **how
        )
        try:
            yield journal
        finally:
            journal.close()

    def key(self):
        """Return the root key in force."""
        return root_key_in_force(self.store, self.source)

    def fill(self):
        """Capture in both scopes, and end one candidate of each."""
        with self.opened() as journal:
            for scope in SCOPES:
                captured = []
                for number in range(3):
                    candidate_id, _ = capture(journal, f"key-of-16-bytes-{number}", f"text {number}", scope)
                    self.texts[scope, candidate_id] = f"text {number}"
                    captured.append(candidate_id)
                move(journal, Operation.WITHDRAW, captured[-1], scope)
                journal.finish_destructions(scope)
                self.texts[scope, captured[-1]] = None
        return self

    def read(self, key=None, **how):
        """Return the text of every candidate, opened afresh."""
        with self.opened(key, **how) as journal:
            return {(scope, name): text_of(journal, name, scope) for scope, name in self.texts}

    def rotations(self):
        """Return how many rotations each scope's journal tells of."""
        with self.opened() as journal:
            return [
                sum(event.header.kind.label == "key_rotation" for event in journal.store.read(scope, 0, 100))
                for scope in SCOPES
            ]

    def replace(self, failpoint=None):
        """Replace the root key in another process; return its exit code."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if failpoint is not None:
            environment["ENGRAM_FAILPOINT"] = failpoint
        command = [sys.executable, "-m", "tests.journal.replacing", str(self.store), str(self.key_file)]
        return subprocess.run(command, check=False, env=environment).returncode

    def bytes(self):
        """Return every byte of keys/ and of the root key's folder."""
        files = [*(self.store / "keys").iterdir(), *self.key_file.parent.glob("root.key*")]
        return b"".join(path.read_bytes() for path in files)

    def names(self):
        """Return the names of the files of keys, those of locks and claims left out."""
        return sorted(path.name for path in (self.store / "keys").iterdir() if path.suffix not in {".lock", ".ahead"})


def opens(place, key):
    """Whether a root key opens every scope of a store, looked at without changing anything."""
    try:
        return place.read(key, readonly=True) == place.texts
    except StoreUnavailable:
        return False


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path).fill()


def wrapped_slots(place):
    """Return the wrapped keys that stand in slot files."""
    found = []
    for path in (place.store / "keys").glob("*.slots"):
        raw = path.read_bytes()[HEADER_BYTES:]
        found += [raw[at + 20 : at + 80] for at in range(0, len(raw), limits.SLOT_BYTES) if raw[at] == 1]
    return found


def test_everything_stands_under_a_new_root_and_nothing_of_the_old_is_left(place):
    old_key, before = place.key(), wrapped_slots(place)
    assert before
    assert place.replace() == 0
    assert place.key() != old_key
    assert place.read() == place.texts
    assert (opens(place, old_key), opens(place, place.key())) == (False, True)
    assert place.rotations() == [1, 1]
    left = place.bytes()
    assert not any(wrapped in left for wrapped in before)
    tags = sorted(scope.tag.hex() for scope in SCOPES)
    assert place.names() == [name for tag in tags for name in (f"{tag}.2.slots", f"{tag}.keyring")]
    assert [path.name for path in place.key_file.parent.glob("root.key*")] == ["root.key"]
    assert place.replace() == 0
    assert place.read() == place.texts
    assert place.rotations() == [2, 2]


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_one_root_opens_all_and_the_next_finishes(place, step):
    old_key, old_slots = place.key(), wrapped_slots(place)
    assert place.replace(step) == -signal.SIGKILL
    files = {
        path: load_root_key(RootKeySource("file", (str(path),))) for path in place.key_file.parent.glob("root.key*")
    }
    opening = {key for key in files.values() if opens(place, key)}
    assert len(opening) == 1, "one of the two, and it opens every scope"
    switched = STEPS.index(step) >= STEPS.index("root.switched")
    assert opening == {place.key()}
    assert (opening == {old_key}) is not switched
    assert opens(place, place.key()), "looking changed nothing"
    assert place.read() == place.texts
    assert place.rotations() == ([1, 1] if switched else [0, 0])
    assert place.rotations() == ([1, 1] if switched else [0, 0]), "an event is written once"
    assert [path.name for path in place.key_file.parent.glob("root.key*")] == ["root.key"]
    assert not [name for name in place.names() if name.endswith((".new", ".old")) or name.startswith("root.")]
    assert len([name for name in place.names() if name.endswith(".slots")]) == len(SCOPES)
    assert any(wrapped in place.bytes() for wrapped in old_slots) is not switched
    assert place.replace() == 0
    assert place.read() == place.texts
    assert not any(wrapped in place.bytes() for wrapped in old_slots)


@pytest.mark.parametrize("step", [None, *STEPS])
def test_a_process_that_has_the_store_open_goes_on(place, step):
    with place.opened() as journal:
        assert all(text_of(journal, name, scope) == text for (scope, name), text in place.texts.items())
        assert place.replace(step) == (0 if step is None else -signal.SIGKILL)
        assert all(text_of(journal, name, scope) == text for (scope, name), text in place.texts.items())
        for number, scope in enumerate(SCOPES):
            candidate_id, _ = capture(journal, f"a-new-key-of-16-{number}", "later", scope)
            place.texts[scope, candidate_id] = "later"
            gone = next(name for (of, name), text in place.texts.items() if of == scope and text == "text 0")
            move(journal, Operation.WITHDRAW, gone, scope)
            journal.finish_destructions(scope)
            assert journal.key_is_destroyed(scope, gone)
            place.texts[scope, gone] = None
    assert place.read() == place.texts


def test_a_process_that_cannot_look_for_the_new_root_says_what_to_do(place):
    journal = Journal.open(place.store, place.key())
    scope, _ = next(iter(place.texts))
    assert place.replace() == 0
    with pytest.raises(StoreUnavailable) as caught:
        journal.keyring.generation(scope)
    assert "was replaced by engram keys rotate --erase" in (caught.value.detail or "")
    with pytest.raises(EngramError):
        capture(journal, "a-new-key-of-16-bytes", "later", type(scope).of("tenant:one", "a workspace of its own"))
    journal.close()
    assert place.read() == place.texts, "no scope was made under the old root key"


def test_a_root_key_from_elsewhere_needs_a_file_with_the_new_one(place, tmp_path, monkeypatch):
    monkeypatch.setenv("OUR_ROOT", place.key_file.read_text())
    source = RootKeySource("env", ("OUR_ROOT",))
    with pytest.raises(StoreUnavailable) as caught:
        plan_for(source, None)
    assert "--new-root-key FILE" in (caught.value.detail or "")
    new_file = tmp_path / "elsewhere.key"
    with place.opened() as journal:
        epochs = journal.replace_root_key(plan_for(source, new_file), ACTOR)
    assert epochs == {SCOPE: 2, OTHER: 2}
    assert not opens(place, root_key_in_force(place.store, source)), "the old one no longer opens it"
    monkeypatch.setenv("OUR_ROOT", new_file.read_text())
    assert opens(place, root_key_in_force(place.store, source))
    assert new_file.exists()
    with pytest.raises(StoreUnavailable):
        plan_for(place.source, new_file)


def test_a_store_without_keys_has_no_root_to_replace(tmp_path):
    place = Place(tmp_path)
    key = place.key()
    assert place.replace() == 1
    assert place.key() == key
    assert place.fill().read() == place.texts


def test_nothing_is_replaced_while_another_process_keeps_a_scopes_keys(place, monkeypatch):
    monkeypatch.setattr("journal.scopelocks._LOCK_SECONDS", 0.05)
    key = place.key()
    with place.opened() as journal:
        journal.admit(OTHER)
        journal.admit(SCOPE)
        lock = FileLock(place.store / "keys" / f"{OTHER.tag.hex()}.lock")
        assert lock.try_acquire()
        with pytest.raises(StoreUnavailable):
            journal.replace_root_key(plan_for(place.source, None), ACTOR)
        lock.close()
    assert place.key() == key
    assert place.read() == place.texts
    assert place.rotations() == [0, 0]


def test_an_interrupt_just_after_the_switch_abandons_nothing(place, monkeypatch):
    old_key, rename = place.key(), Path.rename

    def interrupted(path, target):
        moved = rename(path, target)
        if Path(target).name == SWITCHED:
            raise KeyboardInterrupt
        return moved

    with place.opened() as journal, monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.replace_root_key(plan_for(place.source, None), ACTOR)
    assert place.key() != old_key
    assert place.read() == place.texts
    assert not opens(place, old_key)


def test_a_foreign_file_in_the_place_of_the_new_key_is_not_touched(place):
    other = place.key_file.with_name("root.key.new")
    shutil.copy(place.key_file, other)
    assert place.replace() == 1
    assert other.read_bytes() == place.key_file.read_bytes()
    assert place.read() == place.texts

"""A store with everything that a backup must carry, its backups, and what is known of it outside."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

from journal import layout
from journal.log import Journal
from journal.recipients import Identity, create_identity_file, load_identity
from journal.store.port import Part
from journal.testing import ManualClock, SeededRandomness
from replay import backup, keybackup
from replay.known import Outside, Point
from replay.restore import Plan, Restored, restore
from tests.tools.memory.world import OTHER, ROOT_KEY, SCOPE, World

KEPT, GONE, WAITING = "Words of copper that stay.", "Words of silver that go.", "Words of zinc that wait."


class Safe:
    """A store at ``place/store`` and files beside it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.outside = Outside(place / "state", place / "anchors")
        create_identity_file(place / "identity")
        self.world = World(place / "store")
        self._listen()

    @property
    def identity(self) -> Identity:
        return load_identity(self.place / "identity")

    def _listen(self) -> None:
        journal, store = self.world.journal, layout.store_id(self.world.path)

        def tell(scope: Any, cursor: int, frame_hash: bytes) -> None:
            self.outside.note(store, {scope.tag.hex(): Point(cursor, frame_hash.hex())})

        journal.tell_outside = tell

    def backup(self, name: str = "backup", *, ledger: bool = False, journal: Journal | None = None) -> Path:
        """Write a backup or a ledger, and note it outside, as the command does."""
        manifest = backup.write(journal or self.world.journal, self.place / name, ledger_only=ledger)
        points = {entry.scope.tag.hex(): Point(entry.head_cursor, entry.head_hash) for entry in manifest.scopes}
        self.outside.note(manifest.store, points)
        return self.place / name

    def keys(self, name: str = "keys", days: int = 90) -> Path:
        keybackup.write(self.world.journal, ROOT_KEY, self.place / name, self.identity.recipient, days)
        return self.place / name

    def plan(self, **changes: Any) -> Plan:
        made: dict[str, Any] = {
            "backup": self.place / "backup", "keys": self.place / "keys", "identity": self.identity,
            "target": self.place / "restored", "outside": self.outside, "replaces": False, "clock": self.world.clock,
        }  # fmt: skip
        return Plan(**{**made, **changes})

    def restore(self, **changes: Any) -> Restored:
        return restore(self.plan(**changes))

    def beside(self) -> list[str]:
        """Return the names of everything in the place."""
        return sorted(path.name for path in self.place.iterdir())


def told(safe: Safe) -> dict[str, str]:
    """Tell a story in two scopes; return its ids by name."""
    agent, other = safe.world.caller(), safe.world.caller(OTHER)
    ids = {"kept": agent.remember(KEPT), "gone": agent.remember(GONE), "waiting": agent.capture(WAITING)}
    ids["other"] = other.remember(KEPT)
    ids["withdrawn"] = agent.capture("Words of tin that are withdrawn.")
    agent.withdraw(ids["withdrawn"])
    return ids


@contextmanager
def reopened(path: Path, clock: ManualClock, root_key: bytes = ROOT_KEY, seed: bytes = b"another"):
    """Yield a restored store as a world."""
    world = World.__new__(World)
    world.path, world.clock, world.randomness = path, clock, SeededRandomness(seed)
    world.journal = Journal.open(path, root_key, clock=clock, randomness=world.randomness)
    world._engines = []
    try:
        yield world
    finally:
        world.close()


def sealed_content(journal: Journal, subject_id: str) -> bytes:
    """Return the sealed content of a candidate, or of the candidate that became a record."""
    with journal.store.view(SCOPE) as view:
        row = view.subject(view.candidate_of(subject_id) or subject_id)
        assert row is not None
        part = view.body(row.born, Part.CONTENT)
    assert part is not None
    return part


def everything(path: Path) -> bytes:
    """Return the bytes of every file under a path, one after another."""
    return b"\0".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())

"""What is done to a store, drawn by a seed and a number: the same two do the same again to the same store."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from journal import layout, limits
from journal.slots import HEADER_BYTES
from journal.store.lmdb import tables
from tests.corruption.asking import in_a_fork
from tests.corruption.pages import COMMIT_NUMBER_AT, PAGE_BYTES, DataFile, Span, flip
from tests.corruption.template import STORE, Template, files_of
from tests.journal.store.places import raw

FOLDERS = (layout.JOURNAL, layout.KEYS, layout.PROJECTIONS, layout.CHECKPOINTS)
# Of a hundred flips so many are of each kind of place; within it every bit is as likely as another.
_SHARES = {
    "journal meta": 4, "journal page header": 6, "journal branch pointers": 2, "journal branch nodes": 3,
    "journal leaf pointers": 5, "journal leaf nodes": 20, "journal overflow": 5, "journal free": 2, "journal slack": 1,
    "journal ahead": 1, "projection meta": 3, "projection page header": 5, "projection branch pointers": 1,
    "projection branch nodes": 1, "projection leaf pointers": 4, "projection leaf nodes": 10, "projection overflow": 1,
    "projection free": 1, "embeddings meta": 1, "embeddings page header": 1, "embeddings leaf pointers": 1,
    "embeddings leaf nodes": 3, "slots": 6, "keyring": 4, "root key": 1, "checkpoint": 3, "CURRENT": 1, "MARK": 2,
    "lock file": 1, "store.toml": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is done to a store at a place."""

    kind: str  # of the file, for the table of counts
    words: str
    do: Callable[[Path], None]
    old: tuple[str, ...] = ()  # the folders that were put back as they stood before


_NAMED = {
    ".slots": "slots", ".keyring": "keyring", ".ahead": "claims", ".lock": "lock file", ".key": "root key",
}  # fmt: skip


def kind_of(name: str) -> str:
    """Return which kind of file a name is."""
    path = Path(name)
    if path.name == "data.mdb":
        if "projections" not in path.parts:
            return "journal"
        return "embeddings" if "vector" in path.parts else "projection"
    if path.suffix in _NAMED:
        return _NAMED[path.suffix]
    if path.name == "lock.mdb":
        return "lock file"
    if "checkpoints" in path.parts:
        return "checkpoint"
    return path.name


class Drawer:
    """Draws damage for one template."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._files = files_of(template.new)
        self._data = {
            name: DataFile(template.new / name, name) for name in self._files if name.endswith("data.mdb")
        }  # fmt: skip
        self._spans: dict[str, list[Span]] = {}
        for name in self._files:
            whole = [Span(name, "", 0, (template.new / name).stat().st_size)]
            for span in self._data[name].spans() if name in self._data else whole:
                self._spans.setdefault(f"{kind_of(name)} {span.kind}".strip(), []).append(span)
        self._old = _renamed(template)
        folders = [set(some) for count in range(1, 5) for some in combinations(FOLDERS, count)]
        self._sets = [tuple(name for name in FOLDERS if name in some) for some in folders]

    def count(self, family: str) -> int | None:
        """Return how many there are of a family, None where it has no end."""
        counts = {"older": len(self._old) + len(self._sets), "missing": len(self._files) + len(FOLDERS)}
        return counts.get(family, len(self._files) if family == "empty" else None)

    def draw(self, family: str, number: int, seed: str) -> Damage:
        """Return the damage of a family with this number."""
        chance = random.Random(f"{seed} {family} {number}")
        made: Damage = getattr(self, "_" + family)(chance, number)
        return made

    # --- families --------------------------------------------------------------------------------

    def _flip(self, chance: random.Random, _: int) -> Damage:
        kinds = [kind for kind in _SHARES if any(span.start < span.stop for span in self._spans.get(kind, ()))]
        kind = chance.choices(kinds, [_SHARES[kind] for kind in kinds])[0]
        spans = self._spans[kind]
        span = chance.choices(spans, [span.stop - span.start for span in spans])[0]
        at, bit = chance.randrange(span.start, span.stop), chance.randrange(8)
        if kind == "journal meta" and at % PAGE_BYTES == COMMIT_NUMBER_AT and bit == 1:
            bit = 0  # two commits back or forth: a file in which the commit before the last is the last, as after a cut
        return Damage(kind, f"bit {bit} of byte {at} of {span.path}", lambda place: flip(place / span.path, at, bit))

    def _truncate(self, chance: random.Random, _: int) -> Damage:
        name, size = self._file(chance)
        pages = list(range(0, size, PAGE_BYTES))
        length = chance.choice([chance.randrange(size), chance.choice(pages), max(0, size - chance.randint(1, 64))])
        return Damage(kind_of(name), f"{name} cut to {length}", lambda place: os.truncate(place / name, length))

    def _extend(self, chance: random.Random, _: int) -> Damage:
        name, _ = self._file(chance)
        length = chance.choice([1, chance.randint(2, 600), PAGE_BYTES, 3 * PAGE_BYTES])
        more = chance.choice([bytes(length), chance.randbytes(length)])

        def do(place: Path) -> None:
            with (place / name).open("ab") as file:
                file.write(more)

        return Damage(kind_of(name), f"{length} bytes {'of noise ' * any(more)}more behind {name}", do)

    def _zero(self, chance: random.Random, _: int) -> Damage:
        name = chance.choice(list(self._data))
        page = chance.randrange(self._data[name].last_page + 1)
        return Damage(kind_of(name), f"page {page} of {name} zeroed", lambda place: _put(place, name, page, None))

    def _pages(self, chance: random.Random, _: int) -> Damage:
        name = chance.choice(list(self._data))
        one, two = chance.sample(range(self._data[name].last_page + 1), 2)

        def do(place: Path) -> None:
            whole = (place / name).read_bytes()
            for page, other in ((one, two), (two, one)):
                _put(place, name, page, whole[other * PAGE_BYTES : (other + 1) * PAGE_BYTES])

        return Damage(kind_of(name), f"pages {one} and {two} of {name} exchanged", do)

    def _bodies(self, chance: random.Random, number: int) -> Damage:
        part, seed = chance.choice(tables.PARTS), chance.random()

        def swap(place: Path) -> bytes:
            with raw(place / STORE / layout.JOURNAL) as (txn, databases):
                rows = list(txn.cursor(databases[part]).iternext())
                (one, first), (two, other) = random.Random(seed).sample([(bytes(k), bytes(v)) for k, v in rows], 2)
                txn.put(one, other, db=databases[part])
                txn.put(two, first, db=databases[part])
            return b""

        def do(place: Path) -> None:
            status, _ = in_a_fork(lambda: swap(place))
            assert status == 0

        return Damage("journal", f"two bodies of {part.decode()} exchanged, {number}", do)

    def _slots(self, chance: random.Random, _: int) -> Damage:
        files = [name for name in self._files if name.endswith(".slots")]
        one, two = chance.choice(files), chance.choice(files)
        many = (self._template.new / one).stat().st_size // limits.SLOT_BYTES - HEADER_BYTES // limits.SLOT_BYTES
        near, far = chance.sample(range(many // 2), 2)

        def do(place: Path) -> None:
            held = [(place / name).read_bytes() for name in (one, two)]
            for name, at, raw_file, other in ((one, near, held[1], far), (two, far, held[0], near)):
                start, begin = (HEADER_BYTES + limits.SLOT_BYTES * slot for slot in (at, other))
                _write(place / name, start, raw_file[begin : begin + limits.SLOT_BYTES])

        return Damage("slots", f"slot {near} of {one} and {far} of {two} exchanged", do)

    def _older(self, _: random.Random, number: int) -> Damage:
        if number < len(self._old):
            name, before = list(self._old.items())[number]
            return Damage(
                kind_of(name), f"{name} as before", lambda place: _overwrite(place / name, self._template.old / before),
                tuple(folder for folder in FOLDERS if f"{STORE}/{folder}/" in name),
            )  # fmt: skip
        folders = self._sets[number - len(self._old)]

        def do(place: Path) -> None:
            for folder in folders:
                shutil.rmtree(place / STORE / folder)
                shutil.copytree(self._template.old / STORE / folder, place / STORE / folder)

        return Damage("folder", " and ".join(folders) + " as before", do, folders)

    def _missing(self, _: random.Random, number: int) -> Damage:
        if number < len(self._files):
            name = self._files[number]
            return Damage(kind_of(name), f"{name} removed", lambda place: (place / name).unlink())
        folder = FOLDERS[number - len(self._files)]
        return Damage("folder", f"{folder} removed", lambda place: shutil.rmtree(place / STORE / folder))

    def _empty(self, _: random.Random, number: int) -> Damage:
        name = self._files[number]
        return Damage(kind_of(name), f"{name} emptied", lambda place: os.truncate(place / name, 0))

    def _file(self, chance: random.Random) -> tuple[str, int]:
        """Draw a kind of file, then a file of it that is not empty; return its name and size."""
        sizes = {name: (self._template.new / name).stat().st_size for name in self._files}
        by_kind: dict[str, list[str]] = {}
        for name, size in sizes.items():
            if size:
                by_kind.setdefault(kind_of(name), []).append(name)
        weights = [4 if kind in ("journal", "projection", "slots") else 1 for kind in by_kind]
        name = chance.choice(by_kind[chance.choices(list(by_kind), weights)[0]])
        return name, sizes[name]


def _renamed(template: Template) -> dict[str, str]:
    """Return the name now of each file that was there before, and its name then: a generation's number grows."""

    def without_number(name: str) -> str:
        return "/".join(part for part in Path(name).parts if not (part.isdigit() and len(part) == len("00000001")))

    now = {without_number(name): name for name in files_of(template.new)}
    found = {}
    for name in files_of(template.old):
        after = now.get(without_number(name), name)  # one that is not there any more comes back under its own name
        if not after.endswith("lock") and (template.old / name).stat().st_size:
            found[after] = name
    return found


def _overwrite(path: Path, source: Path) -> None:
    content = source.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    _write(path, 0, content)
    os.truncate(path, len(content))


def _put(place: Path, name: str, page: int, content: bytes | None) -> None:
    _write(place / name, page * PAGE_BYTES, bytes(PAGE_BYTES) if content is None else content)


def _write(path: Path, at: int, content: bytes) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.pwrite(fd, content, at)
    finally:
        os.close(fd)

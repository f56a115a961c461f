"""The generations of one projection of one scope, and which of them is in force.

    <store>/projections/<scope tag, 32 hex digits>/<name>/CURRENT      which is in force (``projections.inforce``)
    <store>/projections/<scope tag, 32 hex digits>/<name>/<number>/    a generation: an LMDB environment and its mark

Numbers grow. Below CURRENT's stand generations that were replaced, above it one that is being built. A reader opens
what CURRENT names, which takes the generation's shared lock, and reads CURRENT again.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from journal.errors import ProjectionStale
from journal.rootkey import flush_directory
from journal.scope import Scope
from projections import environment
from projections.environment import Unusable
from projections.generation import Generation, NewerVersion
from projections.inforce import ATTEMPTS, NUMBER, InForce
from projections.locks import InodeLock
from projections.port import META, Projection


class BuildingBusy(Exception):
    """Another process is building a generation of this projection right now."""


class Generations(InForce):
    """One projection's generations on disk."""

    def __init__(self, projections_path: Path, projection: Projection, scope: Scope) -> None:
        super().__init__(projections_path / scope.tag.hex() / projection.name)
        self.projection = projection
        self.scope = scope
        self._names = (META, *projection.databases)

    # --- reading ---------------------------------------------------------------------------------

    def is_current(self, generation: Generation) -> bool:
        """Whether an open generation is still the one in force, and still there."""
        return self.current() == generation.number and generation.environment.is_there()

    def open(self, deadline: float | None) -> Generation | None:
        """Open the generation in force; None where there is none.

        Raises:
            Unusable: it cannot be served. ProjectionStale: it could not be had by the deadline.
        """
        for _ in range(ATTEMPTS):
            number = self.current()
            if number is None:
                return None
            try:
                generation = self._attach(number, deadline)
            except Unusable:
                if self.current() != number:
                    continue
                raise
            if self.is_current(generation):
                return generation
            generation.release()
        raise ProjectionStale("the projection's generations keep changing")

    def open_or_begin(self, floor: int, deadline: float | None) -> Generation:
        """Open the generation in force, or put an empty one in force where there is none that can be served.

        ``floor`` is the journal's head cursor now.

        Raises:
            ProjectionStale: the projection's lock was not had by the deadline.
        """
        for _ in range(ATTEMPTS):
            try:
                generation = self.open(deadline)
            except Unusable:
                self.condemn(None, deadline)
                continue
            if generation is not None:
                return generation
            with suppress(Unusable), self.locked(deadline):
                if self.current() is None:
                    generation = self._begin(floor)
                    try:
                        self.name_locked(generation.number)
                        self._remove_under(generation.number)
                    except BaseException:
                        generation.release()
                        raise
                    return generation
        raise ProjectionStale("the projection's generations keep changing")

    def _attach(self, number: str, deadline: float | None) -> Generation:
        opened = environment.attach(self.path / number, self._names, deadline)
        try:
            generation = Generation(self.projection, self.scope, number, opened)
        except NewerVersion:
            opened.release()
            if self._is_held(number):
                raise ProjectionStale("a newer release serves this projection; restart this process") from None
            raise
        except BaseException:
            opened.release()
            raise
        return generation

    def _is_held(self, number: str) -> bool:
        try:
            lock = InodeLock(self.path / number / environment.DATA)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            return not lock.try_acquire()
        finally:
            lock.close()

    # --- making and switching --------------------------------------------------------------------

    def build(self, floor: int, deadline: float | None, *, fresh: bool, upon: str | None = None) -> Generation | None:
        """Return a generation beside the one in force, to be filled and adopted; its write claim is taken.

        One that was left half built is continued, unless ``fresh`` or it cannot be; then it is dropped. ``upon`` is the
        number that was in force when the caller last looked: where another has come into force since, None is returned.

        Raises:
            BuildingBusy: another process is building one. ProjectionStale: the lock was not had by the deadline.
        """
        for _ in range(ATTEMPTS):
            with suppress(Unusable), self.locked(deadline):
                if upon is not None and self.current() != upon:
                    return None
                begun = self._above_current()
                if not begun:
                    return self._claimed(self._begin(floor))
                half_built = None if fresh else self._half_built(begun[-1], deadline)
                if half_built is not None:
                    return self._claimed(half_built)
                if not self._remove(begun[-1]):
                    raise BuildingBusy
        raise ProjectionStale("the projection's generations keep changing")

    def _claimed(self, generation: Generation) -> Generation:
        had = False
        try:
            had = generation.environment.claim(0.0)
        finally:
            if not had:
                generation.release()
        if had:
            return generation
        raise BuildingBusy

    def _half_built(self, number: str, deadline: float | None) -> Generation | None:
        try:
            return self._attach(number, deadline)
        except Unusable:
            return None

    def adopt(self, generation: Generation, deadline: float | None) -> str | None:
        """Put a filled generation in force; return the number of the one that it replaces.

        Raises:
            Unusable: it was deleted, or a newer one came into force meanwhile.
            ProjectionStale: the lock was not had by the deadline.
        """
        with self.locked(deadline):
            before = self.current()
            if not generation.environment.is_there() or (before is not None and before >= generation.number):
                raise Unusable("the generation that was built is no longer wanted")
            self.name_locked(generation.number)
            return before

    def condemn(self, generation: Generation | None, deadline: float | None) -> None:
        """Take a generation out of force that must not be served; None: the one in force, if it cannot be opened.

        Raises:
            ProjectionStale: the lock was not had by the deadline.
        """
        with suppress(Unusable), self.locked(deadline):
            if generation is not None:
                generation.environment.give_up()
                if not self.is_current(generation):
                    return
            else:
                with suppress(Unusable):
                    reopened = self.open(deadline)
                    if reopened is not None:
                        reopened.release()
                    return
            self.void_locked()

    def _begin(self, floor: int) -> Generation:
        """Make an empty generation over all others; the lock is held."""
        stated = NUMBER.match(self.stated())
        last = max([0, *map(int, self.numbers()), int(stated[0]) if stated is not None else 0])
        number = f"{last + 1:08d}"
        directory = self.path / number
        directory.mkdir(mode=0o700)
        try:
            opened = environment.create(directory, self._names)
            try:
                return Generation.begin(self.projection, self.scope, number, opened, floor)
            except BaseException:
                opened.release()
                raise
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)  # on a full disk each try would leave another
            raise

    # --- removing --------------------------------------------------------------------------------

    def numbers(self) -> list[str]:
        """Return the numbers of all generations on disk, in order."""
        try:
            return sorted(entry.name for entry in self.path.iterdir() if NUMBER.fullmatch(entry.name))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sweep(self, deadline: float | None) -> list[str]:
        """Remove the generations that were replaced; return the numbers of those that somebody still has open.

        Raises:
            ProjectionStale: the projection's lock was not had by the deadline.
        """
        if not self.path.is_dir():
            return []
        for _ in range(ATTEMPTS):
            with suppress(Unusable), self.locked(deadline):
                return self._remove_under(self.current())
        return []

    def floor_in_force(self, deadline: float | None) -> int:
        """Return the journal's head when the generation in force was begun; -1 where there is none to be served.

        One that is being built was begun later.
        """
        try:
            generation = self.open(deadline)
        except Unusable:
            return -1
        if generation is None:
            return -1
        generation.release()
        return generation.floor

    def _remove_under(self, current: str | None) -> list[str]:
        replaced = [number for number in self.numbers() if current is None or number < current]
        return [number for number in replaced if not self._remove(number)]

    def _above_current(self) -> list[str]:
        current = self.current()
        return [number for number in self.numbers() if current is not None and number > current]

    def _remove(self, number: str) -> bool:
        """Remove a generation unless somebody has it open; the projection's lock is held."""
        directory = self.path / number
        try:
            lock = InodeLock(directory / environment.DATA)
        except (FileNotFoundError, NotADirectoryError):
            shutil.rmtree(directory, ignore_errors=True)
            return True
        try:
            if not lock.try_acquire():
                return False
            shutil.rmtree(directory, ignore_errors=True)
            flush_directory(self.path)  # an erasure is told complete after this: it must not come back in a power cut
            return True
        finally:
            lock.close()

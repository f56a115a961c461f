"""The generations of one projection of one scope, and which of them is in force.

    <store>/projections/<scope tag, 32 hex digits>/<name>/CURRENT      eight digits and a line end
    <store>/projections/<scope tag, 32 hex digits>/<name>/<number>/    a generation: an LMDB environment and its mark

Numbers grow. Below CURRENT's stand generations that were replaced, above it one that is being built. One that was taken
out of force is named so in CURRENT, behind its number; then, or without CURRENT, none counts.

The directory's own lock is the projection's lock: it is held to make, switch, condemn and remove generations, never to
read. A reader opens what CURRENT names, which takes the generation's shared lock, and reads CURRENT again.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from journal.errors import ProjectionStale, StoreUnavailable
from journal.rootkey import flush_directory
from journal.scope import Scope
from projections import environment, marks
from projections.environment import Unusable
from projections.generation import META, Generation, NewerVersion
from projections.locks import InodeLock, identity_of
from projections.port import Projection

CURRENT = "CURRENT"
_VOID = " out of force"
_NUMBER = re.compile(r"[0-9]{8}")
_STATED_MAX_BYTES = 64  # what CURRENT says is shorter
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)  # what a system says where nothing may be written
_ATTEMPTS = 8  # how often a directory that changes under our hands is looked at anew


class BuildingBusy(Exception):
    """Another process is building a generation of this projection right now."""


class Generations:
    """One projection's generations on disk."""

    def __init__(self, projections_path: Path, projection: Projection, scope: Scope) -> None:
        self.projection = projection
        self.scope = scope
        self.path = projections_path / scope.tag.hex() / projection.name
        self._current_path = str(self.path / CURRENT)
        self._names = (META, *projection.databases)

    # --- reading ---------------------------------------------------------------------------------

    def current(self) -> str | None:
        """Return the number of the generation in force, or None where there is none."""
        number = self._stated().removesuffix("\n")
        return number if _NUMBER.fullmatch(number) else None

    def _stated(self) -> str:
        """Return what CURRENT says, nothing where it is not there."""
        try:
            fd = os.open(self._current_path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        try:  # each read of the projection comes by here: a file object would cost it 20 us
            return os.read(fd, _STATED_MAX_BYTES).decode("ascii", errors="replace")
        finally:
            os.close(fd)

    def is_current(self, generation: Generation) -> bool:
        """Whether an open generation is still the one in force, and still there."""
        return self.current() == generation.number and generation.environment.is_there()

    def open(self, deadline: float | None) -> Generation | None:
        """Open the generation in force; None where there is none.

        Raises:
            Unusable: it cannot be served. ProjectionStale: it could not be had by the deadline.
        """
        for _ in range(_ATTEMPTS):
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
        for _ in range(_ATTEMPTS):
            try:
                generation = self.open(deadline)
            except Unusable:
                self.condemn(None, deadline)
                continue
            if generation is not None:
                return generation
            with suppress(Unusable), self._locked(deadline):
                if self.current() is None:
                    generation = self._begin(floor)
                    try:
                        self._name(generation.number)
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
        for _ in range(_ATTEMPTS):
            with suppress(Unusable), self._locked(deadline):
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
        with self._locked(deadline):
            before = self.current()
            if not generation.environment.is_there() or (before is not None and before >= generation.number):
                raise Unusable("the generation that was built is no longer wanted")
            self._name(generation.number)
            return before

    def condemn(self, generation: Generation | None, deadline: float | None) -> None:
        """Take a generation out of force that must not be served; None: the one in force, if it cannot be opened.

        Raises:
            ProjectionStale: the lock was not had by the deadline.
        """
        with suppress(Unusable), self._locked(deadline):
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
            self._void()

    def invalidate(self, deadline: float | None) -> None:
        """Take the generation in force out of force, whatever it holds; whoever opens the projection rebuilds it."""
        with suppress(Unusable), self._locked(deadline):
            self._void()

    def _void(self) -> None:
        number = _NUMBER.match(self._stated())
        if number is not None:
            self._name(number[0] + _VOID)

    def _begin(self, floor: int) -> Generation:
        """Make an empty generation over all others; the lock is held."""
        stated = _NUMBER.match(self._stated())
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

    def _name(self, number: str) -> None:
        lock = InodeLock(self.path)
        try:
            marks.replace(lock.fd, CURRENT, f"{number}\n".encode())
        finally:
            lock.close()

    # --- removing --------------------------------------------------------------------------------

    def numbers(self) -> list[str]:
        """Return the numbers of all generations on disk, in order."""
        try:
            return sorted(entry.name for entry in self.path.iterdir() if _NUMBER.fullmatch(entry.name))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sweep(self, deadline: float | None) -> list[str]:
        """Remove the generations that were replaced; return the numbers of those that somebody still has open.

        Raises:
            ProjectionStale: the projection's lock was not had by the deadline.
        """
        if not self.path.is_dir():
            return []
        for _ in range(_ATTEMPTS):
            with suppress(Unusable), self._locked(deadline):
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

    @contextmanager
    def _locked(self, deadline: float | None) -> Iterator[None]:
        """Hold the projection's lock, on the directory as it stands at its path now.

        Raises:
            Unusable: the directory was deleted under the lock; look again. StoreUnavailable: it cannot be written.
        """
        try:
            lock = self._lock(deadline)
            try:
                yield
            finally:
                lock.close()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Unusable("the projection's directory was deleted") from error
        except OSError as error:
            if error.errno in READ_ONLY:  # who only reads goes on without writing
                raise
            # The disk is full, say: what was in force stays so.
            raise StoreUnavailable(f"a projection's files cannot be written: {error.strerror}") from error

    def _lock(self, deadline: float | None) -> InodeLock:
        for _ in range(_ATTEMPTS):
            self._make_directories()
            lock = InodeLock(self.path)
            if not lock.acquire(deadline):
                lock.close()
                raise ProjectionStale("the projection's lock is held by another process")
            if identity_of(self.path) == lock.identity:
                return lock
            lock.close()
        raise ProjectionStale("the projection's directory keeps being deleted")

    def _make_directories(self) -> None:
        for directory in (self.path.parent.parent, self.path.parent, self.path):
            directory.mkdir(mode=0o700, exist_ok=True)

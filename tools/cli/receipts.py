"""Files of kept answers, each {tool, request, answer}, and what came of deriving them again.

A file holds one document, or, where its name ends in .jsonl, one a line; a directory means its files of both kinds.
They are gone through twice, first for their cursors: so the past is gone through once, and one document is held at a
time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from journal.limits import RECEIPT_DOCUMENT_MAX_BYTES
from tools.cli import terminal
from tools.cli.failures import CANNOT_RUN, REFUSED, CannotRun
from tools.memory.receipt_check import Checked, ReceiptVerifier, Verdict, unreadable
from tools.memory.told import NoAnswer, Told, told_of
from tools.server.decoding import Flaw, decode

if TYPE_CHECKING:
    from journal.log import Journal
    from tools.host.binding import Binding
    from tools.memory.semantic import Semantic

_WORST_FIRST = (Verdict.ALTERED, Verdict.UNVERIFIABLE, Verdict.ORDER_UNDERIVABLE, Verdict.DERIVED)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document stands."""

    path: Path
    line: int | None  # of a file of many; the first is 1
    offset: int
    size_bytes: int

    def read(self) -> Told:
        """Return the answer that stands here.

        Raises:
            NoAnswer: none does.
        """
        if self.size_bytes > RECEIPT_DOCUMENT_MAX_BYTES:
            raise NoAnswer("the document is too large to be an answer")
        with self.path.open("rb") as file:
            file.seek(self.offset)
            raw = file.read(self.size_bytes)
        try:
            return told_of(decode(raw))
        except Flaw as flaw:
            raise NoAnswer(f"the document cannot be read: {flaw.reason.value}") from None


def checked(
    journal: Journal,
    binding: Binding,
    paths: Sequence[Path],
    report_progress: Callable[[int, int], None],
    semantic: Semantic | None = None,
) -> list[tuple[Place, Checked]]:
    """Return the verdicts of all documents of files and directories, in the order in which they stand.

    Raises:
        CannotRun: there is no document.
    """
    places = [place for path in paths for file in _files(path) for place in _places(file)]
    if not places:
        raise CannotRun("there is no receipt to check")
    found: dict[int, Checked] = {}
    cursors: list[tuple[int, int]] = []
    for number, place in enumerate(places):
        try:
            cursors.append((place.read().cursor, number))
        except NoAnswer as error:
            found[number] = unreadable(error)
    with ReceiptVerifier(journal, binding, semantic) as verifier:
        for _, number in sorted(cursors):
            report_progress(len(found), len(places))
            found[number] = verifier.check(places[number].read())
    report_progress(len(places), len(places))
    return [(place, found[number]) for number, place in enumerate(places)]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in (".json", ".jsonl") and each.is_file())


def _places(path: Path) -> Iterator[Place]:
    if path.suffix != ".jsonl":
        yield Place(path, None, 0, path.stat().st_size)
        return
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield Place(path, number, offset, len(line))
            offset += len(line)


def as_document(results: Sequence[tuple[Place, Checked]]) -> dict[str, Any]:
    """Return what the command prints as JSON; ``verdict`` is the worst there is."""
    counts = Counter(each.verdict for _, each in results)
    return {
        "verdict": _worst(results).value,
        "counts": {verdict.value: counts[verdict] for verdict in Verdict},
        "erased": sorted({record_id for _, each in results for record_id in each.erased}),
        "receipts": [{"file": str(place.path), "line": place.line, **each.as_json()} for place, each in results],
    }


def _worst(results: Sequence[tuple[Place, Checked]]) -> Verdict:
    present = {each.verdict for _, each in results}
    return next(verdict for verdict in _WORST_FIRST if verdict in present)


def exit_code(results: Sequence[tuple[Place, Checked]]) -> int:
    """Return 1 where an answer was altered, else 2 where one could not be checked, else 0."""
    return {Verdict.ALTERED: REFUSED, Verdict.UNVERIFIABLE: CANNOT_RUN}.get(_worst(results), 0)


def told(results: Sequence[tuple[Place, Checked]]) -> Iterator[str]:
    """Yield the lines that a person reads."""
    for place, each in results:
        where = str(place.path) if place.line is None else f"{place.path}:{place.line}"
        asked = "" if each.cursor is None else f", {each.tool} as of cursor {each.cursor}"
        yield terminal.one_line(f"{each.verdict.value:<17} {where}{asked}")
        if each.reason is not None:
            yield terminal.one_line(f"  {each.reason}")
        yield from (terminal.one_line(f"  differs: {place}") for place in each.differs)
        yield from (terminal.one_line(f"  erased since: {record_id}") for record_id in each.erased)
        if each.verdict is Verdict.ORDER_UNDERIVABLE:
            yield f"  {each.verified} surviving records are what the answer shows, and were to be read then"
    if len(results) > 1:
        counts = Counter(each.verdict for _, each in results)
        yield ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])

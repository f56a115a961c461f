"""Whether a ranking is what the journal says and nothing else: the same after any history, and after a rebuild.

    python -m bench.same_ranking --data DIR [--documents N] [--changes N] [--queries N]

One index is filled with texts of LoCoMo and KorQuAD in order, in many segments, and then changed: documents come and go
one by one, with the merges that are due. Another gets what is left in a random order, with other documents between them
that go again, and all its segments are merged. A third is built anew, as a rebuild does. Each ranking is the whole one,
with context and priors; they are compared by the bytes of cursors and scores.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from bench.conversation import utterances
from bench.search_speed import questions
from bench.searching.lexical_index import LexicalIndex

SEGMENTS: Final = 10
BATCH: Final = 1_000


def rankings(index: LexicalIndex, queries: Sequence[str]) -> list[bytes]:
    """Return the digest of each query's ranking: (cursor, score) of the ten best, in order."""
    return [blake3(msgspec.msgpack.encode(index.ranked(query).hits[:10])).digest() for query in queries]


def changed(index: LexicalIndex, texts: Sequence[str], stay: set[int], rng: random.Random) -> None:
    """Bring an index of the first half of the changes to what is to stay, one document at a time."""
    there = set(range(index.documents))
    steps = [("add", number) for number in sorted(stay - there)]
    steps += [("delete", number) for number in sorted(there - stay)]
    rng.shuffle(steps)
    for step, number in steps:
        if step == "add":
            index.put(number, texts[number])
        else:
            index.delete(number)
    index.merge()


def in_another_order(place: Path, texts: Sequence[str], stay: set[int], rng: random.Random) -> LexicalIndex:
    """Return an index of what is to stay, filled in a random order, with others between that go again."""
    index = LexicalIndex(place)
    order = list(range(len(texts)))
    rng.shuffle(order)
    for first in range(0, len(order), BATCH):
        part = order[first : first + BATCH]
        index.put_all([(number, texts[number]) for number in part])
        for number in part:
            if number not in stay:
                index.delete(number)
    index.merge()
    return index


def main() -> int:
    """Build, change, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the texts")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=10_000, help="documents that come or go, as many of each")
    parser.add_argument("--queries", type=int, default=1_000)
    options = parser.parse_args()
    rng, half, began = random.Random(17), options.changes // 2, time.perf_counter()
    texts = list(utterances(options.data, options.documents + half))
    queries = questions(options.data)[: options.queries]
    stay = set(range(len(texts))) - set(rng.sample(range(options.documents), half))
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        first = LexicalIndex(Path(directory) / "first")
        first.build(texts[: options.documents], SEGMENTS)
        changed(first, texts, stay, rng)
        found = {"changed one by one": (first, rankings(first, queries))}
        other = in_another_order(Path(directory) / "other", texts, stay, rng)
        found["in another order"] = other, rankings(other, queries)
        anew = LexicalIndex(Path(directory) / "anew")
        anew.put_all([(number, texts[number]) for number in sorted(stay)])
        found["built anew"] = anew, rankings(anew, queries)
        expected = found["built anew"][1]
        differ = {name: sum(a != b for a, b in zip(said, expected, strict=True)) for name, (_, said) in found.items()}
        for name, (index, said) in found.items():
            print(f"{name:20} {index.segments:3} segments  {differ[name]:4} of {len(said):,} rankings differ")
            index.close()
    print(f"{time.perf_counter() - began:.0f} s in all", file=sys.stderr)
    return 1 if any(differ.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

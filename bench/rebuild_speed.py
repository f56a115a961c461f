"""How long a rebuild takes beside SQLite FTS5, which makes the same terms of the same texts and indexes them.

    python -m bench.rebuild_speed --data DIR [--documents N] [--no-visible]

A store is filled with records whose texts are those of LoCoMo and KorQuAD in DIR, cut to 50 to 400 characters. Then the
projections that a search of records reads, current and lexical, are rebuilt as the command does it: the journal is read
and verified, each body decrypted and decoded, everything folded, written and put in force. FTS5 gets the texts alone:
in one process it makes their terms by the engine's tokenizer and indexes them in one transaction, and, for what that
costs by itself, indexes terms that were made before.

Seconds are of the clock and, behind them, of the processor, by which the two are compared.

At the end it is told what a search costs more that takes in a record which was committed just before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.conversation import utterances
from bench.peers.spelling import text_of
from bench.searching.live import LiveStore
from projections.lexical.tokens import Tokenizer
from replay.rebuild import collecting_seldom

COMMITS = 200


def took(what: str, action: Callable[[], object]) -> float:
    """Do something, print how long it took, and return the seconds of the processor."""
    began, before = time.perf_counter(), time.process_time()
    action()
    spent = time.process_time() - before
    print(f"{what:52}{time.perf_counter() - began:9.2f} s{spent:9.2f} s of the processor", flush=True)
    return spent


def fts5_figures(texts: list[str]) -> float | None:
    """Print what FTS5 takes; return the processor's seconds from text to index, None where it is not installed."""
    try:
        from bench.peers.fts5 import Fts5
    except ImportError:
        print("SQLite FTS5: not installed", file=sys.stderr)
        return None
    tokenizer = Tokenizer()
    whole = Fts5()
    seconds = took(
        "SQLite FTS5, from texts", lambda: whole.build(tokenizer.document_terms(text) for text in texts)
    )  # fmt: skip
    whole.close()
    terms = [tokenizer.document_terms(text) for text in texts]
    for each in terms:
        text_of(each)  # so that it does not pay for the spelling
    indexing = Fts5()
    took("SQLite FTS5, from terms that were made before", lambda: indexing.build(terms))
    indexing.close()
    return seconds


def visible_figures(store: LiveStore) -> None:
    """Print what a search takes right after a commit, with and without something to take in."""
    taking, nothing = (np.percentile(times, [50, 95, 99]) * 1000 for times in store.taken_in(COMMITS))
    print(f"{'a search after a commit, ms':52}{'p50':>9}{'p95':>9}{'p99':>9}")
    for name, times in (("in its scope", taking), ("in another scope", nothing), ("more", taking - nothing)):
        print(f"  {name:50}" + "".join(f"{value:9.3f}" for value in times))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--visible", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    texts = list(utterances(options.data, options.documents))
    print(f"{options.documents:,} documents of {sum(map(len, texts)) // len(texts)} characters")
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        store = LiveStore(Path(directory) / "store")
        store.record(texts)
        ours = took("engram, current and lexical", store.rebuild)
        with collecting_seldom():  # as the rebuild does
            theirs = fts5_figures(texts)
        if theirs is not None:
            print(f"engram over FTS5 from texts, of the processor: {ours / theirs:.2f}")
        if options.visible:
            visible_figures(store)
        store.close()


if __name__ == "__main__":
    main()

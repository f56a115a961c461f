"""What a process takes that has only a lexical index open: python -m bench.searching.memory PLACE < questions.json.

Prints the RssAnon, in bytes, before the index is opened and after all questions were asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.searching.lexical_index import LexicalIndex


def rss_anon_bytes() -> int:
    """Return this process's anonymous memory."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def resident(place: Path, queries: Sequence[str]) -> tuple[int, int]:
    """Return the two figures of a process of its own: with nothing open, and after all queries."""
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-m", "bench.searching.memory", str(place)], input=json.dumps(queries), check=True,
        capture_output=True, text=True, cwd=root,
    )  # fmt: skip
    bare, full = json.loads(ran.stdout)
    return bare, full


def main() -> None:
    """Ask everything, and say what it takes."""
    queries = json.load(sys.stdin)
    bare = rss_anon_bytes()
    index = LexicalIndex(Path(sys.argv[1]), readonly=True)
    for query in queries:
        index.ranked(query)
    print(json.dumps([bare, rss_anon_bytes()]))
    index.close()


if __name__ == "__main__":
    main()

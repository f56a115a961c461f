"""One target under atheris, which looks for inputs that reach new lines: ``python -m fuzz.guided TARGET SECONDS``.

It stops at the first finding, prints it in hex, and exits with another code than 0. The line goes into the seeds.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    """Run libFuzzer over the target's seeds for the seconds that are given."""
    target_name, seconds = sys.argv[1], int(sys.argv[2])
    atheris: Any = importlib.import_module("atheris")  # ships no types
    with atheris.instrument_imports(include=["journal", "projections", "tools"]):
        targets: Any = importlib.import_module("fuzz.targets")
    seeds: Any = importlib.import_module("fuzz.kept")
    target = targets.TARGETS[target_name]

    def tried(raw: bytes) -> None:
        try:
            target(raw)
        except BaseException:
            sys.stderr.write(f"finding of {target_name}: {raw.hex()}\n")
            raise

    with tempfile.TemporaryDirectory(prefix="engram-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(seeds.seeds(target_name)):
            (corpus / str(number)).write_bytes(seed)
        options = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=0"]
        atheris.Setup(
            [sys.argv[0], *options, "-print_final_stats=1", f"-artifact_prefix={folder}/", str(corpus)], tried
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()

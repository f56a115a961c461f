"""The page of promises names tests that exist, with the counts that pytest collects."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "promises.md"
LINES_MAX = 256
COLUMNS_MAX = 120
NAMED = re.compile(r"`(?=tests/|::)(tests/[\w/]+\.py)?((?:::\w+)*)`(?:\s+\((\d[\d,]*)(?: tests?)?\))?")
SETS_ANOTHER_NUMBER = {"ENGRAM_RIGS", "PYTEST_ADDOPTS"}


def named(text: str) -> list[tuple[str, int | None]]:
    """Return each test or test file that a text names, and the count beside it; `::name` is of the file named last."""
    said: list[tuple[str, int | None]] = []
    last = ""
    for file, name, count in NAMED.findall(text):
        last = file or last
        said.append((last + name, int(count.replace(",", "")) if count else None))
    return said


def collected(files: list[str]) -> Counter[str]:
    """Return how many cases pytest collects of each file, class and test."""
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in SETS_ANOTHER_NUMBER},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-2000:]
    counts: Counter[str] = Counter()
    for line in told.stdout.splitlines():
        if line.startswith("tests/") and "::" in line:
            parts = line.partition("[")[0].split("::")
            counts.update("::".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return counts


def wrong(said: list[tuple[str, int | None]], counts: Counter[str]) -> list[str]:
    """Return what a page says of tests that is not so."""
    return [
        f"{name}: {count} said, {counts[name]} collected"
        for name, count in said
        if not counts[name] or count not in {None, counts[name]}
    ]


def test_every_test_that_the_page_names_is_there_in_the_number_that_it_says():
    said = named(PAGE.read_text(encoding="utf-8"))
    assert len([count for _, count in said if count]) > 50
    files = sorted({name.partition("::")[0] for name, _ in said})
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert wrong(said, collected(files)) == []


def test_a_wrong_count_and_a_missing_test_are_found():
    said = named("`tests/a.py::test_b` (2), `::test_c`\n(1) and `tests/a.py` (1,003 tests), `tests/d.py`")
    assert said == [("tests/a.py::test_b", 2), ("tests/a.py::test_c", 1), ("tests/a.py", 1003), ("tests/d.py", None)]
    counts = Counter({"tests/a.py::test_b": 3, "tests/a.py": 1003})
    assert wrong(said, counts) == [
        "tests/a.py::test_b: 2 said, 3 collected",
        "tests/a.py::test_c: 1 said, 0 collected",
        "tests/d.py: None said, 0 collected",
    ]


def test_every_count_of_tests_stands_beside_a_name_that_is_looked_up():
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"`(?:tests/[^`]*\.py|::)[^`]*`", text)) == len(named(text))


def test_each_promise_says_against_whom():
    threats = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| ([a-z -]+) \|", threats, flags=re.MULTILINE)) - {"name", "against"}
    promises = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(promises) > 8
    for promise in promises:
        (against,) = re.findall(r"^Against: (.+)\.$", promise, flags=re.MULTILINE)
        assert set(against.split(", ")) <= known, promise


def test_the_page_stays_short():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) < LINES_MAX
    assert [line for line in lines if len(line) > COLUMNS_MAX] == []

"""One seed for everything that draws, one line that runs it again, and no green end of a long form that did not run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from tests import runs

ROOT = Path(__file__).resolve().parents[1]


def test_what_fails_says_the_line_that_runs_it_again():
    with pytest.raises(AssertionError) as failed, runs.repeatable("crash", 7, CRASH_IMAGES=500):
        raise AssertionError
    assert failed.value.__notes__ == ["this run again: make crash SEED=7 CRASH_IMAGES=500"]


def test_the_seed_is_the_one_that_was_asked_for(monkeypatch):
    monkeypatch.setenv("ENGRAM_SEED", "77")
    assert runs.seed() == runs.seed("1") == "77"
    monkeypatch.delenv("ENGRAM_SEED")
    assert runs.seed("1") == "1"
    assert int(runs.seed()) != int(runs.seed()) or int(runs.seed()) != int(runs.seed())


def test_any_text_is_a_seed_and_a_number_stays_itself(monkeypatch):
    monkeypatch.setenv("ENGRAM_SEED", "30nov")
    assert runs.seed("1") == "30nov"
    assert runs.number_of("30nov") == runs.number_of("30nov") != runs.number_of("31nov")
    assert [runs.number_of(text) for text in ("0", "77", "-3")] == [0, 77, -3]
    assert runs.again("crash", "two words") == "this run again: make crash SEED='two words'"


def test_what_draws_is_collected_whatever_the_seed():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "--collect-only", "tests/simulator",
         "tests/team", "tests/rigs", "tests/crash", "tests/faults", "tests/corruption"],
        cwd=ROOT, env={**os.environ, "ENGRAM_SEED": "30nov"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("is_long", "ci", "ends"),
    [(False, "", Skipped), (True, "", Failed), (False, "true", Failed), (True, "true", Failed)],
)
def test_a_long_form_that_cannot_run_fails(monkeypatch, is_long, ci, ends):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ends):
        runs.unable("there is no recorder", is_long=is_long)


@pytest.mark.parametrize(("images", "code"), [(None, 0), ("1", 1)])
def test_crash_images_without_a_recorder_are_skipped_briefly_and_fail_at_length(tmp_path, images, code):
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment["PATH"] = str(tmp_path)
    if images:
        environment["ENGRAM_CRASH_IMAGES"] = images
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "tests/crash/test_crash_images.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    assert "strace is not installed" in done.stdout or not images


def test_a_small_disk_that_cannot_be_had_is_skipped_briefly_and_fails_at_length(tmp_path):
    (tmp_path / "mount").write_text("#!/bin/sh\nexit 32\n")
    (tmp_path / "mount").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    for more, code in (({}, 0), ({"ENGRAM_FAULTS": "1"}, 1)):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "tests/faults/test_full_disk.py"],
            cwd=ROOT, env={**environment, **more}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout


def test_no_rig_spells_its_seed_otherwise():
    told = [
        ROOT / "Makefile",
        ROOT / "docs" / "rigs.md",
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "bench").rglob("*.py"),
    ]
    otherwise = re.compile(r"\b(?!ENGRAM_SEED\b)[A-Z_]*[A-Z]_SEED\b")
    found = [(path.name, name) for path in told for name in otherwise.findall(path.read_text(encoding="utf-8"))]
    assert found == []

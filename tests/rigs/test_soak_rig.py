"""The soak itself, for a few seconds: everything is done once, everything is looked at, and what is wrong is told."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench import soak as soak_module
from bench.soak import Soak
from bench.soaking.book import CURRENT, FORGOTTEN, PENDING, Book, Kept
from bench.soaking.calls import Calls
from bench.soaking.checks import against_events, planted_is_told
from bench.soaking.figures import of_processes, slope, so_far, table
from bench.soaking.operator import Mark
from bench.soaking.plot import svg
from bench.soaking.traces import Needles
from tests import runs
from tests.rigs.conftest import MEMORY

SEED = runs.seed("5")


@pytest.mark.timeout(400)  # of a machine that does ten things at once
def test_a_short_soak_holds_and_is_measured(tmp_path):
    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with (
        runs.repeatable("soak", SEED, MINUTES=0),
        tempfile.TemporaryDirectory(prefix="engram-soak-", dir=in_memory) as made,
    ):
        soak = Soak(Path(made), tmp_path / "out", minutes=0, seed=runs.number_of(SEED))
        lines = soak.run()
        soak.must_hold()
    for operation in ("capture", "admit", "message"):
        assert soak.book.acknowledged[operation] > 0, lines
    for looked_at in ("events", "answers", "entries in the restored copy"):
        assert soak.looked_for[looked_at] > 0, lines
    written = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_text().splitlines()]
    marks = Counter(line["mark"]["what"] for line in written if "mark" in line)
    assert marks == dict.fromkeys(("kill", "rebuild", "backup", "rotation", "supersede"), 1), marks
    assert sum(client.deaths for client in soak.clients) > 0
    samples = [line for line in written if "mark" not in line]
    assert max(len(sample["processes"]) for sample in samples) == 4
    assert samples[-1]["bytes"]["journal"] > samples[0]["bytes"]["journal"] > 0
    ET.parse(tmp_path / "out" / "soak.svg")  # noqa: S314 - of our own making
    assert (tmp_path / "out" / "table.txt").read_text().splitlines() == lines


class TestTelling:
    """What a soak says before its end, and where it fails."""

    @staticmethod
    def begun(tmp_path: Path, **changes: Any) -> Soak:
        soak = Soak(tmp_path, tmp_path / "out", seed=1, **{"minutes": 0, **changes})
        soak.book = Book(1)
        return soak

    def test_which_violation_it_was(self, tmp_path):
        soak = self.begun(tmp_path)
        soak.is_planted_told = True
        soak.must_hold()
        soak.book.wrong("mem_1 was acknowledged, and is not there")
        with pytest.raises(AssertionError, match="mem_1 was acknowledged, and is not there"):
            soak.must_hold()

    def test_that_the_control_did_not_work(self, tmp_path):
        with pytest.raises(AssertionError, match="planted"):
            self.begun(tmp_path).must_hold()

    def test_which_violations_there_were_where_it_breaks_off(self, tmp_path, monkeypatch):
        def breaking(self: Soak) -> None:
            self.book.wrong("a word was found that was forgotten")
            raise RuntimeError

        monkeypatch.setattr(Soak, "_load", breaking)
        with pytest.raises(RuntimeError) as failed:
            Soak(tmp_path, tmp_path / "out", minutes=0, seed=1).run()
        assert failed.value.__notes__ == ["violation: a word was found that was forgotten"]

    def test_how_it_stands_while_it_runs(self, tmp_path, monkeypatch):
        lines: list[str] = []
        monkeypatch.setattr(soak_module, "TOLD_SECONDS", 0.01)
        soak = self.begun(tmp_path, minutes=0.001, tell=lines.append)
        sampler, client = SimpleNamespace(samples=[sample(60, 10**7)]), SimpleNamespace(deaths=2)
        vars(soak).update(sampler=sampler, clients=[client])
        soak.book.wrong("one")
        soak._wait(time.monotonic())
        assert lines.count("violation: one") == 1
        assert lines[0] == so_far(sample(60, 10**7), 2)
        for figure in ("1.0 min", "acknowledged 600", "killed 2", "journal 0.1", "violations 0"):
            assert figure in lines[0]


def entry(number: int, state: str, kind: str = "record") -> Kept:
    subject = f"{'message' if kind == 'message' else 'candidate'}_{number}"
    return Kept("default", 0, kind, f"word{number}", f"a word{number}", f"key{number}", subject, f"mem_{number}", state)


def events(*entries: Kept):
    for each in entries:
        yield {"subject": each.subject, "type": "message" if each.kind == "message" else "capture", "to_state": PENDING}
        if each.state != PENDING:
            yield {"subject": each.subject, "type": "accept", "to_state": each.state}
    yield {"subject": None, "type": "key_rotation", "to_state": None}


class TestAgainstEvents:
    ENTRIES = (entry(1, CURRENT), entry(2, PENDING), entry(3, FORGOTTEN), entry(4, "active", "message"))

    def test_what_is_as_it_should_be(self):
        assert against_events(self.ENTRIES, events(*self.ENTRIES), 0) == []
        assert planted_is_told(self.ENTRIES, list(events(*self.ENTRIES)), 0)

    @pytest.mark.parametrize("lost", range(4))
    def test_a_lost_acknowledgement(self, lost):
        kept = [each for at, each in enumerate(self.ENTRIES) if at != lost]
        assert len(against_events(self.ENTRIES, events(*kept), 0)) == 1

    def test_a_doubled_and_an_unknown_capture_and_another_state(self):
        assert len(against_events(self.ENTRIES, events(*self.ENTRIES, self.ENTRIES[1]), 0)) == 1
        assert len(against_events(self.ENTRIES[1:], events(*self.ENTRIES), 0)) == 1
        assert (
            len(against_events(self.ENTRIES, events(replace(self.ENTRIES[0], state=FORGOTTEN), *self.ENTRIES[1:]), 0))
            == 1
        )

    def test_messages_besides_are_no_more_than_were_sent(self):
        assert against_events(self.ENTRIES[:3], events(*self.ENTRIES), 1) == []
        assert len(against_events(self.ENTRIES[:3], events(*self.ENTRIES), 0)) == 1


class TestCalls:
    @staticmethod
    def found(text: str):
        return {"ok": True, "output": {"value": {"record": {"components": [{"text": text}]}}}}

    def test_another_text_and_forgotten_content_are_told(self):
        for state, answer, wrong in (
            (CURRENT, self.found("a word1"), 0),
            (CURRENT, self.found("another"), 1),
            (FORGOTTEN, self.found("a word1"), 1),
            (FORGOTTEN, {"ok": False, "error": {"code": "NOT_FOUND"}}, 0),
        ):  # fmt: skip
            book = Book(1)
            Calls(book).get(entry(1, state)).answered(answer)
            assert len(book.violations) == wrong, (state, book.violations)

    def test_an_answer_is_not_judged_where_something_changed_meanwhile(self):
        book, one = Book(1), entry(1, FORGOTTEN)
        planned = Calls(book).get(one)
        one.version += 1
        planned.answered(self.found("a word1"))
        assert book.violations == []

    def test_a_search_that_finds_nothing_or_too_much_is_told(self):
        for ids, wrong in ((["mem_1"], 0), ([], 1), (["mem_1", "mem_2"], 1)):
            book = Book(1)
            records = [{"record": {"record_id": each}} for each in ids]
            Calls(book).find(entry(1, CURRENT)).answered({"ok": True, "output": {"value": {"records": records}}})
            assert len(book.violations) == wrong, ids


def test_needles_are_found_wherever_they_stand(tmp_path):
    wanted = [b"needle-of-eight", b"\x00\x01\x02\x03\x04\x05\x06\x07", b"never there"]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"n" * 1_000 + wanted[0] + wanted[1])
    (tmp_path / "across").write_bytes(bytes((1 << 23) - 3) + wanted[0])
    (tmp_path / "small").write_bytes(b"n")
    found = Needles(wanted).under(tmp_path)
    assert {needle: sorted(files) for needle, files in found.items()} == {
        wanted[0]: ["across", "deep/file"], wanted[1]: ["deep/file"],
    }  # fmt: skip


def sample(at: float, rss: int) -> dict:
    return {
        "at_seconds": at, "acknowledged": int(at * 10), "calls_per_second": 10.0,
        "latency_ms": {"get": {"calls": 3, "p50": 1.0, "p99": 2.0}}, "bytes": {"journal": int(at * 1000), "keys": 4096},
        "violations": 0,
        "processes": [
            {"server": n, "lives_on": n == 0, "rss_anon_bytes": rss, "descriptors": 20, "threads": 8} for n in (0, 1)
        ],
    }  # fmt: skip


def test_a_leak_shows_as_a_slope_of_who_lived_on():
    leaking = [sample(at, 10**7 + at * 1000) for at in range(1, 31)]
    assert {server: round(line.a_unit) for server, line in of_processes(leaking, "rss_anon_bytes").items()} == {0: 1000}
    steady = [sample(at, 10**7) for at in range(1, 31)]
    assert of_processes(steady, "rss_anon_bytes")[0].a_unit == 0
    assert slope([(1, 1)]) is None
    assert any("journal" in line and "97.7 KiB" in line for line in table(leaking, {}))


def test_the_drawing_has_a_line_a_figure_and_a_mark_each_time():
    samples = [sample(at, 10**7) for at in range(1, 11)]
    drawn = ET.fromstring(svg("<soak>", samples, [Mark("kill", 3.0, 0.1)]))  # noqa: S314 - of our own making
    name = "{http://www.w3.org/2000/svg}"
    assert len(drawn.findall(f"{name}polyline")) == 2 + 2 + 3 * 2 + 2
    (red,) = [each.get("d") for each in drawn.iter(f"{name}path") if each.get("stroke") == "#c62828"]
    assert red == "M108.0 0v150"
    assert len(drawn.findall(f"{name}use")) == 8, "one a panel"

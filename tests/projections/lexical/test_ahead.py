"""Weighing in a second process: the same as here, and never in the way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from projections.lexical import ahead as weighing
from projections.lexical.ahead import Ahead, Assisted
from projections.lexical.documents import Document, Weigher
from projections.lexical.keyed import TokenKey
from projections.lexical.profile import RECORD_FIELDS

KEY = bytes(range(32))


def document(number: int) -> Document:
    text = f"Note {number}: 알림을 보냈다, on Monday?"
    return Document((("primary", text), ("context", "Ada")), main=text, source="talk" * (number % 2), labels=("Ada",))


@pytest.fixture
def weigher():
    return Weigher(TokenKey(KEY), RECORD_FIELDS)


@pytest.fixture
def ahead():
    with Ahead(KEY) as started:
        yield started


def test_what_was_asked_for_is_what_the_weigher_says(ahead, weigher):
    ahead.ask([document(number) for number in range(5)])
    ahead.ask([document(number) for number in range(5, 400)])
    for number in (7, 1, 399, 0):
        assert ahead.take(document(number), number) == weigher.arriving(document(number), number)


def test_what_was_not_asked_for_or_was_taken_is_weighed_here(ahead, weigher):
    ahead.ask([document(1)])
    assert ahead.take(document(2), 9) is None
    assert ahead.take(document(1), 9) is not None
    assert ahead.take(document(1), 9) is None
    assert Assisted(weigher, ahead).arriving(document(1), 9) == weigher.arriving(document(1), 9)


def test_what_nobody_takes_is_dropped(ahead, monkeypatch):
    monkeypatch.setattr(weighing, "_KEPT_MAX", 10)
    for first in range(0, 100, 20):
        ahead.ask([document(number) for number in range(first, first + 20)])
    assert ahead.take(document(99), 1) is not None
    assert len(ahead._found) < 20


def test_a_worker_that_dies_is_missed_by_nobody(ahead, weigher):
    ahead.ask([document(1)])
    assert ahead._process is not None
    ahead._process.kill()
    ahead._process.wait()
    for number in range(3):
        ahead.ask([document(number)])
        assert Assisted(weigher, ahead).arriving(document(number), 5) == weigher.arriving(document(number), 5)


def test_a_worker_that_cannot_be_started_is_missed_by_nobody(weigher, monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with Ahead(KEY) as ahead:
        ahead.ask([document(1)])
        assert Assisted(weigher, ahead).arriving(document(1), 5) == weigher.arriving(document(1), 5)


def test_a_text_that_is_no_unicode_is_weighed_here(ahead, weigher):
    broken = Document((("primary", "\ud800 word"),), main="\ud800 word")
    ahead.ask([broken])
    assert Assisted(weigher, ahead).arriving(broken, 5) == weigher.arriving(broken, 5)


def test_the_worker_is_given_nothing_of_the_environment_but_the_interpreters_own(monkeypatch):
    monkeypatch.setenv("A_ROOT_KEY", "secret")
    with Ahead(KEY) as ahead:
        assert ahead._process is not None
        ahead.ask([document(1)])
        assert ahead.take(document(1), 1) is not None
        assert b"secret" not in Path(f"/proc/{ahead._process.pid}/environ").read_bytes()


def test_the_worker_ends_with_its_input_and_says_nothing_of_the_key(ahead):
    process = ahead._process
    assert process is not None
    assert KEY.hex() not in "".join(process.args)
    ahead.close()
    assert process.returncode == 0

"""Time and randomness to hold in one's hand."""

from __future__ import annotations

import threading

from journal.scope import Scope
from journal.testing import ManualClock, SeededRandomness

HERE, THERE = Scope.of("tenant:one", "workspace:one"), Scope.of("tenant:one", "workspace:two")


def test_a_clock_stands_until_it_is_moved():
    clock = ManualClock(1_000)
    assert [clock.now(), clock.now()] == [1_000, 1_000]
    clock.advance(days=1, seconds=1.5, milliseconds=3)
    assert clock.now() == 1_000 + 86_400_000 + 1_503
    clock.advance(seconds=-2)
    assert clock.now() == 86_400_503
    clock.set(5)
    assert clock.now() == 5


def test_a_stream_is_the_same_however_it_is_cut():
    one, two = SeededRandomness(b"seed"), SeededRandomness(b"seed")
    assert b"".join(one.draw(HERE, size) for size in (1, 31, 0, 200, 5)) == two.draw(HERE, 237)


def test_streams_depend_on_seed_and_scope_alone():
    mixed, alone = SeededRandomness(b"seed"), SeededRandomness(b"seed")
    drawn = []
    for _ in range(10):
        mixed.draw(THERE, 1_000)
        drawn.append(mixed.draw(HERE, 16))
    assert b"".join(drawn) == alone.draw(HERE, 160)
    assert alone.draw(THERE, 160) != b"".join(drawn)
    assert SeededRandomness(b"other").draw(HERE, 160) != b"".join(drawn)


def test_threads_never_draw_the_same_bytes():
    randomness, drawn, mutex = SeededRandomness(b"seed"), [], threading.Lock()

    def work():
        for _ in range(200):
            found = randomness.draw(HERE, 16)
            with mutex:
                drawn.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 800

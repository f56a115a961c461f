"""What one process admits another finds at once, and nobody finds what was forgotten, whatever goes on beside."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter

from tests.rigs.captures import Driver, forget_arguments, remember, search
from tests.rigs.lineclient import CALL_SECONDS, code

LETTERS = "bcdfghjkmpqtvwxz"


def word(number):
    """A word that no other is like: no stem, no identifier."""
    return "z" + "".join(LETTERS[(number >> 4 * at) % 16] for at in range(4))


class Searcher:
    """A server that is asked, and what it answered."""

    def __init__(self, server):
        self.server = server
        self.refused: Counter[str] = Counter()
        self.asked = 0

    def found(self, query):
        """Search until it is answered; only a code that says so may be asked again."""
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            self.asked += 1
            answered = self.server.envelope("search", search(query))
            if answered["ok"]:
                return [packet["record"]["record_id"] for packet in answered["output"]["value"]["records"]]
            assert answered["error"]["retriable"], answered
            assert time.monotonic() < deadline
            self.refused[code(answered)] += 1


def upkeep(place, stop, done):
    """Rebuild and rotate, over and over."""
    commands = (("projections", "rebuild", "--all"), ("keys", "rotate"), ("projections", "rebuild", "lexical"))
    for words in itertools.cycle(commands):
        if stop.is_set():
            return
        ended = place.ended(*words)
        done[" ".join(words) if ended.returncode == 0 else f"failed: {words} {ended.stderr[-300:]}"] += 1


def capturing(driver, stop):
    """Begin to capture beside, without an end."""

    def run():
        for number in itertools.count():
            if stop.is_set():
                return
            driver.texts = [f"beside {number} {n}" for n in range(50)]
            driver.work()

    return threading.Thread(target=run, daemon=True)


def test_a_record_of_one_process_is_found_by_another_at_once(place, servers, sized, told):
    rounds, every = sized(20, 400), 20
    writer, *searchers = servers(sized(2, 3))
    asked = [Searcher(server) for server in searchers]
    driver = Driver(place, []).start()
    stop = threading.Event()
    done: Counter[str] = Counter()
    threads = [capturing(driver, stop), threading.Thread(target=upkeep, args=(place, stop, done), daemon=True)]
    for thread in threads:
        thread.start()
    known: dict[str, str] = {}
    forgotten: list[str] = []
    for number in range(rounds):
        known[word(number)] = remember(writer, f"{word(number)} matter {number}")
        for each in asked:
            assert each.found(word(number)) == [known[word(number)]]
            older = random.choice(list(known))
            assert each.found(older) == [known[older]]
            if forgotten:
                assert each.found(random.choice(forgotten)) == []
        if number % every == every - 1:
            gone = random.choice(list(known))
            arguments = forget_arguments(known.pop(gone))
            assert writer.code("forget", arguments) == "gate_failed"
            assert place.approve_all() == [0]
            for each in asked:
                assert each.found(gone) == []
            forgotten.append(gone)
            assert writer.value("forget", arguments)["receipt"]["to_state"] == "tombstoned"
    stop.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not [name for name in done if name.startswith("failed")], done
    for each in asked:
        for name, record_id in known.items():
            assert each.found(name) == [record_id]
    longest = max(server.longest_seconds for server in [writer, *searchers, driver.server])
    assert longest < CALL_SECONDS
    assert driver.server.close() == 0
    place.audited()
    assert set(place.captured().values()) == {1}
    told(
        records=rounds, forgotten=len(forgotten), searches=sum(each.asked for each in asked), upkeep=dict(done),
        captured_beside=len(driver.acknowledged), refused_beside=dict(driver.refused),
        refused=dict(sum((each.refused for each in asked), Counter())), longest_wait_seconds=round(longest, 2),
    )  # fmt: skip

"""Many server processes capture into one store while some are killed: what was acknowledged is there once."""

from __future__ import annotations

import random
import time
from collections import Counter

from tests.rigs.captures import Driver
from tests.rigs.lineclient import CALL_SECONDS


def test_servers_killed_at_random_lose_nothing_and_double_nothing(place, sized, told):
    chance = random.Random(time.time_ns())
    processes, each, rounds = sized(3, 8), sized(60, 200), sized(1, 10)
    drivers = [Driver(place, []).start() for _ in range(processes)]
    acknowledged: dict[str, str] = {}
    longest, slowest, readers = 0.0, 0.0, []
    for number in range(rounds):
        victims = chance.sample(range(processes), sized(1, 2))
        begun = time.monotonic()
        for at, driver in enumerate(drivers):
            driver.texts = [f"round {number} process {at} capture {n}" for n in range(each)]
            driver.acknowledged = {}
        for at in victims:
            drivers[at].kill_when(chance.randrange(each - 5), chance)
        for driver in drivers:
            driver.begin()
        for driver in drivers:
            driver.join(120)
        assert [len(driver.acknowledged) for driver in drivers] == [each] * processes
        for driver in drivers:
            acknowledged |= driver.acknowledged
        spans = sorted(driver.ended_at - begun for at, driver in enumerate(drivers) if at not in victims)
        slowest = max(slowest, spans[-1] / spans[0])
        longest = max(longest, *(driver.longest_seconds for driver in drivers))
        assert place.captured() == Counter(dict.fromkeys(acknowledged.values(), 1))
        readers.append(place.readers())
        # A slot for each call in flight, the writer and the sweeper, and one for the command that counts.
        assert readers[-1] <= processes * (drivers[0].window + 2) + 1, readers
    deaths = sum(driver.deaths for driver in drivers)
    assert deaths == rounds * sized(1, 2), "each kill came while its driver was at work"
    assert longest < CALL_SECONDS
    assert len(set(acknowledged.values())) == processes * each * rounds
    assert place.audited() == processes * each * rounds
    pids = set(place.json("stats")["store"]["open"]["pids"])
    assert pids == {driver.server.process.pid for driver in drivers}, "the dead are not counted as open"
    assert [driver.server.close() for driver in drivers] == [0] * processes
    left = place.json("stats")["store"]
    assert (left["open"]["pids"], left["readers"]["used"] <= 1) == ([], True), left
    told(
        captures=len(acknowledged), kills=deaths, retried=sum(driver.retried for driver in drivers),
        of_those_committed=sum(driver.replayed for driver in drivers),
        refused=dict(sum((driver.refused for driver in drivers), Counter())), longest_wait_seconds=round(longest, 2),
        slowest_over_fastest=round(slowest, 2), readers=readers,
    )  # fmt: skip

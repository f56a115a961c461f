"""A process that dies at each failpoint while others capture: the others go on, and the next one finishes its work."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

from journal import failpoints
from tests.rigs.captures import Driver, forget_arguments, remember, search
from tests.rigs.lineclient import CALL_SECONDS

# The short form takes one step of each; the long form all of them, several times.
OF_A_CAPTURE = ("slot.written", "commit.before", "commit.after")
OF_A_FORGETTING = ("destroy.before", "destroy.after", "erasure.compacted")
OF_A_ROTATION = ("rotate.slots_written", "rotate.switched")
OF_A_ROOT_KEY = tuple(name for name in failpoints.NAMES if name.startswith("root."))  # tests/journal/test_rootchange.py
ELSEWHERE = frozenset(name for name in failpoints.NAMES if name.startswith(("backup.", "restore.")))
"""These die beside a store and not in it: tests/tools/cli/test_backup_killed.py."""
KILLED = -signal.SIGKILL


def test_every_failpoint_has_a_rig():
    known = {*OF_A_CAPTURE, *OF_A_FORGETTING, *OF_A_ROTATION, *OF_A_ROOT_KEY, *ELSEWHERE}
    assert known == set(failpoints.NAMES)


class Beside:
    """Drivers that capture beside what dies."""

    def __init__(self, place, processes):
        self.place = place
        self.drivers = [Driver(place, []) for _ in range(processes)]
        self.longest_seconds = 0.0

    def start(self):
        for driver in self.drivers:
            driver.start()
        return self

    def begin(self, each):
        for at, driver in enumerate(self.drivers):
            driver.texts = [f"process {at} capture {number}" for number in range(each)]
            driver.begin()

    def join(self):
        """Wait for them, and check that what was acknowledged is there once."""
        for driver in self.drivers:
            driver.join(120)
            self.longest_seconds = max(self.longest_seconds, driver.longest_seconds)
        acknowledged = [name for driver in self.drivers for name in driver.acknowledged.values()]
        counted = self.place.captured()
        assert {name: counted[name] for name in acknowledged} == dict.fromkeys(acknowledged, 1)
        assert max(counted.values()) == 1
        assert self.longest_seconds < CALL_SECONDS
        return len(acknowledged)

    def close(self):
        assert [driver.server.close() for driver in self.drivers] == [0] * len(self.drivers)
        self.place.audited()


def _many(chance):
    # A server passes the first step once or twice: a block of slots lasts for many captures.
    return ["slot.written"] + [f"{name}:{chance.randint(1, 15)}" for name in OF_A_CAPTURE[1:] * 5]


def test_a_server_that_dies_at_each_step_of_a_capture(place, sized, told):
    chance = random.Random(time.time_ns())
    doomed = [chance.choice(OF_A_CAPTURE)] if sized(True, False) else _many(chance)
    beside = Beside(place, sized(2, 8))
    beside.drivers[0].failpoints = list(doomed)
    beside.start().begin(sized(60, 400))
    captured = beside.join()
    assert [driver.deaths for driver in beside.drivers] == [len(doomed)] + [0] * (len(beside.drivers) - 1)
    assert captured == sum(place.captured().values())
    beside.close()
    told(captures=captured, deaths=len(doomed), longest_wait_seconds=round(beside.longest_seconds, 2))


def test_an_approver_that_dies_at_each_step_of_a_forgetting(place, sized, told):
    times, forgotten = sized(1, 3), 0
    beside = Beside(place, sized(1, 8)).start()
    server = beside.drivers[0].server
    for number in range(times):
        for name in sized([random.choice(OF_A_FORGETTING)], OF_A_FORGETTING):
            forgettings = [forget_arguments(remember(server, f"zebra {name} {number} {each}")) for each in range(2)]
            forgotten += len(forgettings)
            beside.begin(sized(40, 100))
            assert [server.code("forget", arguments) for arguments in forgettings] == ["gate_failed"] * 2
            codes = place.approve_all(name)
            assert codes[0] == KILLED, codes
            # The second approver may die of what the first one left over, before it decides anything.
            assert set(place.approve_all()) <= {0}
            beside.join()
            assert server.value("search", search("zebra"))["records"] == []
            deadline = time.monotonic() + CALL_SECONDS
            while {server.value("forget", each)["projection_invalidation"] for each in forgettings} != {"complete"}:
                assert time.monotonic() < deadline, "nobody finished what the dead process began"
                time.sleep(0.2)
    assert Counter(event["to_state"] for event in place.events())["tombstoned"] == forgotten
    (scope,) = place.json("stats")["scopes"]
    assert (scope["pending"]["destructions"], scope["pending"]["erasures"]) == (0, 0)
    beside.close()
    told(forgettings=forgotten, longest_wait_seconds=round(beside.longest_seconds, 2))


def test_a_rotation_that_dies_at_each_step(place, sized, told):
    times, rotations = sized(1, 5), 0
    beside = Beside(place, sized(1, 8)).start()
    server = beside.drivers[0].server
    remembered = {remember(server, f"lasting {number}") for number in range(3)}
    for _ in range(times):
        for name in sized([random.choice(OF_A_ROTATION)], OF_A_ROTATION):
            beside.begin(sized(40, 200))
            assert place.ended("keys", "rotate", failpoint=name).returncode == KILLED
            place.run("keys", "rotate")
            rotations += 2
            beside.join()
            found = server.value("search", search("lasting"))["records"]
            assert {packet["record"]["record_id"] for packet in found} == remembered
    beside.close()
    told(rotations=rotations, longest_wait_seconds=round(beside.longest_seconds, 2))

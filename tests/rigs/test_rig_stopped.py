"""A ninth process is stopped while it holds the writer lock: nobody hangs, readers go on, and after it so does all."""

from __future__ import annotations

import random
import signal
import time

from journal.filelock import FileLock
from tests.rigs.captures import capture, remember, search
from tests.rigs.lineclient import CALL_SECONDS, SLACK_SECONDS, code, envelope


def stop_with_the_lock(place, server):
    """Stop a server while it holds the lock that all writers need; return the answers it still owes, and the tries."""
    lock = FileLock(place.store / "journal" / "writer.lock")
    owed = []
    for tries in range(1, 2_000):
        owed += [(each, server.call("capture", each)) for each in (capture("held") for _ in range(4))]
        time.sleep(random.random() * 0.004)
        server.stop()
        if not lock.try_acquire():
            lock.close()
            return owed, tries
        lock.release()
        server.signal(signal.SIGCONT)
        if len(owed) > 200:
            owed = [(each, answer) for each, answer in owed if not answer.done() or code(envelope(answer)) != "ok"]
    raise AssertionError("never caught holding the lock")


def test_a_stopped_writer_holds_nobody_for_ever(place, servers, sized, told):
    others = servers(sized(2, 8))
    [ninth] = servers(1)
    record_id = remember(others[0], "a lasting matter")
    for server in [*others, ninth]:
        assert server.code("capture", capture("warm")) == "ok"
    owed, tries = stop_with_the_lock(place, ninth)

    asked = [(server, capture(f"meanwhile {n}")) for server in others for n in range(3)]
    answers = [server.call("capture", arguments) for server, arguments in asked]
    late = servers(sized(0, 1))  # one that opens the store meanwhile
    asked += [(server, capture("late")) for server in late]
    answers += [server.call("capture", arguments) for server, arguments in asked[len(answers) :]]
    for server in others:
        found = server.value("search", search("lasting matter"))["records"]
        assert [packet["record"]["record_id"] for packet in found] == [record_id]
        assert server.value("get", {"record_id": record_id, "purpose_ref": "purpose:memory"})
    assert place.audited() > 0
    assert place.events()
    assert place.readers() > 0
    assert not any(answer.done() for answer in answers)
    codes = []
    if sized(False, True):
        codes = [code(envelope(answer)) for answer in answers]
        assert set(codes[: len(others) * 3]) == {"DEADLINE_EXCEEDED"}
        assert set(codes) <= {"DEADLINE_EXCEEDED", "STORE_UNAVAILABLE"}
    ninth.signal(signal.SIGCONT)
    for (server, arguments), answer in zip(asked, answers, strict=True):
        assert codes or code(envelope(answer)) == "ok", "what waited is done once the lock is free"
        assert server.code("capture", arguments) == "ok"
    for arguments, answer in owed:
        assert code(envelope(answer)) in {"ok", "DEADLINE_EXCEEDED", "MUTATION_OUTCOME_UNKNOWN"}
        assert ninth.code("capture", arguments) == "ok"
    counted = place.captured()
    assert set(counted.values()) == {1}
    for server, arguments in asked:
        assert counted[server.value("capture", arguments)["candidate_id"]] == 1
    longest = max(server.longest_seconds for server in [*others, *late])
    assert longest < CALL_SECONDS + SLACK_SECONDS
    place.audited()
    told(
        others=len(others), tries=tries, answers=sorted(set(codes)) or ["ok"], calls=len(asked),
        longest_wait_seconds=round(longest, 2),
    )  # fmt: skip

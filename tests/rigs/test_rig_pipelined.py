"""Twenty mutations sent before any answer is read: twenty survive, and forty of two processes."""

from __future__ import annotations

from tests.rigs.captures import capture, new_key, search
from tests.rigs.lineclient import envelope


def test_pipelined_mutations_survive(place, servers, sized, told):
    first, second = servers(2)
    kept: set[str] = set()
    rounds = sized(2, 20)
    for number in range(rounds):
        for each in ((first,), (first, second)):
            answers = [
                answer
                for server in each
                for answer in server.calls("capture", [capture(f"flight {number} {n}") for n in range(20)])
            ]
            fresh = {envelope(answer)["output"]["value"]["candidate_id"] for answer in answers}
            assert len(fresh) == 20 * len(each)
            assert not fresh & kept
            kept |= fresh
    assert place.captured() == dict.fromkeys(kept, 1)

    # The same again for admissions: every other one by the other process, all at once.
    names = sorted(kept)[:40]
    answers = [
        answer
        for server, half in ((first, names[::2]), (second, names[1::2]))
        for answer in server.calls(
            "request_admission", [{"candidate_id": name, "idempotency_key": new_key("admit")} for name in half]
        )
    ]
    outcomes = [envelope(answer)["output"]["value"]["outcome"] for answer in answers]
    assert [outcome["status"] for outcome in outcomes] == ["accepted"] * 40
    for server in (first, second):
        found = server.value("search", search("flight", limit=50))["records"]
        assert {packet["record"]["record_id"] for packet in found} == {outcome["record_id"] for outcome in outcomes}
    assert place.audited() == len(kept) + 40

    # One key, three times in each of two processes, all at once: one event.
    keys = sized(20, 200)
    for number in range(keys):
        arguments = capture(f"the same {number}")
        answers = [answer for server in (first, second) for answer in server.calls("capture", [arguments] * 3)]
        [name] = {envelope(answer)["output"]["value"]["candidate_id"] for answer in answers}
        kept.add(name)
    assert place.captured() == dict.fromkeys(kept, 1)
    told(rounds=rounds, captures=len(kept), admissions=40, keys_sent_six_times=keys)

"""The simulation: one example is one store, two processes, and a row of operations that hypothesis draws."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.simulator.cast import HOUR, PEOPLE, PURPOSES, TAGS, TEXTS, WORDS, capture_arguments
from tests.simulator.hand import FAULTS, Hand
from tests.simulator.stage import DEATHS, Stage
from tests.simulator.standing import SAID_MOVES, Asked, Call, Thing
from tools.host.capabilities import (
    CAPTURE,
    FORGET,
    GET,
    MANAGE_KNOWLEDGE,
    REQUEST_ADMISSION,
    SAVE_MESSAGE,
    SEARCH,
    SEARCH_MEMORY,
    WITHDRAW,
)

UNKNOWN_CANDIDATE, UNKNOWN_RECORD = "candidate_" + "0" * 64, "mem_" + "a" * 52
UNKNOWN_MESSAGE = "message_" + "0" * 32
whos = st.integers(0, len(PEOPLE) - 1)
places = st.integers(0, 30)
seconds = st.booleans()
texts = st.sampled_from(TEXTS)
words = st.sampled_from(WORDS)
purposes = st.sampled_from((PURPOSES[0], PURPOSES[0], PURPOSES[1]))
tags = st.sampled_from(TAGS)
troubles = st.sampled_from((None,) * 8 + (*DEATHS, *FAULTS))
jumps = st.sampled_from((1, 1_000, 60_000, 360_000, HOUR, 24 * HOUR, 960 * HOUR, -1, -1_000, -60_000))


def at(things: list[Any], place: int) -> Any:
    """Return one of some things, or None where there is none."""
    return things[place % len(things)] if things else None


class Simulation(Stage):
    """The operations."""

    @initialize()
    def begin(self) -> None:
        """Let each person have a record and a message, so that there is something to work on from the first step."""
        for who in range(len(PEOPLE)):
            for text in (TEXTS[0], TEXTS[3]):
                self._captured(who, text, PURPOSES[0], False, None)
                self.call(who, REQUEST_ADMISSION, False, **self._admission(self._newest(who)))
            self.call(who, SAVE_MESSAGE, False, role="user", message=TEXTS[4])

    # --- records ------------------------------------------------------------------------------------

    def _captured(self, who: int, text: str, purpose: str, second: bool, trouble: str | None, **times: Any) -> None:
        arguments = capture_arguments(self.key(), text, purpose, self.now, **times)
        self.sent.append((who, CAPTURE, arguments))
        self.call(who, CAPTURE, second, trouble, **arguments)

    def _admission(self, candidate_id: str) -> dict[str, Any]:
        return {"candidate_id": candidate_id, "idempotency_key": self.key()}

    def _newest(self, who: int) -> str:
        return [each.name for each in self.model.of(who) if each.payload][-1]

    def _things(self, who: int, place: int) -> list[Thing]:
        """Return what to choose from: what a person may see, now and then what is anybody's."""
        return self.model.things if place % 7 == 1 else self.model.of(who)

    def _candidate(self, who: int, place: int) -> str:
        found = at([each.name for each in self._things(who, place) if each.payload], place)
        return UNKNOWN_CANDIDATE if found is None or place == 0 else str(found)

    def _record(self, who: int, place: int) -> str:
        found = at([each.record_id for each in self._things(who, place) if each.record_id], place)
        return UNKNOWN_RECORD if found is None or place == 0 else str(found)

    def _message(self, who: int, place: int) -> str:
        found = at([each.name for each in self._things(who, place) if not each.payload], place)
        return UNKNOWN_MESSAGE if found is None or place == 0 else str(found)

    @rule(who=whos, text=texts, purpose=purposes, second=seconds, trouble=troubles,
          begins=st.sampled_from((-1_000, -1_000, -1_000, 30_000)), ends=st.sampled_from((None, None, 60_000)),
          expires=st.sampled_from((None, None, -1, 1_000, 2 * HOUR)))  # fmt: skip
    def capture(self, who, text, purpose, second, trouble, begins, ends, expires):
        self._captured(who, text, purpose, second, trouble, begins=begins, ends=ends, expires=expires)

    @rule(who=whos, text=texts, second=seconds)
    def capture_and_admit(self, who, text, second):
        self._captured(who, text, PURPOSES[0], second, None)
        self.call(who, REQUEST_ADMISSION, not second, **self._admission(self._newest(who)))

    def _sends(self, who: int, tool: str, second: bool, trouble: str | None, **arguments: Any) -> None:
        arguments["idempotency_key"] = self.key()
        self.sent.append((who, tool, arguments))
        self.call(who, tool, second, trouble, **arguments)

    @rule(who=whos, place=places, second=seconds, trouble=troubles)
    def admit(self, who, place, second, trouble):
        self._sends(who, REQUEST_ADMISSION, second, trouble, candidate_id=self._candidate(who, place))

    @rule(who=whos, place=places, second=seconds, trouble=troubles)
    def withdraw(self, who, place, second, trouble):
        self._sends(
            who, WITHDRAW, second, trouble, candidate_id=self._candidate(who, place), reason_ref="reason:mistaken"
        )

    @rule(who=whos, place=places, second=seconds, trouble=troubles)
    def forget(self, who, place, second, trouble):
        self._sends(who, FORGET, second, trouble, record_id=self._record(who, place), reason_ref="reason:asked")

    @rule(who=whos, place=places, second=seconds, trouble=troubles)
    def forget_for_good(self, who, place, second, trouble):
        self.forget(who, place, second, None)
        if self.model.asked:
            self.decide(0, second, trouble, approves=True)

    @rule(place=places, second=seconds, trouble=troubles)
    def again(self, place, second, trouble):
        """A call comes again under its key, a second or a year later, to either process."""
        who, tool, arguments = self.sent[place % len(self.sent)]
        self.call(who, tool, second, trouble, **arguments)

    @rule(place=places, text=texts, second=seconds)
    def otherwise(self, place, text, second):
        """Another call under a key that is perhaps taken."""
        who, _, arguments = self.sent[place % len(self.sent)]
        other = capture_arguments(arguments["idempotency_key"], text, PURPOSES[1], self.now)
        self.call(who, CAPTURE, second, **other)

    @rule(who=whos, text=texts)
    def both_capture(self, who, text):
        """The same capture comes to both processes at once."""
        arguments = capture_arguments(self.key(), text, PURPOSES[0], self.now)
        self.sent.append((who, CAPTURE, arguments))
        order = {"do": "call", "who": who, "now": self.now, "tool": CAPTURE, "arguments": arguments}
        _, _, steps = self.model.answer(Call(who, CAPTURE, arguments), self.now)
        self.second.ask(order)
        one, other = self.first.carry_out(order), self.second.answer()
        assert other is not None
        self.must(one["code"] == other["code"] == "ok", one, other)
        statuses = sorted((one["value"]["status"], other["value"]["status"]))
        self.must(statuses == ["committed_pending", "duplicate_exact"], statuses)
        self.must(one["value"]["candidate_id"] == other["value"]["candidate_id"], one, other)
        self.model.take(steps, one["value"])

    @rule(who=whos, place=places, purpose=purposes, second=seconds)
    def get(self, who, place, purpose, second):
        self.call(who, GET, second, record_id=self._record(who, place), purpose_ref=purpose)

    @rule(who=whos, word=words, purpose=purposes, second=seconds, trouble=st.sampled_from((None, FAULTS[2])))
    def search(self, who, word, purpose, second, trouble):
        self.call(who, SEARCH, second, trouble, query=word, purpose_ref=purpose, limit=50)

    @rule(who=whos, word=words, second=seconds, size=st.integers(1, 3))
    def page(self, who, word, second, size):
        """Pages, from one process and the other in turn, are the whole, each record once."""
        _, told, _ = self.model.answer(Call(who, SEARCH, {"query": word, "purpose_ref": PURPOSES[0]}), self.now)
        found: list[str] = []
        more: dict[str, str] = {}
        skew, self.skew = self.skew, 0
        while more is not None:
            arguments = {"query": word, "purpose_ref": PURPOSES[0], "limit": size, **more}
            answered = self.carry_out("call", who, second, tool=SEARCH, arguments=arguments)
            self.must(answered["code"] == "ok", answered, arguments)
            found += [packet["record"]["record_id"] for packet in answered["value"]["records"]]
            cursor = answered["value"].get("next_page_cursor")
            second = not second
            if cursor is None:
                break
            more = {"page_cursor": cursor}
        self.skew = skew
        self.must(sorted(found) == told["found"], "pages", found, told)

    # --- a person -----------------------------------------------------------------------------------

    @precondition(lambda self: self.model.asked)
    @rule(place=places, second=seconds, trouble=troubles, approves=st.sampled_from((True, True, True, False)))
    def decide(self, place, second, trouble, approves):
        asked: Asked = self.model.asked[-1 - place % len(self.model.asked)]
        now = self.clock(second)
        is_over = asked.is_open and now >= asked.expires_at
        do = "approve" if approves else "deny"
        who = asked.call.who
        code = self.host(do, who, second, trouble, confirmation_id=asked.confirmation_id)
        if code is None or (code == "stood" and is_over):
            self.requests_end(who)
            return
        expected = self.model.ordered("decide", asked, now, approves=approves)
        self.must(code in ("stood", expected), "decided", code, expected, asked)
        if expected == "ok" and approves:  # who asked is told so now, and by whichever process
            self.call(who, asked.call.tool, not second, **asked.call.arguments)

    @rule(who=whos)
    def requests_end(self, who):
        code = self.host("expire_requests", who, False, None)
        self.must(code == "ok", "requests", code)
        self.model.expire_requests(who, self.now)

    @rule(who=whos, place=places, second=seconds, trouble=troubles, decision=st.sampled_from(("accept", "reject")),
          anyway=st.booleans())  # fmt: skip
    def adjudicate(self, who, place, second, trouble, decision, anyway):
        name = self._candidate(who, place)
        code = self.host("adjudicate", who, second, trouble, candidate_id=name, decision=decision, anyway=anyway)
        if code is not None:
            expected = self.model.ordered("order", who, decision.upper(), name, anyway=anyway)
            self.must(code in ("stood", expected), "adjudicated", code, expected, name, decision)
            self._look_at_states(who, False)

    @rule(who=whos, place=places, other=places, second=seconds, trouble=troubles,
          operation=st.sampled_from(("DISPUTE", "RESOLVE_DISPUTE", "SUPERSEDE", "SUPERSEDE", "MARK_NON_CURRENT",
                                     "REWIND", "REWIND", "EXPIRE", "TRUST_INVALIDATE")))  # fmt: skip
    def order(self, who, place, other, second, trouble, operation):
        name = self._candidate(who, place)
        successor = self._candidate(who, other) if operation in ("SUPERSEDE", "REWIND") else None
        told = {"operation": operation, "candidate_id": name, "successor_id": successor}
        code = self.host("order", who, second, trouble, **told)
        if code is not None:
            expected = self.model.ordered("order", who, operation, name, successor)
            self.must(code in ("stood", expected), "ordered", code, expected, told)
            again = self.carry_out("order", who, not second, **told)
            done = self.model.is_done(who, operation, name, successor)
            expected = self.model.ordered("order", who, operation, name, successor)
            self.must(again["code"] == expected, "ordered twice", again, expected, told)
            self.must(expected != "ok" or again["value"]["replayed"] == done, "ordered twice", again, told)

    # --- messages -----------------------------------------------------------------------------------

    @rule(who=whos, text=st.sampled_from(TEXTS[:5]), second=seconds, fault=st.sampled_from((None, None, *FAULTS)))
    def save(self, who, text, second, fault):
        self.call(who, SAVE_MESSAGE, second, fault, role="user", message=text)

    @rule(who=whos, text=st.sampled_from(TEXTS[:5]), second=seconds)
    def keep(self, who, text, second):
        self.call(who, MANAGE_KNOWLEDGE, second, action="add", target="memory", content=text)

    @rule(who=whos, place=places, text=st.sampled_from(TEXTS[:5]), second=seconds)
    def revise(self, who, place, text, second):
        told = {"action": "update", "target": "memory", "memory_id": self._message(who, place), "content": text}
        self.call(who, MANAGE_KNOWLEDGE, second, **told)

    @rule(who=whos, place=places, second=seconds)
    def put_away(self, who, place, second):
        told = {"action": "remove", "target": "memory", "memory_id": self._message(who, place)}
        self.call(who, MANAGE_KNOWLEDGE, second, **told)

    @rule(who=whos, place=places, second=seconds, trouble=troubles)
    def erase(self, who, place, second, trouble):
        told = {"action": "remove", "target": "memory", "memory_id": self._message(who, place), "erase": True}
        self.call(who, MANAGE_KNOWLEDGE, second, trouble, **told)

    @rule(who=whos, place=places, second=seconds, operation=st.sampled_from(SAID_MOVES))
    def move(self, who, place, second, operation):
        name = self._message(who, place)
        code = self.host("move", who, second, None, message_id=name, operation=operation)
        self.must(code == self.model.ordered("order", who, operation, name), "moved", code, operation, name)

    @rule(who=whos, place=places, second=seconds, tag=tags)
    def tag(self, who, place, second, tag):
        name = self._message(who, place)
        code = self.host("tag", who, second, None, message_id=name, tag=tag)
        self.must(code == self.model.ordered("tag", who, name, tag), "tagged", code, tag, name)

    @rule(who=whos, second=seconds, tag=tags)
    def add_tag(self, who, second, tag):
        self.must(self.host("add_tag", who, second, None, tag=tag) == "ok", tag)
        self.model.add_tag(who, tag)

    @rule(who=whos, second=seconds, tag=tags, of=st.one_of(st.none(), tags, tags))
    def alias(self, who, second, tag, of):
        code = self.host("alias", who, second, None, tag=tag, of=of)
        self.must(code == self.model.ordered("alias", who, tag, of), "alias", code, tag, of)

    @rule(who=whos, second=seconds, archived=st.booleans(), word=st.one_of(st.none(), words),
          tag=st.one_of(st.none(), tags))  # fmt: skip
    def recall(self, who, second, archived, word, tag):
        told = {"query": word, "p_tag": tag, "include_archived": archived, "limit": 50}
        self.call(who, SEARCH_MEMORY, second, **{name: value for name, value in told.items() if value is not None})

    # --- the world ----------------------------------------------------------------------------------

    @rule(milliseconds=jumps)
    def time_passes(self, milliseconds):
        self.now += milliseconds

    @rule(milliseconds=st.sampled_from((0, 0, 1, -1, 2_000, -2_000)))
    def clocks_differ(self, milliseconds):
        self.skew = milliseconds

    @rule(really=st.sampled_from((True, False, False, False)))
    def second_dies(self, really):
        if really:  # seldom: to start another takes longer than all else
            self.second.kill()
            self.seen["kills"] += 1

    @rule()
    def first_restarts(self):
        self.first.close()
        self.openings += 1
        self.first = Hand(self.path, f"first-{self.openings}".encode())

    @rule(who=whos, second=seconds, trouble=troubles)
    def expire(self, who, second, trouble):
        code = self.host("expire", who, second, trouble)
        if code in ("stood", None):  # by the same clock, for it may have been done in part
            second, before = False, self.skew
            self.now += before
            code = self.host("expire", who, False, None)
            self.now -= before
            self.must(code == "ok", "expire", code)
            self.model.expire(who, self.now + before)
            return
        self.must(code == "ok", "expire", code)
        self.model.expire(who, self.clock(second))

    @rule(who=whos, second=seconds, trouble=troubles, do=st.sampled_from(("finish", "rotate", "sweep")))
    def maintain(self, who, second, trouble, do):
        self.must(self.host(do, who, second, trouble) in ("ok", "stood", None), do)

    @rule(who=whos, second=seconds, trouble=troubles, do=st.sampled_from(("rebuild", "rebuild", "invalidate")),
          name=st.sampled_from(("current", "lexical", "messages", "tags", "timeline")),
          copying=st.booleans())  # fmt: skip
    def rebuild(self, who, second, trouble, do, name, copying):
        code = self.host(do, who, second, trouble, name=name, copying=copying)
        self.must(code in ("ok", "stood", None), do, name, code)

    @rule(second=seconds, really=st.sampled_from((True, False, False)))
    def everybody_looks(self, second, really):
        if really:
            self.look(second)

"""``read``: pages, and a chain that cannot be tampered with unseen."""

from __future__ import annotations

import msgspec
import pytest

from journal.errors import (
    CursorGap,
    EngramError,
    JournalCorrupt,
)
from journal.frames import GENESIS, encode_frame, frame_hash
from tests.journal.store.contract.engine import Contract
from tests.journal.store.history import HERE, THERE, History


class Reading(Contract):
    """``read``: pages, and a chain that cannot be tampered with unseen."""

    EVENTS = 7

    @pytest.fixture
    def written(self, engine, clock, history):
        store = engine.open(clock)
        events = [history.write(store, history.capture())[0] for _ in range(self.EVENTS)]
        store.close()
        return events

    @pytest.fixture
    def reopened(self, engine, clock):
        stores = []

        def reopen():
            stores.append(engine.open(clock))
            return stores[-1]

        yield reopen
        for store in stores:
            store.close()

    @pytest.mark.parametrize("after", range(9))
    @pytest.mark.parametrize("limit", [0, 1, 2, 7, 100])
    def test_a_page_is_what_lies_between(self, written, reopened, after, limit):
        assert reopened().read(HERE, after, limit) == written[after : after + limit]

    def _pages_that_fail(self, store):
        """Return (after, limit) -> error of every page that cannot be read."""
        failed = {}
        for after in range(self.EVENTS):
            for limit in range(1, self.EVENTS - after + 1):
                try:
                    store.read(HERE, after, limit)
                except EngramError as error:
                    failed[after, limit] = error
        return failed

    @pytest.mark.parametrize("cursor", range(1, EVENTS + 1))
    def test_a_removed_event_is_a_gap(self, engine, written, reopened, cursor):
        engine.replace_frame(HERE, cursor, None)
        failed = self._pages_that_fail(reopened())
        assert {
            (after, limit) for after in range(cursor) for limit in range(cursor - after, self.EVENTS - after + 1)
        } <= set(failed)
        assert all(type(error) is CursorGap for error in failed.values())

    @pytest.mark.parametrize("cursor", range(1, EVENTS))
    def test_swapped_events_are_a_gap(self, engine, written, reopened, cursor):
        one, two = written[cursor - 1].frame, written[cursor].frame
        engine.replace_frame(HERE, cursor, two)
        engine.replace_frame(HERE, cursor + 1, one)
        with pytest.raises(CursorGap):
            reopened().read(HERE, 0, self.EVENTS)

    @pytest.mark.parametrize("cursor", range(1, EVENTS + 1))
    def test_a_rewritten_event_is_corruption_in_every_page_that_holds_it(self, engine, written, reopened, cursor):
        header = written[cursor - 1].header
        forged = header.__class__(*(getattr(header, name) for name in header.__struct_fields__))
        forged = encode_frame(_replaced(forged, principal="principal:somebody-else"))
        engine.replace_frame(HERE, cursor, forged)
        failed = self._pages_that_fail(reopened())
        holding = {
            (after, limit)
            for after in range(self.EVENTS)
            for limit in range(1, self.EVENTS - after + 1)
            if after < cursor <= after + limit
        }
        assert holding <= set(failed)
        assert all(type(error) is JournalCorrupt for error in failed.values())

    def test_every_flipped_bit_of_a_frame_is_found(self, engine, written, reopened):
        """As corruption, or as a gap where it is the cursor that changed: never as another release's format."""
        frame = written[3].frame
        for position in range(0, len(frame), 7):
            flipped = bytearray(frame)
            flipped[position] ^= 1 << position % 8
            engine.replace_frame(HERE, 4, bytes(flipped))
            store = reopened()
            with pytest.raises((JournalCorrupt, CursorGap)):
                store.read(HERE, 0, self.EVENTS)
            with store.view(HERE) as view, pytest.raises((JournalCorrupt, CursorGap)):
                view.event(4)
            store.close()

    def test_another_scopes_event_is_corruption(self, engine, clock, written, reopened):
        there = History(THERE)
        store = reopened()
        foreign = [there.write(store, there.capture())[0] for _ in range(self.EVENTS)]
        store.close()
        engine.replace_frame(HERE, 4, foreign[3].frame)
        store = reopened()
        with pytest.raises(JournalCorrupt):
            store.read(HERE, 0, self.EVENTS)

    def test_a_whole_forged_history_does_not_fit_the_head(self, engine, written, reopened):
        prev = GENESIS
        for event in written:
            forged = encode_frame(_replaced(event.header, principal="principal:somebody-else", prev=prev))
            engine.replace_frame(HERE, event.header.cursor, forged)
            prev = frame_hash(forged)
        with pytest.raises(JournalCorrupt):
            reopened().read(HERE, 0, self.EVENTS)

    def test_nothing_is_written_over_a_broken_end(self, engine, written, reopened, history):
        engine.replace_frame(HERE, self.EVENTS, None)
        store = reopened()
        with pytest.raises(EngramError):
            store.read(HERE, 0, self.EVENTS)
        with store.view(HERE) as view, pytest.raises(CursorGap):
            view.event(self.EVENTS)


def _replaced(header, *, principal, prev=None):
    actor = msgspec.structs.replace(header.actor, principal=principal)
    return msgspec.structs.replace(header, actor=actor, prev=header.prev if prev is None else prev)

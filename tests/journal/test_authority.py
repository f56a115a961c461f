"""Authority as events: which step is legal, and the rows that they lead to, against a plain model."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from journal.authority import AUTHORITY, EVENTS, GRANTS, LEGAL, OPT_IN, OPT_INS, RAISING, GrantState, OptIn
from journal.chain import check_draft, check_transition, has_ended
from journal.errors import IllegalTransition, JournalCorrupt
from journal.events import Actor, Draft, EventType, Header
from journal.indexes import authority_rows
from journal.lifecycle import State
from journal.scope import Scope
from journal.store.port import Subject
from replay.legality import States

SCOPE = Scope.of("tenant", "work")
GRANT = "grant_" + 64 * "a"


def draft(kind: EventType, subject: str | None = None) -> Draft:
    own = {**dict.fromkeys(GRANTS, GRANT), **dict.fromkeys(OPT_INS, OPT_IN)}.get(kind)
    return Draft(type=kind, event_id=bytes(32), actor=Actor("operator:tests"), subject=subject or own, ledger=b"sealed")


def header(kind: EventType, cursor: int, subject: str | None, from_state: int = 0, to_state: int = 0) -> Header:
    return Header(
        1, kind, SCOPE, cursor, 0, bytes(32), Actor("operator:tests"), subject, None, None, from_state, to_state, None,
        None, (), None, bytes(32), bytes(32),
    )  # fmt: skip


def row(state: int) -> Subject | None:
    return Subject(state, 1, 0, 1, None, None, None) if state else None


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_a_draft_is_about_its_own_subject_and_says_something(kind):
    whole = draft(kind)
    check_draft(whole)
    others = {GRANT, OPT_IN, f"{OPT_IN}s", AUTHORITY, "candidate_a", None} - {whole.subject}
    for other in others - ({GRANT} if kind in GRANTS else set()):
        with pytest.raises(JournalCorrupt):
            check_draft(replace(whole, subject=other))
    with pytest.raises(JournalCorrupt):
        check_draft(replace(whole, ledger=None))


@pytest.mark.parametrize("kind", sorted(GRANTS | OPT_INS))
@pytest.mark.parametrize("state", [0, 1, 2])
def test_a_step_leads_where_the_table_says_and_nowhere_else(kind, state):
    to_state = LEGAL.get((kind, state))
    for claimed in (0, 1, 2):
        if claimed == to_state:
            check_transition(kind, state, claimed, row(state))
        else:
            with pytest.raises(IllegalTransition if to_state is None else JournalCorrupt):
                check_transition(kind, state, claimed, row(state))


def test_what_takes_away_raises_and_what_is_revoked_cannot_be_again():
    assert {EventType.GRANT_REVOKED, EventType.EPOCH, EventType.TENANT_DISABLED} == RAISING
    assert (EventType.GRANT_REVOKED, GrantState.REVOKED) not in LEGAL
    assert (EventType.TENANT_ENABLED, OptIn.ENABLED) not in LEGAL


@pytest.mark.parametrize("subject", [GRANT, OPT_IN, AUTHORITY])
def test_authority_never_ends_as_a_candidate_does(subject):
    assert not any(has_ended(subject, state) for state in State)


@pytest.mark.parametrize("seed", range(20))
def test_rows_follow_a_random_history(seed):
    source = random.Random(seed)
    rows: dict[str, Subject] = {}
    states = States()
    epoch, newest = 0, dict[str, tuple[int, int]]()
    for cursor in range(1, 120):
        kind = source.choice(sorted(EVENTS))
        subject = source.choice([f"grant_{number}" for number in "012"]) if kind in GRANTS else draft(kind).subject
        before = newest.get(subject or "", (0, 0))[0]
        to_state = LEGAL.get((kind, before), 0) if subject is not None else 0
        event = header(kind, cursor, subject, before, to_state)
        if subject is not None and not to_state:
            with pytest.raises(IllegalTransition):
                states.apply(event)
            continue
        states.apply(event)
        changed = authority_rows(event, rows.get)
        rows.update(changed)
        if subject is not None:
            newest[subject] = (to_state, cursor)
        assert rows[AUTHORITY].decided >= epoch, "an epoch never falls"
        epoch = cursor if kind in RAISING else epoch
        assert (rows[AUTHORITY].changed, rows[AUTHORITY].decided) == (cursor, epoch)
        assert {name: (each.state, each.changed) for name, each in rows.items() if name != AUTHORITY} == newest
        assert all(states.of(name) == state for name, (state, _) in newest.items())


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_an_event_about_another_subject_is_no_lawful_history(kind):
    to_state = LEGAL.get((kind, 0), 0)
    own = draft(kind).subject
    for other in {GRANT, OPT_IN, "candidate_a", None} - {own}:
        with pytest.raises(JournalCorrupt):
            States().apply(header(kind, 1, other, 0, to_state))
    bare = header(kind, 1, own, 0, to_state)
    with pytest.raises(JournalCorrupt):
        States().apply(msgspec.structs.replace(bare, ledger_digest=None))

"""What came after a backup and was forgotten stays so, in scopes that the backup knows and in those it lacks."""

from __future__ import annotations

import msgspec
import pytest

from journal import limits
from journal.checkpointing import Checkpoints
from journal.errors import BackupInvalid, RestoreRefused
from journal.events import EventType
from journal.lifecycle import State
from journal.messages import MessageState
from replay import backup as backups
from replay import erasures
from replay.audit import audit_scope
from tests.replay.restores import GONE, KEPT, Safe, reopened
from tests.tools.conversation.talks import erasing, labels, speaker
from tests.tools.memory.world import OTHER, SCOPE, capture_arguments, forgetting, key
from tools.host.capabilities import CAPTURE, FORGET, MANAGE_KNOWLEDGE


@pytest.fixture
def safe(tmp_path):
    made = Safe(tmp_path)
    made.world.caller().remember(KEPT)
    yield made
    made.world.close()


@pytest.fixture
def restored(safe):
    """Return what restores with the newest ledger and yields the store."""

    def restore(**changes):
        told = safe.restore(ledgers=[safe.backup("ledger", ledger=True)], **changes)
        assert told.lost == 0
        return told, reopened(safe.place / "restored", safe.world.clock)

    return restore


def is_sound(world, scope):
    return not audit_scope(world.journal, scope).findings


def event_id_of(world, subject_id):
    with world.journal.store.view(SCOPE) as view:
        return view.event(view.subject(subject_id).born).header.event_id


# --- younger than the backup, in a scope that it has ------------------------------------------------


def test_what_was_captured_and_forgotten_since_stays_forgotten(safe, restored):
    safe.backup()
    safe.keys()
    agent = safe.world.caller()
    arguments = capture_arguments(GONE, key("later"))
    first = agent.value(CAPTURE, arguments)
    record_id = agent.admit(first["candidate_id"])["record_id"]
    ending = forgetting(record_id, key("ends"))
    agent.confirmed(FORGET, ending)
    told, opened = restored()
    assert told.ended_again == 1
    with opened as world:
        again = world.caller()
        assert again.state(first["candidate_id"]) is State.TOMBSTONED
        assert again.record_id_of(first["candidate_id"]) == record_id
        assert world.journal.key_is_destroyed(SCOPE, first["candidate_id"])
        assert again.found("silver") == []
        assert again.admit(again.capture(GONE))["status"] == "pending_adjudication"
        retried = again.value(CAPTURE, arguments)
        assert (retried["candidate_id"], retried["status"]) == (first["candidate_id"], "duplicate_exact")
        assert again.value(FORGET, ending)["replayed"] is True
        assert [kind for kind, _ in again.events()].count(EventType.TOMBSTONE.label) == 1
        assert is_sound(world, SCOPE)


def test_nobody_can_open_what_stands_in_its_place(safe, restored):
    safe.backup()
    safe.keys()
    agent = safe.world.caller()
    candidate_id = agent.capture(GONE)
    agent.withdraw(candidate_id)
    _, opened = restored()
    with opened as world:
        assert world.caller().state(candidate_id) is State.WITHDRAWN
        assert world.journal.payload(SCOPE, candidate_id) is None
        with world.journal.store.view(SCOPE) as view:
            row = view.subject(candidate_id)
            assert world.journal.keyring.open(SCOPE, row.key_id, view.slot(row.key_id)) is None


def test_a_message_that_was_told_and_erased_since_stays_erased(safe, restored):
    safe.backup()
    safe.keys()
    one = speaker(safe.world)
    gone = one.save("a striped zebra")
    one.erase(gone)
    identity = event_id_of(safe.world, gone)
    _, opened = restored()
    with opened as world:
        again = speaker(world)
        assert event_id_of(world, gone) == identity, "so that it is not imported again"
        assert again.ids("zebra", include_archived=True) == []
        assert labels(world, gone) == ["message", "message_erased"]
        with world.journal.store.view(SCOPE) as view:
            assert view.subject(gone).state == MessageState.ERASED
        assert world.journal.key_is_destroyed(SCOPE, gone)
        assert again.value(MANAGE_KNOWLEDGE, erasing(gone))["erased"] is True
        assert is_sound(world, SCOPE)


def test_more_than_a_batch(safe, restored, monkeypatch):
    monkeypatch.setattr(limits, "BATCH_MAX_EVENTS", 3)
    safe.backup()
    safe.keys()
    agent = safe.world.caller()
    ids = [agent.capture(f"Words of number {number}.") for number in range(8)]
    for each in ids:
        agent.withdraw(each)
    told, opened = restored()
    assert told.ended_again == len(ids)
    with opened as world:
        assert {world.caller().state(each) for each in ids} == {State.WITHDRAWN}
        assert is_sound(world, SCOPE)


def test_a_ledger_that_does_not_tell_of_births_is_honoured_as_far_as_it_goes(safe, restored, monkeypatch):
    """An older release wrote five fields."""
    agent = safe.world.caller()
    known = agent.remember(GONE)
    safe.backup()
    safe.keys()
    agent.forget(known)
    monkeypatch.setattr(backups, "encode", _of_an_older_release)
    assert safe.restore(ledgers=[safe.backup("older", ledger=True)]).ended_again == 1
    agent.forget(agent.remember("Words of lead."))
    older = safe.backup("older-2", ledger=True)
    with pytest.raises(RestoreRefused, match="of an older release"):
        safe.restore(ledgers=[older], target=safe.place / "second")
    assert not (safe.place / "second").exists()
    monkeypatch.undo()
    newer = safe.backup("newer", ledger=True)
    assert safe.restore(ledgers=[older, newer], target=safe.place / "second").ended_again == 2


def _of_an_older_release(found):
    return msgspec.msgpack.encode([msgspec.to_builtins(each, builtin_types=(bytes,))[:5] for each in found])


def test_a_birth_of_another_subject_is_refused(safe, monkeypatch):
    safe.backup()
    safe.keys()
    agent = safe.world.caller()
    for text in (GONE, "Words of lead."):
        agent.forget(agent.remember(text))

    def mixed(found):
        births = [each.birth_frame for each in found if each.birth_frame is not None]
        return erasures.encode([msgspec.structs.replace(each, birth_frame=births[0]) for each in found])

    monkeypatch.setattr(backups, "encode", mixed)
    ledger = safe.backup("mixed", ledger=True)
    with pytest.raises(BackupInvalid, match="another event"):
        safe.restore(ledgers=[ledger])


# --- a scope that is younger than the backup --------------------------------------------------------


@pytest.fixture
def younger(safe):
    """A backup, and after it a scope in which something is forgotten, and its keys."""
    safe.backup()
    safe.keys("older-keys")
    agent = safe.world.caller(OTHER)
    agent.remember("Words of iron.")
    agent.forget(agent.remember(GONE))


def test_a_scope_that_the_backup_lacks_counts_as_newer(safe, younger):
    safe.keys()
    for keys in ("older-keys", "keys"):
        with pytest.raises(RestoreRefused, match="newer erasure ledger"):
            safe.restore(keys=safe.place / keys)
    assert not (safe.place / "restored").exists()


def test_its_checkpoint_in_the_anchor_alone_tells(safe, younger):
    safe.keys()
    Checkpoints(safe.world.journal, safe.place / "anchors").write(OTHER)
    for file in (safe.place / "state" / "heads").glob("*.json"):
        file.unlink()
    with pytest.raises(RestoreRefused, match="newer erasure ledger"):
        safe.restore()


def test_with_a_ledger_its_loss_is_accepted_and_the_forgotten_stays_so(safe, younger, restored):
    safe.keys()
    Checkpoints(safe.world.journal, safe.place / "anchors").write(OTHER)
    ledger = safe.backup("first", ledger=True)
    with pytest.raises(RestoreRefused, match="would be lost"):
        safe.restore(ledgers=[ledger])
    told, opened = restored(accept_loss=True, replaces=True)
    assert told.ended_again == 1
    assert len(told.set_aside) == 1, "the checkpoint of what was given up"
    with opened as world:
        other = world.caller(OTHER)
        assert other.found("iron silver") == []
        assert other.admit(other.capture(GONE))["status"] == "pending_adjudication"
        assert other.admit(other.capture("Words of iron."))["status"] == "accepted", "it was lost, not forgotten"
        assert is_sound(world, OTHER)
        assert world.caller().found("copper") != []


def test_a_scope_whose_keys_are_missing_cannot_be_guarded(safe, younger):
    ledger = safe.backup("ledger", ledger=True)
    for accept_loss in (False, True):
        with pytest.raises(RestoreRefused, match="key backup is older"):
            safe.restore(keys=safe.place / "older-keys", ledgers=[ledger], accept_loss=accept_loss)
    assert not (safe.place / "restored").exists()

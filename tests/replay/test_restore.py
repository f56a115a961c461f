"""A backup restored: the same journal, the same answers; and never what was forgotten since."""

from __future__ import annotations

import shutil

import pytest

from journal import layout
from journal.errors import RestoreRefused, StoreUnavailable
from journal.events import Actor
from journal.lifecycle import State
from journal.log import Journal
from replay.audit import audit_scope
from tests.replay.restores import GONE, KEPT, WAITING, Safe, everything, reopened, sealed_content, told
from tests.tools.conversation.talks import erasing, labels, speaker
from tests.tools.memory.world import OTHER, ROOT_KEY, SCOPE, capture_arguments, forgetting, key
from tools.host.capabilities import CAPTURE, FORGET, MANAGE_KNOWLEDGE


@pytest.fixture
def safe(tmp_path):
    made = Safe(tmp_path)
    yield made
    made.world.close()


@pytest.fixture
def ids(safe):
    return told(safe)


def reports(journal):
    return {scope: audit_scope(journal, scope).as_json() for scope in journal.store.scopes()}


def slot_of(journal, record_id):
    """Return the wrapped key of a record's candidate, as its slot holds it."""
    with journal.store.view(SCOPE) as view:
        row = view.subject(view.candidate_of(record_id))
        slot = journal.keyring._opened(SCOPE).slots.read(view.slot(row.key_id))
    return slot.wrapped


def test_the_restored_journal_is_the_one_that_was_backed_up(safe, ids):
    before = reports(safe.world.journal)
    safe.backup()
    safe.keys()
    restored = safe.restore()
    assert (restored.ended_again, restored.lost) == (0, 0)
    assert {one.scope: one.as_json() for one in restored.scopes} == before
    with reopened(safe.place / "restored", safe.world.clock) as world:
        assert reports(world.journal) == before
        agent = world.caller()
        assert agent.found("copper") == [ids["kept"]]
        assert agent.found("silver") == [ids["gone"]]
        assert world.caller(OTHER).found("copper") == [ids["other"]]
        assert agent.state(ids["waiting"]) is State.PENDING
        assert agent.state(ids["withdrawn"]) is State.WITHDRAWN
    assert sorted(path.name for path in (safe.place / "restored").iterdir()) == [
        "journal", "keys", "projections", "store.toml",
    ]  # fmt: skip
    assert safe.beside() == ["backup", "identity", "keys", "restored", "state", "store"]


def test_a_restored_store_is_another_store_of_the_same_history(safe, ids):
    safe.backup()
    safe.keys()
    restored = safe.restore()
    assert restored.store == layout.store_id(safe.place / "restored") != layout.store_id(safe.world.path)
    assert layout.predecessor(safe.place / "restored") is None
    replacing = safe.restore(target=safe.place / "second", replaces=True)
    assert layout.predecessor(safe.place / "second") == layout.store_id(safe.world.path)
    assert safe.outside.newest_of(layout.store_id(safe.world.path)) == replacing.store


def test_work_goes_on_after_a_restore(safe, ids):
    agent = safe.world.caller()
    arguments = capture_arguments("Words of lead.", key("retried"))
    first = agent.value(CAPTURE, arguments)
    forgotten = forgetting(ids["gone"], key("forgets"))
    agent.confirmed(FORGET, forgotten)
    safe.backup()
    safe.keys()
    safe.restore()
    with reopened(safe.place / "restored", safe.world.clock) as world:
        agent = world.caller()
        again = agent.value(CAPTURE, arguments)
        assert (again["candidate_id"], again["cursor"]) == (first["candidate_id"], first["cursor"])
        assert agent.value(FORGET, forgotten)["replayed"] is True
        assert agent.admit(agent.capture(GONE))["status"] == "pending_adjudication", "the guard knows it"
        fresh = agent.remember("Words of iron.")
        assert world.journal.rotate_keys(SCOPE, Actor("operator:tests")) == 2
        assert set(agent.found("iron copper")) == {fresh, ids["kept"]}
        agent.forget(ids["kept"])
        assert agent.found("copper") == []
        assert reports(world.journal)[SCOPE]["findings"] == []


def test_keys_from_before_a_rotation_still_open_what_was_backed_up_after_it(safe, ids):
    safe.keys()
    safe.world.journal.rotate_keys(SCOPE, Actor("operator:tests"))
    safe.backup()
    safe.restore()
    with reopened(safe.place / "restored", safe.world.clock) as world:
        assert world.caller().found("copper") == [ids["kept"]]


def test_another_root_key_takes_over(safe, ids):
    safe.backup()
    safe.keys()
    another = bytes(range(1, 33))
    named: list[bytes] = []
    safe.restore(root_key=another, before_naming=named.append)
    assert named == [another]
    with pytest.raises(StoreUnavailable):
        Journal.open(safe.place / "restored", ROOT_KEY)
    with reopened(safe.place / "restored", safe.world.clock, another) as world:
        assert world.caller().found("copper") == [ids["kept"]]


# --- forgotten since --------------------------------------------------------------------------------


@pytest.fixture
def since(safe, ids):
    """A backup, and after it a forgetting, a late admission that was forgotten, and an approval."""
    safe.backup()
    safe.keys()
    agent = safe.world.caller()
    wrapped = slot_of(safe.world.journal, ids["gone"])
    arguments = forgetting(ids["gone"], key("since"))
    agent.confirmed(FORGET, arguments)
    agent.admit(ids["waiting"])
    agent.forget(agent.record_id_of(ids["waiting"]))
    return wrapped, arguments


def test_an_older_backup_is_refused_and_with_a_ledger_the_forgotten_stays_forgotten(safe, ids, since):
    wrapped, arguments = since
    with pytest.raises(RestoreRefused, match="newer erasure ledger"):
        safe.restore()
    assert safe.beside() == ["backup", "identity", "keys", "state", "store"]
    ledger = safe.backup("ledger", ledger=True)
    restored = safe.restore(ledgers=[ledger])
    # Two records, and two requests that were made since under keys that were written ahead of the key backup.
    assert (restored.keys_destroyed, restored.ended_again, restored.lost) == (4, 2, 0)
    assert wrapped not in everything(safe.place / "restored")
    with reopened(safe.place / "restored", safe.world.clock) as world:
        agent = world.caller()
        assert agent.found("copper") == [ids["kept"]]
        assert agent.found("silver") == agent.found("zinc") == []
        assert agent.state(ids["waiting"]) is State.TOMBSTONED
        assert agent.value(FORGET, arguments)["replayed"] is True
        for text in (GONE, WAITING):
            assert agent.admit(agent.capture(text))["status"] == "pending_adjudication"
        assert agent.admit(agent.capture(KEPT + " More."))["status"] == "accepted", "and nothing else is guarded"


def test_the_control_without_a_ledger_and_without_a_memory_brings_it_back(safe, ids, since, tmp_path):
    """What is refused above is a real danger: where nothing outside tells, the older copy looks like the truth."""
    wrapped, _ = since
    shutil.rmtree(tmp_path / "state")
    safe.restore()
    assert wrapped in everything(safe.place / "restored")
    with reopened(safe.place / "restored", safe.world.clock) as world:
        assert world.caller().found("silver") == [ids["gone"]]


def test_a_later_backup_is_a_ledger_too(safe, ids, since):
    later = safe.backup("later")
    assert safe.restore(ledgers=[later]).ended_again == 2


def test_a_ledger_from_between_is_too_old(safe, ids, since):
    agent = safe.world.caller()
    ledger = safe.backup("ledger", ledger=True)
    agent.forget(agent.remember("Words of mercury."))
    with pytest.raises(RestoreRefused):
        safe.restore(ledgers=[ledger])
    assert safe.restore(ledgers=[ledger, safe.backup("newer", ledger=True)]).ended_again == 3


def test_another_scopes_ends_are_its_own(safe, ids, since):
    agent = safe.world.caller(OTHER)
    agent.forget(ids["other"])
    ledger = safe.backup("ledger", ledger=True)
    assert safe.restore(ledgers=[ledger]).ended_again == 3
    with reopened(safe.place / "restored", safe.world.clock) as world:
        assert world.caller(OTHER).found("copper") == []
        assert world.caller().found("copper") == [ids["kept"]]


def test_a_request_that_was_approved_since_is_not_taken_for_approved(safe, ids):
    agent = safe.world.caller()
    arguments = forgetting(ids["kept"], key("asked"))
    assert agent.code(FORGET, arguments) == "gate_failed"
    request = agent.requests()[-1].confirmation_id
    safe.backup()
    safe.keys()
    agent.confirmed(FORGET, arguments)
    ledger = safe.backup("ledger", ledger=True)
    safe.restore(ledgers=[ledger])
    with reopened(safe.place / "restored", safe.world.clock) as world:
        kinds = [kind for kind, subject in world.caller().events() if subject == request]
        assert kinds == ["confirmation_requested", "confirmation_expired"]
        assert world.caller().found("copper") == []


def test_a_message_that_was_erased_since_stays_erased(safe, ids):
    one = speaker(safe.world)
    gone, kept = one.save("a striped zebra"), one.save("a spotted giraffe")
    safe.backup()
    safe.keys()
    one.erase(gone)
    with pytest.raises(RestoreRefused):
        safe.restore()
    restored = safe.restore(ledgers=[safe.backup("ledger", ledger=True)])
    assert restored.lost == 0
    with reopened(safe.place / "restored", safe.world.clock) as world:
        again = speaker(world)
        assert again.ids("zebra", include_archived=True) == []
        assert again.ids("giraffe") == [kept]
        assert again.value(MANAGE_KNOWLEDGE, erasing(gone))["erased"] is True
        assert "message_erased" in labels(world, gone)


def test_a_backup_holds_no_content_of_what_was_forgotten_before_it(safe, ids):
    gone, kept = sealed_content(safe.world.journal, ids["gone"]), sealed_content(safe.world.journal, ids["kept"])
    safe.world.caller().forget(ids["gone"])
    raw = safe.backup().read_bytes()
    assert gone in everything(safe.world.path / "journal"), "the log is never rewritten"
    assert kept in raw
    assert gone not in raw
    safe.keys()
    assert safe.restore().lost == 0


# --- keys and places --------------------------------------------------------------------------------


def test_keys_that_are_older_than_contents_are_told_before_anything_is_there(safe, ids):
    safe.keys()
    agent = safe.world.caller()
    for number in range(70):  # more than the keys that were written ahead
        agent.capture(f"Words of number {number}.")
    safe.backup()
    with pytest.raises(RestoreRefused, match="would be lost"):
        safe.restore()
    assert not (safe.place / "restored").exists()
    restored = safe.restore(accept_loss=True)
    assert 0 < restored.lost < 70
    with reopened(safe.place / "restored", safe.world.clock) as world:
        assert len(reports(world.journal)[SCOPE]["findings"]) == restored.lost


def test_a_place_that_holds_something_is_left_as_it_is(safe, ids, tmp_path):
    safe.backup()
    safe.keys()
    target = tmp_path / "restored"
    target.mkdir()
    assert safe.restore().lost == 0, "an empty folder is taken"
    before = everything(target)
    for taken in (target, tmp_path / "identity", tmp_path / "link"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(RestoreRefused):
            safe.restore(target=taken)
    assert everything(target) == before
    assert not (tmp_path / "elsewhere").exists()


def test_after_a_restore_the_restored_ones_ledger_is_asked_for(safe, ids, since):
    ledger = safe.backup("ledger", ledger=True)
    first = safe.restore(ledgers=[ledger], target=safe.place / "second", replaces=True)
    with pytest.raises(RestoreRefused, match="in this one's place"):
        safe.restore(ledgers=[ledger])
    with reopened(safe.place / "second", safe.world.clock) as world:
        world.caller().forget(ids["kept"])
        newest = safe.backup("newest", ledger=True, journal=world.journal)
    assert safe.outside.points(first.store)[SCOPE.tag.hex()].cursor > 0
    assert safe.restore(ledgers=[newest]).ended_again == 3
    with reopened(safe.place / "restored", safe.world.clock) as world:
        assert world.caller().found("copper") == []

"""Keyed digests: the same again for the same, another for everything else, and nothing without the key."""

from __future__ import annotations

import unicodedata

import pytest

from journal import identity
from journal.scope import Scope

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
SCOPE = Scope.of("tenant:one", "workspace:one")


def payload(*texts, primary=0):
    components = [{"component_id": f"component:{number}", "text": text} for number, text in enumerate(texts)]
    return {"components": components, "primary_component_id": f"component:{primary}"}


def test_an_event_id_depends_on_every_part_of_the_identity_and_on_the_key():
    found = {
        identity.event_id(key, scope, principal, text)
        for key in (KEY, OTHER_KEY)
        for scope in (SCOPE, Scope.of("tenant:two", "workspace:one"), Scope.of("tenant:one", "workspace:two"))
        for principal in ("principal:one", "principal:two")
        for text in ("key-0000000000000001", "key-0000000000000002")
    }
    assert len(found) == 24
    assert all(len(event_id) == 32 for event_id in found)


def test_no_two_uses_of_one_value_agree():
    value = "one"
    found = {
        identity.erasure(KEY, value), identity.session(KEY, value), identity.intent(KEY, value, None, None),
        identity.event_id(KEY, Scope.of(value, value), value, value), *identity.guards(KEY, payload(value)),
    }  # fmt: skip
    assert len(found) == 6


def test_an_intent_is_tool_target_and_content():
    base = identity.intent(KEY, "capture", None, {"a": 1, "b": [2]})
    assert identity.intent(KEY, "capture", None, {"b": [2], "a": 1}) == base
    for other in (
        ("forget", None, {"a": 1, "b": [2]}),
        ("capture", "x", {"a": 1, "b": [2]}),
        ("capture", None, {"a": 2}),
    ):
        assert identity.intent(KEY, *other) != base


def test_a_request_is_an_operation_and_what_it_asks():
    assert identity.request(KEY, bytes(32), bytes(32)) != identity.request(KEY, bytes([1]) * 32, bytes(32))
    assert identity.request(KEY, bytes(32), bytes(32)) != identity.request(KEY, bytes(32), bytes([1]) * 32)


SAME = [
    "Applied the  documented\ncorrection. ",
    "applied THE documented correction.",
    "\t applied\u00a0the documented\u3000correction.",
    "Ａｐｐｌｉｅｄ the documented correction.",
]


@pytest.mark.parametrize("text", SAME)
def test_the_same_words_have_the_same_guards(text):
    assert identity.guards(KEY, payload(text)) == identity.guards(KEY, payload("applied the documented correction."))


@pytest.mark.parametrize("text", ["알림을 보냈다", "Straße", "ǅ ﬁ ½", "İstanbul", "ΌΣΟΣ"])
def test_normalising_is_done_once_and_for_all_in_any_script(text):
    once = identity.normalised(text)
    assert identity.normalised(once) == once
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert identity.normalised(unicodedata.normalize(form, text)) == once
    assert identity.normalised(text.upper()) == identity.normalised(text.upper().lower())


def test_guards_tell_the_order_and_the_primary_component():
    texts, primary = identity.guards(KEY, payload("a", "b"))
    assert identity.guards(KEY, payload("b", "a"))[0] != texts
    assert identity.guards(KEY, payload("a", "b", primary=1)) == (texts, identity.guards(KEY, payload("b"))[1])
    assert identity.guards(KEY, payload("a", "c"))[1] == primary
    assert identity.guards(KEY, payload("ab", ""))[0] != texts
    assert identity.guards(OTHER_KEY, payload("a", "b")) != (texts, primary)


def test_a_session_has_sixteen_bytes():
    assert len(identity.session(KEY, "session-1")) == identity.SESSION_BYTES == 16

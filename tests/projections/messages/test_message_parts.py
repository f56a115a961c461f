"""Messages as documents: the parts apart weigh what the whole does."""

from __future__ import annotations

import pytest

from projections.lexical.documents import Document, Weigher
from projections.lexical.keyed import TokenKey
from projections.lexical.profile import profile_config_digest
from projections.lexical.tokens import Tokenizer
from projections.messages.parts import Parts, set_tags, set_text, set_who
from projections.messages.profile import MESSAGE_FIELDS, message_profile_digest

KEY = TokenKey(bytes(range(32)))


def parts_of(text, tags=(), role="user", agent_key=None):
    parts = Parts()
    content = {"message": text, "role": role} | ({"agent_key": agent_key} if agent_key else {})
    set_text(parts, Tokenizer(), KEY, content)
    set_who(parts, Tokenizer(), KEY, content)
    set_tags(parts, Tokenizer(), KEY, {"p_tag": tags[0] if tags else None, "d_tags": list(tags[1:]), "by": "hand"})
    return parts


@pytest.mark.parametrize(
    ("text", "tags", "agent_key"),
    [
        ("알림을 보낸다 the cache of the user", ("cache", "알림"), "cache"),
        ("", (), None),
        ("cache " * 300, ("cache", "cache"), "user"),
        ("the of and", ("engram-store", "src/main.py"), None),
    ],
)
def test_the_parts_weigh_what_the_document_does(text, tags, agent_key):
    fields = [("text", text), ("who", agent_key or ""), *(("tags", tag) for tag in tags)]
    whole = Weigher(KEY, MESSAGE_FIELDS).weigh(Document(tuple(fields)))
    document, counts = parts_of(text, tags, agent_key=agent_key).weighed()
    assert document == whole
    assert len(counts) == 4 * len(whole.impacts)


def test_parts_come_back_from_what_is_kept():
    parts = parts_of("cache 알림 cache", ("cache", "배포"), agent_key="archivist")
    document, counts = parts.weighed()
    again = Parts.of(document, parts.length, counts)
    assert again == parts
    set_tags(again, Tokenizer(), KEY, {"p_tag": None, "d_tags": []})
    assert again.weighed() == parts_of("cache 알림 cache", agent_key="archivist").weighed()


def test_counts_that_fit_no_document_are_refused():
    document, counts = parts_of("cache 알림").weighed()
    with pytest.raises(ValueError, match="shorter"):
        Parts.of(document, 2, counts[:-4])


def test_a_word_said_more_often_than_can_be_counted_counts_as_the_greatest():
    parts = parts_of("x", agent_key="word " * 300)
    assert max(parts.who.values()) == 255
    assert Parts.of(parts.weighed()[0], 1, parts.weighed()[1]) == parts


def test_the_profile_of_messages_is_another_than_that_of_records():
    assert message_profile_digest() != profile_config_digest()
    assert message_profile_digest() == message_profile_digest()

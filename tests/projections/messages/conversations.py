"""A small conversation and its index in a real LMDB environment, and the plain scans that the index must equal."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import lmdb
import numpy as np
import pytest
from blake3 import blake3

from journal import limits
from journal.errors import BlobMissing
from journal.events import FORMAT, Actor, EventType, Header
from journal.identity import normalised
from journal.scope import Scope
from projections.lexical.documents import Document, Weigher
from projections.lexical.keyed import TokenKey
from projections.lexical.question import Question
from projections.lexical.scoring import term_weight
from projections.lexical.tokens import query_terms
from projections.lexical.traits import traits_of
from projections.messages.profile import MESSAGE_FIELDS
from projections.messages.projection import MessagesProjection
from projections.overlay import Changes, Overlay
from projections.port import FoldEvent, OpenTables
from tests.projections.lexical.indexes import small_limits as small_index_limits
from tests.projections.lexical.plain_ranking import Plain, plain_ranking

KEY = bytes(range(32))
SCOPE = Scope.of("tenant", "workspace")
ME = "principal:me"
NOON = 1_764_417_600_000  # epoch ms

SMALL_LIMITS = {
    "MESSAGES_OWNERS_KEPT": 1,
    "MESSAGES_SIGNATURE_LEAST_BYTES": 8,
    "MESSAGES_SIGNATURE_MAX_BYTES": 32,
    "MESSAGES_SIGNATURE_BLOCK_BYTES": 2_048,
}
"""Limits under which short texts have signatures of several classes, one of them with blocks of 64 alone."""


@contextmanager
def small_limits():
    """Work under ``SMALL_LIMITS``, and under those of the index."""
    with small_index_limits(), pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL_LIMITS.items():
            patch.setattr(limits, name, value)
        yield


class Message:
    """What a message is now."""

    def __init__(self, cursor, owner, created_at, event_id, content):
        self.cursor = cursor
        self.owner = owner
        self.created_at = created_at
        self.event_id = event_id
        self.content = dict(content)
        self.tags = {}
        self.erased = False

    @property
    def document(self):
        fields = [("text", self.content["message"])]
        fields += [("who", self.content[name]) for name in ("agent_key", "subagent_role") if name in self.content]
        fields += [("tags", tag) for tag in [self.tags.get("p_tag"), *self.tags.get("d_tags", [])] if tag]
        return Document(tuple(fields))


class Conversation:
    """Events about messages, legal by construction. A message is named by its place among all."""

    def __init__(self):
        self.events = []
        self.messages = []
        self.opened = []  # cursors of events whose payload a fold asked for
        self.lost = set()  # cursors of events whose payload is missing
        self.is_erased_readable = False  # whether what is erased by now opens all the same

    def say(self, text, owner=ME, created_at=None, **content):
        """Append a message; return it."""
        cursor = len(self.events) + 1
        content = {"message": text, "role": "user", **content}
        if len(text) % 4:  # some messages are of no session
            content.setdefault("session_id", f"session {len(text) % 4}")
        recorded_at = NOON + 60_000 * cursor
        if created_at is not None:
            content["created_at"] = created_at
        event_id = blake3(b"message %d" % cursor).digest()
        message = Message(cursor, owner, recorded_at if created_at is None else created_at, event_id, content)
        self.messages.append(message)
        self._append(EventType.MESSAGE, message, dict(content), event_id, owner)
        return message

    def revise(self, message, text, by=None):
        """Append a revision."""
        message.content["message"] = text
        self._append(EventType.MESSAGE_REVISION, message, {"message": text}, actor=by)

    def tag(self, message, p_tag=None, d_tags=()):
        """Append the new tags."""
        message.tags = {"p_tag": p_tag, "d_tags": list(d_tags), "by": "hand"}
        self._append(EventType.MESSAGE_TAG, message, message.tags)

    def mark(self, message, kind):
        """Append a pin or an archive or the like."""
        self._append(kind, message, None)

    def erase(self, message):
        """Append the erasure; from now on nothing of the message opens."""
        message.erased = True
        self._append(EventType.MESSAGE_ERASED, message, None)

    def _append(self, kind, message, payload, event_id=bytes(32), actor=None):
        cursor = len(self.events) + 1
        header = Header(
            format=FORMAT, type=kind, scope=SCOPE, cursor=cursor, recorded_at=NOON + 60_000 * cursor,
            event_id=event_id, actor=Actor(actor or message.owner), subject=f"message_{message.event_id[:16].hex()}",
            record_id=None, related=None, from_state=0, to_state=1, key_id=None, intent=None, guards=(),
            content_digest=None, ledger_digest=None, prev=bytes(32),
        )  # fmt: skip
        self.events.append(FoldEvent(header, lambda: self._opened(message, cursor, payload)))

    def _opened(self, message, cursor, payload):
        self.opened.append(cursor)
        if cursor in self.lost:
            raise BlobMissing("lost")
        return None if message.erased and not self.is_erased_readable else payload

    def in_force(self, owners):
        """Return the messages of owners that are there."""
        return [message for message in self.messages if message.owner in owners and not message.erased]


class Index:
    """A generation of the projection."""

    def __init__(self, path, key=KEY):
        self.projection = MessagesProjection(key)
        self.env = lmdb.open(str(path), map_size=1 << 30, max_dbs=16, sync=False, lock=False)
        self.databases = OpenTables({name: self.env.open_db(name) for name in self.projection.databases}, {})

    def fold(self, events):
        with self.env.begin(write=True) as txn:
            self.projection.fold(txn, self.databases, events)

    def fold_in_batches(self, events, sizes):
        """Fold events in batches of these sizes, repeated as long as needed."""
        at = 0
        for size in sizes * (len(events) + 1):
            if at >= len(events):
                return
            self.fold(events[at : at + size])
            at += size

    def upkeep(self):
        """Do every merge that is due; return how many there were."""
        merges = 0
        with self.env.begin(write=True) as txn:
            while self.projection.upkeep(txn, self.databases):
                merges += 1
        return merges

    @contextmanager
    def reader(self, tail=()):
        """Give a reader, with a tail of events folded in memory."""
        with self._reading(tail) as txn:
            yield self.projection.reader(txn, self.databases, 0)

    @contextmanager
    def _reading(self, tail):
        with self.env.begin(buffers=True) as txn:
            if not tail:
                yield txn
                return
            overlay = Overlay(txn, self.databases, Changes(object(), 0, bytes(32)))
            self.projection.fold(overlay, self.databases, tail)
            yield overlay

    def search(self, query, limit=50, owners=(ME,), eligible=None, tail=()):
        with self.reader(tail) as reader:
            return reader.search(frozenset(owners), Question.of(query), limit, eligible).hits[:limit]

    def containing(self, text, owners=(ME,), eligible=None, tail=()):
        with self.reader(tail) as reader:
            return list(reader.containing(frozenset(owners), text, eligible))

    def digest(self, tail=()):
        with self._reading(tail) as txn:
            return self.projection.content_digest(txn, self.databases)

    def close(self):
        self.env.close()


def scanned(conversation, query, limit=50, owners=(ME,), eligible=None):
    """Rank what is in force by looking at every message: no index, no pruning, no key of an owner."""
    weigher = Weigher(TokenKey(bytes(32)), MESSAGE_FIELDS)
    documents = []
    for message in conversation.in_force(owners):
        weighed = weigher.weigh(message.document)
        documents.append((message, dict(zip(weighed.token_list(), weighed.impacts, strict=True))))
    frequencies = Counter(token for _, impacts in documents for token in impacts)
    query_counts = Counter(TokenKey(bytes(32)).tokens(query_terms(query)))
    plain = []
    for message, impacts in documents:
        score = sum(
            term_weight(len(documents), frequencies[token], times) * impacts[token]
            for token, times in query_counts.items()
            if token in impacts
        )
        may = eligible is None or bool(eligible(np.array([message.cursor], np.uint64))[0])
        session = message.content.get("session_id")
        source = None if session is None else (message.owner, session)
        named = message.content.get("agent_key", "").casefold() in query.casefold().split()
        tie = (-message.created_at, message.event_id)
        traits = traits_of(message.content["message"])
        plain.append(Plain(message.cursor, tie, score, source, message.created_at, named, traits, may))
    return plain_ranking(plain, query, limit, beside_all=True)


def holding(conversation, text, owners=(ME,)):
    """Return the cursors of the messages that hold a text, newest first, by looking at every message."""
    wanted = normalised(text)
    found = [
        (message.created_at, message.cursor)
        for message in conversation.in_force(owners)
        if wanted and wanted in normalised(message.content["message"])
    ]
    return [cursor for _, cursor in sorted(found, reverse=True)]

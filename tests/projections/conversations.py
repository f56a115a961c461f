"""Events of a conversation, made by hand, and one projection folded from them in an environment of its own."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import lmdb

from journal.errors import BlobMissing
from journal.events import FORMAT, Actor, EventType, Header
from journal.messages import MessageState, message_id_of
from projections.overlay import Changes, Overlay
from projections.port import FoldEvent
from tests.projections.histories import NOON, SCOPE

ALICE, BOB, ALICE_TOO = "principal:alice", "principal:bob", "principal:alice-laptop"
KEY = hashlib.sha256(b"a projection's key").digest()
LOST = object()


def only(*owners):
    return frozenset(owners)


@dataclass
class Said:
    """An event, and what it says. A message that was erased since says nothing, as the journal has it."""

    header: Header
    content: Any


class Talk:
    """Writes conversation events. Messages are known by the cursor that ``say`` returned."""

    def __init__(self):
        self.events: list[Said] = []
        self.states: dict[str, MessageState] = {}
        self.now = NOON

    def say(self, message="hello", *, owner=ALICE, role="user", at=None, lost=False, pinned=False, **said):
        content = {"message": message, "role": role, "agent_platform": "codex", **said}
        if at is not None:
            content["created_at"] = at
        event_id = hashlib.sha256(b"message %d" % len(self.events)).digest()
        to_state = MessageState.PINNED if pinned else MessageState.ACTIVE
        return self._append(
            EventType.MESSAGE, LOST if lost else content, owner, subject=message_id_of(event_id), to_state=to_state
        )

    def revise(self, cursor, message, *, lost=False):
        return self._about(EventType.MESSAGE_REVISION, cursor, LOST if lost else {"message": message})

    def tag(self, cursor, p_tag, *, lost=False, owner="principal:curator"):
        said = LOST if lost else {"p_tag": p_tag, "d_tags": [], "by": "hand"}
        return self._about(EventType.MESSAGE_TAG, cursor, said, owner=owner)

    def pin(self, cursor):
        return self._about(EventType.MESSAGE_PIN, cursor, to_state=MessageState.PINNED)

    def unpin(self, cursor):
        return self._about(EventType.MESSAGE_UNPIN, cursor, to_state=MessageState.ACTIVE)

    def archive(self, cursor):
        return self._about(EventType.MESSAGE_ARCHIVE, cursor, to_state=MessageState.ARCHIVED)

    def restore(self, cursor):
        return self._about(EventType.MESSAGE_RESTORE, cursor, to_state=MessageState.ACTIVE)

    def erase(self, cursor):
        return self._about(EventType.MESSAGE_ERASED, cursor, to_state=MessageState.ERASED)

    def project(self, name, description="", *, owner=ALICE, lost=False):
        said = LOST if lost else {"name": name, "description": description}
        return self._append(EventType.PROJECT_TAG, said, owner)

    def alias(self, name, alias_of, *, owner=ALICE):
        return self._append(EventType.PROJECT_ALIAS, {"name": name, "alias_of": alias_of}, owner)

    def profile(self, core, sub="", *, owner=ALICE, lost=False):
        said = {"user_name": "A", "core_profile": core, "sub_profile": sub, "action": "update", "by": "hand"}
        return self._append(EventType.PROFILE, LOST if lost else said, owner)

    def idle(self):
        return self._append(EventType.KEY_ROTATION, None, ALICE)

    def id_of(self, cursor):
        return self.events[cursor - 1].header.subject

    def _about(self, kind, cursor, content=None, *, to_state=None, owner=ALICE):
        subject = self.id_of(cursor)
        to_state = self.states[subject] if to_state is None else to_state
        return self._append(kind, content, owner, subject=subject, to_state=to_state)

    def _append(self, kind, content, owner, *, subject=None, to_state=0):
        self.now += 1
        cursor = len(self.events) + 1
        header = Header(
            format=FORMAT, type=kind, scope=SCOPE, cursor=cursor, recorded_at=self.now, event_id=bytes(32),
            actor=Actor(owner), subject=subject, record_id=None, related=None,
            from_state=self.states.get(subject, 0), to_state=to_state, key_id=None, intent=None, guards=(),
            content_digest=None, ledger_digest=None, prev=bytes(32),
        )  # fmt: skip
        if subject is not None:
            self.states[subject] = MessageState(to_state)
        self.events.append(Said(header, content))
        return cursor

    def page(self, after, upto):
        """Return events as a fold has them now."""
        return [FoldEvent(said.header, partial(self._open, said)) for said in self.events[after:upto]]

    def _open(self, said):
        if self.states.get(said.header.subject) is MessageState.ERASED:
            return None
        if said.content is LOST:
            raise BlobMissing("lost")
        return said.content


class Told:
    """A projection, folded from a talk in batches of our choice."""

    def __init__(self, path, talk, projection):
        self.talk = talk
        self.projection = projection
        self.env = lmdb.open(str(path), max_dbs=8, map_size=1 << 28, sync=False, lib_version=0)
        self.tables = {name: self.env.open_db(name) for name in projection.databases}
        self.cursor = 0

    def fold(self, *, batch=10_000, upto=None):
        upto = len(self.talk.events) if upto is None else upto
        while self.cursor < upto:
            step = min(self.cursor + batch, upto)
            with self.env.begin(write=True, buffers=True) as txn:
                self.projection.fold(txn, self.tables, self.talk.page(self.cursor, step))
            self.cursor = step
        return self

    @contextmanager
    def reader(self):
        with self.env.begin(buffers=True) as txn:
            yield self.projection.reader(txn, self.tables, self.cursor)

    @contextmanager
    def in_memory(self, *, batch=3):
        """Fold the rest over a read transaction, as a process does that has no claim; yield state and reader."""
        upto = len(self.talk.events)
        with self.env.begin(buffers=True) as txn:
            overlay = Overlay(txn, self.tables, Changes("base", self.cursor, b""))
            for after in range(self.cursor, upto, batch):
                self.projection.fold(overlay, self.tables, self.talk.page(after, min(after + batch, upto)))
            yield overlay, self.projection.reader(overlay, self.tables, upto)

    def digest(self):
        with self.env.begin(buffers=True) as txn:
            return self.projection.content_digest(txn, self.tables)

    def raw(self):
        """Return every key and value as the file holds them."""
        with self.env.begin() as txn:
            return [
                bytes(key + value) for table in self.tables.values() for key, value in txn.cursor(db=table).iternext()
            ]


def scribble(talk, rng, events):
    """Write some events of every kind, in random legal order; texts may be lost, messages may be erased."""
    for _ in range(events):
        standing = [
            (said.header.cursor, talk.states[said.header.subject])
            for said in talk.events
            if said.header.type == EventType.MESSAGE and talk.states[said.header.subject] is not MessageState.ERASED
        ]
        owner = rng.choice((ALICE, BOB, ALICE_TOO))
        name, other = rng.choice("abcdef"), rng.choice("abcdef")
        choice, lost = rng.random(), rng.random() < 0.1
        if choice < 0.35 or not standing:
            role = rng.choice(("user", "assistant"))
            said = {"agent_model": "m" + name} if role == "assistant" else {}
            at = rng.choice((None, talk.now - rng.randrange(20)))
            platform, text = rng.choice(("codex", "claude-code")), "말" * rng.randrange(1, 9)
            pinned = rng.random() < 0.2
            talk.say(
                text, owner=owner, role=role, at=at, agent_platform=platform, lost=lost, pinned=pinned, cwd=name, **said
            )
        elif choice < 0.5:
            rng.choice((
                partial(talk.project, name, other, lost=lost), partial(talk.alias, name, rng.choice((other, None))),
                partial(talk.profile, name, lost=lost), partial(talk.idle),
            ))()  # fmt: skip
        else:
            cursor, state = rng.choice(standing)
            moves = [
                partial(talk.erase, cursor), partial(talk.tag, cursor, rng.choice((name, None)), lost=lost),
                partial(talk.revise, cursor, "x" * rng.randrange(9), lost=lost),
            ]  # fmt: skip
            if state is MessageState.ACTIVE:
                moves += [partial(talk.pin, cursor), partial(talk.archive, cursor)]
            else:
                moves.append(partial(talk.unpin if state is MessageState.PINNED else talk.restore, cursor))
            rng.choice(moves)()

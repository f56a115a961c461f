"""Bringing messages of another system in: each once, whatever was imported before, and wholly or not at all.

A message's event id is a keyed digest of its external id, so that an import that is repeated, or that died in the
middle and is run again, finds what it brought already. Everything about a message is in one decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from journal import identity, limits
from journal.chain import has_ended
from journal.errors import MutationOutcomeUnknown
from journal.events import Draft, EventType
from journal.messages import PREFIX, MessageState
from tools.conversation.utterances import message_draft, state_draft

if TYPE_CHECKING:
    from journal.events import Actor
    from journal.keyring import DataKey
    from journal.store.port import View
    from tools.memory.call import Call
    from tools.memory.engine import Engine

EXTERNAL_PREFIX: Final = "jsonl:"
"""What an external id begins with that was made from the id a message had in another store."""

_TOOL = "import"  # in the intent's digest; no tool of that name is served
_BATCH_MAX_BYTES = 16 * limits.MIB  # of text, sealed and held until its commit


class Fate(Enum):
    """What becomes of a message that is brought."""

    IMPORTED = "imported"
    DUPLICATE = "duplicates"  # it is here already
    ERASED = "skipped"  # it was here and was erased, which no import takes back


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message to be brought."""

    content: dict[str, Any]  # with its newest text and its external id
    earlier: tuple[str, ...] = ()  # its texts before that, the oldest first
    state: MessageState = MessageState.ACTIVE
    tags: dict[str, Any] | None = None  # {p_tag, d_tags}
    known_as: str | None = None  # its message id where it comes from, which may be here

    @property
    def events(self) -> int:
        """How many events it takes."""
        return 1 + len(self.earlier) + (self.tags is not None) + (self.state is MessageState.ARCHIVED)

    @property
    def size_bytes(self) -> int:
        """How large its texts are."""
        return len(self.content["message"].encode()) + sum(len(text.encode()) for text in self.earlier)

    @property
    def message_ids(self) -> Iterator[str]:
        """The ids that it may have here, should it have been said here in the first place."""
        if self.known_as is not None:
            yield self.known_as
        external_id = str(self.content["external_id"])
        if external_id.startswith(EXTERNAL_PREFIX + PREFIX):
            yield external_id.removeprefix(EXTERNAL_PREFIX)


class Bringing:
    """Writes messages of the bound user into the conversation's scope."""

    def __init__(self, engine: Engine, call: Call) -> None:
        self._engine = engine
        self._scope = call.binding.conversation.scope
        self._user = call.binding.conversation.user
        self._principal = call.binding.principal
        self._actor: Actor = call.actor
        self._identity_key = engine.journal.keyring.identity_key(self._scope)

    def bring(self, messages: Iterable[Incoming]) -> Counter[Fate]:
        """Write messages in their order and return how many met which fate.

        What was written stays written if this ends early; to run it again brings the rest.

        Raises:
            StoreUnavailable: the store cannot be written. MutationOutcomeUnknown: the last batch may be written or not.
        """
        fates: Counter[Fate] = Counter()
        for batch in _batches(messages):
            fates += self._write(batch)
        return fates

    def _write(self, batch: Sequence[Incoming]) -> Counter[Fate]:
        journal = self._engine.journal
        with journal.store.view(self._scope) as view:
            looked_at = list(self._fates(view, batch))
        fresh = [message for message, fate in looked_at if fate is Fate.IMPORTED]
        if not fresh:  # what is here once stays known for good
            return Counter(fate for _, fate in looked_at)
        keys: list[DataKey] = []
        unused: list[DataKey] = []
        try:
            for _ in fresh:
                keys.append(journal.take_key(self._scope))  # noqa: PERF401 - those taken are given back if one fails
            made = {id(message): (key, self._drafts(message, key)) for message, key in zip(fresh, keys, strict=True)}
            told: Counter[Fate] = Counter()

            def decide(view: View) -> Sequence[Draft]:
                told.clear()
                unused[:] = []
                drafts: list[Draft] = []
                for message, fate in self._fates(view, batch):
                    told[fate] += 1
                    key, own = made.get(id(message), (None, ()))
                    if fate is Fate.IMPORTED:
                        drafts += own
                    elif key is not None:  # another process brought it since
                        unused.append(key)
                return drafts

            journal.commit(self._scope, decide)
        except MutationOutcomeUnknown:
            raise
        except Exception:  # an interrupt is none: the commit may be under way
            self._give_back(keys)
            raise
        self._give_back(unused)
        return told

    def _give_back(self, keys: Sequence[DataKey]) -> None:
        for key in reversed(keys):
            self._engine.journal.keyring.give_back(self._scope, key)

    # --- what is here already --------------------------------------------------------------------

    def _fates(self, view: View, batch: Sequence[Incoming]) -> Iterator[tuple[Incoming, Fate]]:
        """Yield what becomes of each message at this head; one that comes twice in a batch is a duplicate."""
        seen: set[str] = set()
        for message in batch:
            external_id = message.content["external_id"]
            yield message, Fate.DUPLICATE if external_id in seen else self._fate(view, message)
            seen.add(external_id)

    def _fate(self, view: View, message: Incoming) -> Fate:
        known = [view.outcome(self._event_id(principal, message)) for principal in sorted(self._user)]
        ids: Collection[str | None] = [event.header.subject for event in known if event is not None]
        for message_id in (*ids, *message.message_ids):
            row = None if message_id is None else view.subject(message_id)
            born = None if row is None else view.event(row.born)
            if row is None or born is None or message_id is None or born.header.actor.principal not in self._user:
                continue
            return Fate.ERASED if has_ended(message_id, row.state) else Fate.DUPLICATE
        return Fate.IMPORTED

    def _event_id(self, principal: str, message: Incoming) -> bytes:
        return identity.external(self._identity_key, principal, message.content["external_id"])

    # --- drafts ----------------------------------------------------------------------------------

    def _drafts(self, message: Incoming, key: DataKey) -> list[Draft]:
        """Return everything about a message, in the order in which it is written."""
        journal, scope, actor = self._engine.journal, self._scope, self._actor
        texts = [*message.earlier, message.content["message"]]
        born_state = MessageState.PINNED if message.state is MessageState.PINNED else MessageState.ACTIVE
        born = message_draft(
            journal, scope, actor, key, {**message.content, "message": texts[0]}, state=born_state,
            event_id=self._event_id(self._principal, message),
            intent=identity.intent(self._identity_key, _TOOL, None, message.content["external_id"]),
        )  # fmt: skip
        drafts = [born, *(self._sealed(EventType.MESSAGE_REVISION, born, key, {"message": text}) for text in texts[1:])]
        if message.tags is not None:
            drafts.append(self._sealed(EventType.MESSAGE_TAG, born, key, {**message.tags, "by": "import"}))
        if message.state is MessageState.ARCHIVED:
            kind = EventType.MESSAGE_ARCHIVE
            drafts.append(state_draft(journal, scope, actor, kind, str(born.subject), born_state))
        return drafts

    def _sealed(self, kind: EventType, born: Draft, key: DataKey, said: dict[str, Any]) -> Draft:
        """Return the draft of a revision or of tags, under the key that the message brings."""
        journal, scope = self._engine.journal, self._scope
        event_id = journal.random_event_id(scope)
        return Draft(
            type=kind, event_id=event_id, actor=self._actor, subject=born.subject, from_state=born.to_state,
            to_state=born.to_state, key_id=key.key_id,
            content=journal.seal_content(scope, event_id, born.subject, key, said),
        )  # fmt: skip


def _batches(messages: Iterable[Incoming]) -> Iterator[list[Incoming]]:
    """Yield messages in batches of at most BATCH_MAX_EVENTS events; one that takes more stands alone."""
    batch: list[Incoming] = []
    events = size_bytes = 0
    for message in messages:
        if batch and (
            events + message.events > limits.BATCH_MAX_EVENTS or size_bytes + message.size_bytes > _BATCH_MAX_BYTES
        ):
            yield batch
            batch, events, size_bytes = [], 0, 0
        batch.append(message)
        events += message.events
        size_bytes += message.size_bytes
    if batch:
        yield batch

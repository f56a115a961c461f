"""A real store with records and messages, the folders of its embeddings, and embedders over it."""

from __future__ import annotations

from typing import Self

from journal import layout
from journal.events import Draft, EventType
from journal.messages import MessageState, message_id_of
from projections.current import Current
from projections.timeline import Timeline
from projections.vector.embedder import Embedder
from projections.vector.folders import Folders
from projections.vector.opened import Embeddings
from projections.vector.standing import messages_standing, records_standing
from tests.projections.histories import ACTOR, SCOPE
from tests.projections.stores import Store, created
from tests.projections.vector.wordly import Wordly


class Clock:
    """The store's clock, moved by hand on top of the real one."""

    def __init__(self, real):
        self._real = real
        self.ahead = 0

    def now(self):
        return self._real.now() + self.ahead


def make(journal, scope):
    kinds = (Current, Timeline)
    return [kind(journal.projection_key(scope, kind.name, kind.version)) for kind in kinds]


class Space(Store):
    """A store whose records and messages can be embedded."""

    def __init__(self, path):
        super().__init__(created(path / "store"))
        self.clock = self.journal.clock = Clock(self.journal.clock)
        self.reading = self.projections(make)
        self.folders = Folders(self.path / layout.PROJECTIONS, SCOPE)
        self.provider = Wordly()

    def embedder(self, provider=None) -> Embedder:
        return Embedder(self.journal, self.reading, self.folders, provider or self.provider)

    def embeddings(self, provider=None) -> Embeddings:
        provider = provider or self.provider
        return Embeddings(self.journal, SCOPE, self.folders, provider.digest, provider.dimension)

    def embed(self, provider=None):
        """Embed until nothing is left; return the embedder."""
        embedder = self.embedder(provider)
        while embedder.step():
            pass
        return embedder

    def standing(self):
        with self.reading.snapshot() as snapshot:
            return records_standing(snapshot.current).joined(messages_standing(snapshot.reader("timeline")))

    def embedded(self, provider=None):
        """Return the cursors of what has an embedding that can be opened and is of the newest text."""
        return self.embeddings(provider).load(self.standing()).cursors.tolist()

    # --- messages --------------------------------------------------------------------------------

    def say(self, text, **said) -> tuple[str, int]:
        """Say a message; return its id and cursor."""
        event_id = self.journal.random_event_id(SCOPE)
        subject = message_id_of(event_id)
        key = self.journal.take_key(SCOPE)
        content = {"message": text, "role": "user", "agent_platform": "codex", **said}
        draft = Draft(
            type=EventType.MESSAGE, event_id=event_id, actor=ACTOR, subject=subject, to_state=MessageState.ACTIVE,
            key_id=key.key_id, slot=key.slot, slot_generation=key.generation,
            content=self.journal.seal_content(SCOPE, event_id, subject, key, content),
        )  # fmt: skip
        return subject, self.journal.commit(SCOPE, lambda _: [draft])[0].header.cursor

    def about(self, kind, message_id, content=None, *, to_state=None) -> int:
        """Write another event about a message; return its cursor."""
        event_id = self.journal.random_event_id(SCOPE)

        def decide(view):
            row = view.subject(message_id)
            sealed = None
            if content is not None:
                sealed = self.journal.seal_under(view, SCOPE, event_id, message_id, row.key_id, content)
            state = row.state if to_state is None else to_state
            return [
                Draft(
                    type=kind, event_id=event_id, actor=ACTOR, subject=message_id, from_state=row.state,
                    to_state=state, key_id=None if sealed is None else row.key_id, content=sealed,
                )
            ]  # fmt: skip

        return self.journal.commit(SCOPE, decide)[0].header.cursor

    def revise(self, message_id, text) -> int:
        return self.about(EventType.MESSAGE_REVISION, message_id, {"message": text})

    def erase(self, message_id) -> int:
        cursor = self.about(EventType.MESSAGE_ERASED, message_id, to_state=MessageState.ERASED)
        self.journal.finish_destructions(SCOPE)
        return cursor

    def close(self):
        self.reading.close()
        super().close()

    def __enter__(self) -> Self:
        return self

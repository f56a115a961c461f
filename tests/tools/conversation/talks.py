"""Whoever speaks through the conversation tools, and what the journal holds of it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo

import msgspec

from journal import layout
from journal.events import Actor, Draft, EventType
from journal.messages import MessageState
from journal.scope import Scope
from projections.serving import make_projections
from replay.audit import audit
from replay.rebuild import verify
from tests.tools.memory.world import NOW, ROOT, SCOPE, Caller, World
from tools.conversation.utterances import content_draft, content_of, ledger_draft, message_draft, state_draft
from tools.host.capabilities import MANAGE_KNOWLEDGE, MEMORY_STARTUP, SAVE_MESSAGE, SEARCH_MEMORY
from tools.host.confirmation import list_requests
from tools.host.conversation import ConversationBinding
from tools.memory import approval
from tools.server.service import CallContext

CLIENT = "codex-mcp-client"
ONE, TWO = "principal:one", "principal:two"
HAND = Actor("operator:hand")


def conversation(principal: str = ONE, *, scope: Scope = SCOPE, zone: str = "Asia/Seoul", **changes: Any) -> Any:
    """Return a conversation's binding; ``user`` names further principals of the same person."""
    made = ConversationBinding.of(scope, principal)
    user = frozenset({principal, *changes.pop("user", ())})
    return dataclasses.replace(made, user=user, zone=ZoneInfo(zone), **{"device": "desk", **changes})


class Speaker(Caller):
    """An agent that uses the conversation tools."""

    client: str | None = CLIENT
    session = "session-of-the-speaker"

    def call(
        self, tool: str, arguments: dict[str, Any], *, cancelled: threading.Event | None = None, seconds: float = 30,
        progress: Any = None, ending: threading.Event | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the envelope as it stands on the wire."""
        context = CallContext(
            client_name=self.client, session_id=self.session, protocol_version="2025-11-25",
            deadline=time.monotonic() + seconds, cancelled=cancelled or threading.Event(),
            progress=progress or (lambda *told: None),
        )  # fmt: skip
        document = self.service.call(tool, arguments, context).document()
        answered: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
        return answered

    @property
    def told_in(self) -> Scope:
        """The scope of the conversations."""
        return self.engine.binding.conversation.scope

    # --- the tools -------------------------------------------------------------------------------

    def save(self, message: str, role: str = "user", **more: Any) -> str:
        """Save a message and return its id."""
        return str(self.value(SAVE_MESSAGE, {"role": role, "message": message, **more})["id"])

    def look(self, query: str | None = None, **more: Any) -> dict[str, Any]:
        """Return the value of a search."""
        return self.value(SEARCH_MEMORY, more if query is None else {"query": query, **more})

    def ids(self, query: str | None = None, **more: Any) -> list[str]:
        """Return the ids of what a search finds."""
        return [found["id"] for found in self.look(query, **more)["results"]]

    def know(self, action: str, target: str = "memory", **more: Any) -> dict[str, Any]:
        """Return the value of manage_knowledge."""
        return self.value(MANAGE_KNOWLEDGE, {"action": action, "target": target, **more})

    def keep(self, content: str) -> str:
        """Add a memory and return its id."""
        return str(self.know("add", content=content)["id"])

    def brief(self, **more: Any) -> str:
        """Return the brief."""
        return str(self.value(MEMORY_STARTUP, more)["brief"])

    def erase(self, message_id: str) -> dict[str, Any]:
        """Ask for an erasure, have a person approve it, and return the value of the repeated call."""
        assert self.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
        self.approve()
        return self.value(MANAGE_KNOWLEDGE, erasing(message_id))

    def approve(self) -> None:
        """Have a person approve the newest request."""
        approval.approve(self.engine, self.told_in, self.asked()[-1].confirmation_id, "operator")

    def asked(self) -> list[Any]:
        """Return the open requests of the conversations' scope."""
        return list_requests(self.engine, self.told_in)

    # --- what no tool of an agent does -----------------------------------------------------------

    def tell(self, texts: Iterable[str], *, role: str = "user", **said: Any) -> list[str]:
        """Append many messages by the journal's own verb; return their ids. ``at`` are instants, one a message."""
        journal, scope, actor = self.engine.journal, self.told_in, Actor(self.engine.binding.principal, "codex")
        instants, state = said.pop("at", None), said.pop("state", MessageState.ACTIVE)
        drafts = []
        for number, text in enumerate(texts):
            created_at = {} if instants is None else {"created_at": instants[number]}
            content = content_of(**{"message": text, "role": role, "agent_platform": "codex", **created_at, **said})
            drafts.append(message_draft(journal, scope, actor, journal.take_key(scope), content, state=state))
        for start in range(0, len(drafts), 100):
            batch = drafts[start : start + 100]
            journal.commit(scope, partial(_the_same, batch))
        return [str(draft.subject) for draft in drafts]

    def tag(self, message_id: str, p_tag: str | None, d_tags: Iterable[str] = ()) -> None:
        """Tag a message."""
        said = {"p_tag": p_tag, "d_tags": list(d_tags), "by": "hand"}
        self._about(EventType.MESSAGE_TAG, message_id, said)

    def move(self, kind: EventType, message_id: str) -> None:
        """Pin, unpin, archive, restore."""
        self._about(kind, message_id, None)

    def project(self, name: str, description: str = "") -> None:
        """Make a project tag."""
        self.ledger(EventType.PROJECT_TAG, {"name": name, "description": description})

    def alias(self, name: str, alias_of: str | None) -> None:
        """Make a project tag another one's alias."""
        self.ledger(EventType.PROJECT_ALIAS, {"name": name, "alias_of": alias_of})

    def profile(self, core: str, sub: str = "", user_name: str = "") -> None:
        """Revise the profile by hand."""
        self.ledger(EventType.PROFILE, {
            "user_name": user_name, "core_profile": core, "sub_profile": sub, "action": "update", "by": "hand",
        })  # fmt: skip

    def ledger(self, kind: EventType, said: dict[str, Any]) -> None:
        """Append an event about no message, in the principal's name."""
        journal, scope = self.engine.journal, self.told_in
        draft = ledger_draft(journal, scope, Actor(self.engine.binding.principal), kind, said)
        journal.commit(scope, lambda _: [draft])

    def _about(self, kind: EventType, message_id: str, said: dict[str, Any] | None) -> None:
        journal, scope = self.engine.journal, self.told_in

        def decide(view: Any) -> list[Any]:
            row = view.subject(message_id)
            if said is None:
                return [state_draft(journal, scope, HAND, kind, message_id, row.state)]
            return [content_draft(journal, view, scope, HAND, kind, message_id, row, said)]

        journal.commit(scope, decide)


def speaker(world: World, principal: str = ONE, *, talk: dict[str, Any] | None = None, **changes: Any) -> Speaker:
    """Return an agent; ``talk`` changes the conversation's binding, ``changes`` the binding."""
    bound = conversation(principal, **(talk or {}))
    return Speaker(world.engine(principal=principal, conversation=bound, **changes))


def erasing(message_id: str, **more: Any) -> dict[str, Any]:
    """Return the arguments of an erasure."""
    return {"action": "remove", "target": "memory", "memory_id": message_id, "erase": True, **more}


def story(world: World, message_id: str, scope: Scope = SCOPE) -> list[tuple[str, int, Any]]:
    """Return (event, state after it, content) of every event about a message."""
    journal = world.journal
    with journal.store.view(scope) as view:
        return [
            (header.kind.label, header.to_state, header.content_digest and journal.content(view, header))
            for header in (event.header for event in journal.store.read(scope, 0, 100_000))
            if header.subject == message_id
        ]


def _the_same(drafts: list[Draft], _view: object) -> list[Draft]:
    return drafts


def born(world: World, message_id: str, scope: Scope = SCOPE) -> tuple[Any, Any]:
    """Return the header and the content of a message's first event."""
    journal = world.journal
    with journal.store.view(scope) as view:
        row = view.subject(message_id)
        event = None if row is None else view.event(row.born)
        assert event is not None
        return event.header, journal.content(view, event.header)


def labels(world: World, message_id: str) -> list[str]:
    """Return the types of the events about a message."""
    return [label for label, _, _ in story(world, message_id)]


def assert_sound(world: World, engine: Any, scope: Scope = SCOPE) -> None:
    """Audit the store, and hold every projection beside a fresh fold."""
    report = audit(world.journal, world.journal.path / layout.PROJECTIONS, make_projections)
    assert report.ok, report
    store: Any = world.journal.store
    assert store.check_indexes(scope, world.journal.keyring.located(scope)) == []
    assert all(one.ok for one in verify(engine.projections(scope)))


class OtherProcess:
    """Another process with the same store open: one line asks, one line answers. ``failpoint``: where it dies.

    What it logs goes to the file ``log``, or nowhere.
    """

    def __init__(self, world: World, *, failpoint: str | None = None, log: Path | None = None) -> None:
        self._log = Path(os.devnull).open("ab") if log is None else log.open("ab")  # noqa: SIM115 - it is the process's
        environment = {**os.environ} | ({"ENGRAM_FAILPOINT": failpoint} if failpoint else {})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.conversation.other_process", str(world.path)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment,
        )  # fmt: skip

    def ask(self, do: str, **more: Any) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode({"do": do, "now": NOW, **more}).decode() + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return the answer, or None where the process died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return msgspec.json.decode(line) if line else None

    def do(self, do: str, **more: Any) -> Any:
        """Ask and wait; None where the process died or was dead."""
        try:
            self.ask(do, **more)
        except BrokenPipeError:
            return None
        return self.answer()

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Return the envelope of a call."""
        return self.do("call", tool=tool, arguments=arguments)

    def close(self) -> int:
        """Let it end, and return its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(60)
        self.process.stdout.close()
        self._log.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

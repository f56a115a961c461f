"""What the server's instructions carry of a user: the core profile and the pinned lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from journal import limits
from journal.errors import EngramError
from projections.serving import BRIEF
from tools.conversation.brief import pinned_texts
from tools.host.capabilities import MEMORY_STARTUP
from tools.lazylog import LazyLog
from tools.memory.call import Call
from tools.server.service import Remembered

if TYPE_CHECKING:
    from tools.memory.engine import Engine

_log = LazyLog()


def remembered(engine: Engine, timeout_seconds: float) -> Remembered | None:
    """Return the bound user's core profile and pinned lines; None where nothing may be told, or not in time.

    Whoever may not ask for the brief is not told a part of it either.
    """
    binding = engine.binding
    if not engine.authority.lists(binding, MEMORY_STARTUP, engine.clock.now()):
        return None
    scope, deadline = binding.conversation.scope, time.monotonic() + timeout_seconds
    call = Call(binding=binding, actor=binding.actor(), now=engine.clock.now(), deadline=deadline)
    try:
        with (
            engine.projections(scope).snapshot(deadline, BRIEF) as snapshot,
            engine.journal.store.view(scope) as view,
        ):
            profile = snapshot.reader("profile").newest(binding.conversation.user)
            pinned = pinned_texts(engine, call, snapshot, view, limits.INSTRUCTIONS_MAX_BYTES)
    except EngramError as error:
        _log.info("nothing_remembered_in_instructions", code=error.code)
        return None
    return Remembered("" if profile is None else profile.core_profile, pinned)

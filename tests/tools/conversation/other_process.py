"""The other process of a test of conversations: calls, approvals, rotations and rebuilds, one a line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import structlog

from journal.clock import SystemRandomness
from journal.events import Actor
from journal.log import Journal
from journal.testing import ManualClock
from replay.rebuild import rebuild
from tests.tools.conversation.talks import CLIENT, ONE, Speaker, conversation
from tests.tools.memory.world import ROOT_KEY, SCOPE, binding
from tools.memory import approval
from tools.memory.engine import Engine
from tools.memory.erasure import finish_erasures


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for answers alone
    clock = ManualClock(0)
    journal = Journal.open(Path(sys.argv[1]), ROOT_KEY, clock=clock, randomness=SystemRandomness())
    speaker = Speaker(Engine(journal, binding(SCOPE, principal=ONE, conversation=conversation())))
    speaker.client = CLIENT
    for line in sys.stdin:
        asked = msgspec.json.decode(line)
        clock.set(asked["now"])
        sys.stdout.write(msgspec.json.encode(_done(speaker, asked)).decode() + "\n")
        sys.stdout.flush()
    speaker.engine.close()


def _done(speaker: Speaker, asked: dict[str, Any]) -> Any:
    journal = speaker.engine.journal
    match asked["do"]:
        case "call":
            return speaker.call(asked["tool"], asked["arguments"])
        case "calls":
            return [speaker.call(asked["tool"], arguments) for arguments in asked["many"]]
        case "approve":
            for request in speaker.asked():
                approval.approve(speaker.engine, SCOPE, request.confirmation_id, "operator")
            return True
        case "rotate":
            return journal.rotate_keys(SCOPE, Actor("operator:hand"))
        case "rebuild":
            return rebuild(speaker.engine.projections(SCOPE), asked["name"]).cursor
        case _:
            return finish_erasures(speaker.engine, SCOPE)


if __name__ == "__main__":
    main()

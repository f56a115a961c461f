"""The other process of a test: opens the store, answers one call a line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import structlog

from journal.clock import SystemRandomness
from journal.log import Journal
from journal.testing import ManualClock
from tests.tools.memory.world import ROOT_KEY, SCOPE, Caller, binding
from tools.host.sections import ConfirmationSection
from tools.memory.engine import Engine


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for answers alone
    clock = ManualClock(0)
    journal = Journal.open(Path(sys.argv[1]), ROOT_KEY, clock=clock, randomness=SystemRandomness())
    callers: dict[str, Caller] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        clock.set(asked["now"])
        name = json.dumps(asked["changes"], sort_keys=True)
        if name not in callers:
            callers[name] = Caller(Engine(journal, binding(SCOPE, **_changes(asked["changes"]))))
        sys.stdout.write(json.dumps(callers[name].call(asked["tool"], asked["arguments"])) + "\n")
        sys.stdout.flush()
    for caller in callers.values():
        caller.engine.close()
    journal.close()


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    if "confirmation" in given:
        return {**given, "confirmation": ConfirmationSection(**given["confirmation"])}
    return given


if __name__ == "__main__":
    main()

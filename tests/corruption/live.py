"""Damage to a store while a process has it open and answers from it."""

from __future__ import annotations

import os
import select
import signal
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from journal.errors import EngramError
from projections.serving import make_projections
from tests.corruption import asking
from tests.corruption.asking import HANG_SECONDS, Told, copied
from tests.corruption.damage import Damage
from tests.corruption.template import Template
from tools.host.binding import Binding


def asked_alive(place: Path, template: Template, binding: Binding, damage: Damage, right: list[Any]) -> Told:
    """Ask a copy everything, damage it, and ask the same process again; one that died of it is started again.

    A process may die of what is done to the files under it. Who opens the store then is told that somebody was killed.
    ``right``: what should be answered. Where an answer is another, the pages are walked, and it is asked once more.
    """
    copied(template.new, place, went_down=False)
    ready, go = os.pipe(), os.pipe()

    def work() -> bytes:
        os.close(ready[0])
        os.close(go[1])
        try:
            told = _answered_around(place, template, binding, right, ready[1], go[0])
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            told = Told(ended=f"{type(error).__name__}: {error}"[:300])
        return msgspec.json.encode(asdict(told))

    def beside() -> None:
        os.close(ready[1])
        os.close(go[0])
        if select.select([ready[0]], [], [], HANG_SECONDS)[0] and os.read(ready[0], 1):
            damage.do(place)
            with suppress(BrokenPipeError):
                os.write(go[1], b"go")
        os.close(ready[0])
        os.close(go[1])

    status, raw = asking.in_a_fork(work, beside)
    if status in (-signal.SIGBUS, -signal.SIGSEGV, -signal.SIGABRT):
        return asking.ask(place, template, binding, same_boot=True, right=right)
    if status != 0:
        return Told(ended=f"it ended with {status}")
    return msgspec.json.decode(raw, type=Told)


def _answered_around(
    place: Path, template: Template, binding: Binding, right: list[Any], ready: int, go: int
) -> Told:  # fmt: skip
    told = Told()
    with closing(asking.opened(place, binding)) as engine:
        agents = asking.speakers(engine)
        asking.answers(agents, template)
        os.write(ready, b"r")
        os.read(go, 2)
        asking.look_around(told, engine, agents, template, right)
        with suppress(EngramError):
            told.audit = asking.audited(engine, make_projections)
        told.captures = asking.captured(agents[0], template)
        with suppress(EngramError):  # the journal may be beyond reading
            told.doubled = asking.doubled(engine)
    return told

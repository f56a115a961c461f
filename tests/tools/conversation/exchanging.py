"""Exporting a speaker's memory, importing it into another store, and holding two exports beside each other."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

from journal.events import Actor
from tests.tools.conversation.talks import Speaker
from tools.conversation.exchange.export_jsonl import jsonl_export
from tools.conversation.exchange.export_markdown import markdown_export
from tools.conversation.exchange.import_jsonl import check_jsonl, import_jsonl
from tools.conversation.exchange.import_server_memory import check_server_memory, import_server_memory
from tools.conversation.exchange.standing import standing_memory
from tools.conversation.exchange.summary import Summary
from tools.memory.call import Call

HEADER = {"kind": "engram-export", "version": 1, "exported_at": "2026-01-02T03:04:05.006Z"}
SAID = {
    "kind": "message", "id": "message_" + "ab" * 16, "created_at": "2026-01-02T03:04:05.006Z", "state": "active",
    "role": "user", "message": "the planted words", "agent_platform": "codex",
}  # fmt: skip


def person(speaker: Speaker) -> Call:
    """Return the call of the person to whom a speaker's memory belongs."""
    binding = speaker.engine.binding
    actor = Actor(binding.principal, "operator:tests")
    return Call(binding=binding, actor=actor, now=speaker.engine.clock.now(), deadline=time.monotonic() + 30)


def silent(done: int, total: int) -> None:
    assert 0 <= done <= total


def exported(speaker: Speaker, path: Path) -> list[dict[str, Any]]:
    """Export a speaker's memory to a file and return its lines."""
    with standing_memory(speaker.engine, speaker.engine.binding.conversation) as memory:
        assert memory.lost == 0
        path.write_bytes(b"".join(jsonl_export(memory, speaker.engine.clock.now())))
        assert memory.read == memory.count()
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def imported(speaker: Speaker, path: Path) -> Summary:
    """Import a file."""
    return import_jsonl(speaker.engine, person(speaker), path, check_jsonl(path, silent), silent)


def imported_graph(speaker: Speaker, path: Path, *, pin: bool = False) -> Summary:
    """Import a file of the reference memory server."""
    check_server_memory(path, silent)
    return import_server_memory(speaker.engine, person(speaker), path, silent, pin=pin)


def markdown(speaker: Speaker) -> str:
    bound = speaker.engine.binding.conversation
    with standing_memory(speaker.engine, bound) as memory:
        return "".join(markdown_export(memory, speaker.engine.clock.now(), bound.zone))


def written(path: Path, *lines: Any) -> Path:
    """Write lines: bytes as they are, everything else as JSON."""
    texts = [line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() for line in lines]
    path.write_bytes(b"".join(text + b"\n" for text in texts))
    return path


def comparable(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an export without what differs between two stores: instants of the export itself, and ids."""
    made = copy.deepcopy(lines)
    for line in made:
        line.pop("exported_at", None)
        line.pop("recorded_at", None)
        if line["kind"] == "message":
            known_as = line.pop("id")
            line.setdefault("external_id", f"jsonl:{known_as}")
    return made

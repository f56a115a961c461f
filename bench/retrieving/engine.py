"""The engine under test: a store that is filled by captures and admissions, and asked by engram_memory_search."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from bench.commit import binding
from bench.retrieving.sets import Text, Workspace
from journal import layout, limits
from journal.log import Journal
from journal.scope import Scope
from projections.vector.providers.settings import Settings
from tools.host.capabilities import CAPTURE, REQUEST_ADMISSION, SEARCH
from tools.memory.call import Call
from tools.memory.dispatch import value_of
from tools.memory.engine import Engine
from tools.memory.semantic import channel

CALLERS: Final = 64  # so that the journal commits many at once
_PURPOSE: Final = "purpose:bench"


class EngineUnderTest:
    """A store in a folder, with a scope a workspace."""

    name = "engram"

    def __init__(self, place: Path, semantic: Settings | None = None) -> None:
        """Take a folder, and the provider of embeddings where searches are to be by meaning too."""
        self._place = place
        if not place.exists():
            layout.create(place, "bench")
        self._settings = semantic or Settings()
        self._engine = self._opened()
        self._positions: dict[str, int] = {}  # of every record, in its workspace

    def _opened(self) -> Engine:
        """Return the engine over the store."""
        journal = Journal.open(self._place, bytes(32))
        return Engine(journal, binding(), semantic=channel(journal, self._settings))

    def _value(self, workspace: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the value of a tool's call, as an agent makes it."""
        bound = replace(self._engine.binding, scope=Scope.of("bench", workspace))
        call = Call(
            binding=bound, actor=bound.actor(), now=self._engine.clock.now(), client_name="bench",
            deadline=time.monotonic() + 600,
        )  # fmt: skip
        return value_of(self._engine, tool, arguments, lambda: call, lambda: call)

    # --- filling ---------------------------------------------------------------------------------

    def fill(self, workspaces: list[Workspace]) -> float:
        """Capture and admit everything, what is of one source in its order; return the seconds that took."""
        began = time.perf_counter()
        with ThreadPoolExecutor(CALLERS) as callers:
            filled = [
                callers.submit(self._fill_source, workspace.name, list(texts))
                for workspace in workspaces
                for _, texts in groupby(enumerate(workspace.texts), key=lambda numbered: numbered[1].source)
            ]
        for each in filled:
            each.result()
        return time.perf_counter() - began

    def _fill_source(self, workspace: str, texts: list[tuple[int, Text]]) -> None:
        """Capture and admit the texts of one source."""
        for number, text in texts:
            key = f"{workspace}-{number:016d}"
            captured = self._value(workspace, CAPTURE, {"idempotency_key": key, **_captured(text)})
            admission = {"candidate_id": captured["candidate_id"], "idempotency_key": f"admission-{key}"}
            outcome = self._value(workspace, REQUEST_ADMISSION, admission)["outcome"]
            self._positions[outcome["record_id"]] = number

    def rebuild(self) -> None:
        """Close the store, throw its projections away, and open it again: they are folded by the code as it is now."""
        self._engine.close()
        shutil.rmtree(self._place / layout.PROJECTIONS)
        (self._place / layout.PROJECTIONS).mkdir(mode=0o700)
        self._engine = self._opened()

    def embed(self, workspaces: list[Workspace]) -> float:
        """Embed everything; return the seconds that took."""
        began = time.perf_counter()
        semantic = self._engine.semantic
        assert semantic is not None
        for workspace in workspaces:
            while semantic.step(self._engine.projections(Scope.of("bench", workspace.name))):
                pass
        return time.perf_counter() - began

    # --- asking ----------------------------------------------------------------------------------

    def found(self, workspace: str, query: str, channels: str = "lexical") -> Iterator[int]:
        """Yield the positions of the documents that a query finds, best first: a page of ten, then the longest ones.

        ``channels``: ``lexical`` or ``lexical_and_semantic``.
        """
        arguments: dict[str, Any] = {
            "query": query, "purpose_ref": _PURPOSE, "max_packet_bytes": limits.PACKET_MAX_BYTES,
            "capability_policy": {"minimum_channels": channels, "network": "forbid"},
        }  # fmt: skip
        while True:
            value = self._value(workspace, SEARCH, arguments)
            yield from (self._positions[packet["record"]["record_id"]] for packet in value["records"])
            if "next_page_cursor" not in value:
                return
            arguments |= {"page_cursor": value["next_page_cursor"], "limit": limits.SEARCH_LIMIT_MAX}

    def close(self) -> None:
        """Close the store."""
        self._engine.close()


def _captured(text: Text) -> dict[str, Any]:
    """Return a capture's arguments: the main text is the primary component, texts around it are context."""
    digest = "sha256:" + hashlib.sha256(text.main.encode()).hexdigest()
    said = [("evidence", text.main), *(("context", each) for each in text.around)]
    citation = {
        "citation_id": "citation:1", "source_ref": text.source, "content_digest": digest,
        "locator": {"scheme": "turn", "value": text.locator},
    }  # fmt: skip
    components = [
        {"component_id": f"component:{number}", "kind": kind, "text": each, "citation_ids": ["citation:1"]}
        for number, (kind, each) in enumerate(said, 1)
    ]
    payload = {
        "schema_version": 2, "purpose_ref": _PURPOSE, "valid_time": {"t": 0}, "components": components,
        "primary_component_id": "component:1", "citations": [citation],
        "primary_event": {"at": 0, "type_ref": "event:said", "citation_id": "citation:1"},
    }  # fmt: skip
    evidence = {"evidence_ref": text.source, "evidence_digest": digest, "citation_ids": ["citation:1"]}
    return {"payload": payload, "evidence": evidence}

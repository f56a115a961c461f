"""Decision records as captures: true digests of exact bytes, and locators by line."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

_KINDS = {
    "Context": "context",
    "Decision": "decision",
    "Consequences": "evidence",
    "배경": "context",
    "결정": "decision",
    "결과": "evidence",
}
PURPOSE = "purpose:decisions"


class Record:
    """One decision record, cut at its headings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = path.read_bytes().splitlines(keepends=True)
        self.title = self._lines[0].decode().lstrip("# ").strip()

    @property
    def sections(self) -> list[tuple[str, int, int]]:
        """(kind, first line, last line) of every section that has one of the known headings, lines from 1."""
        starts = [n for n, line in enumerate(self._lines, 1) if line.startswith(b"## ")]
        ends = [*(start - 1 for start in starts[1:]), len(self._lines)]
        named = [
            (self._lines[start - 1].decode()[3:].strip(), start, end) for start, end in zip(starts, ends, strict=True)
        ]
        return [(_KINDS[name], start, end) for name, start, end in named if name in _KINDS]

    def bytes_of(self, first: int, last: int) -> bytes:
        """Return the exact bytes of a range of lines, their line ends with them."""
        return b"".join(self._lines[first - 1 : last])

    def text(self, first: int, last: int) -> str:
        """Return a section's prose without its heading."""
        return self.bytes_of(first + 1, last).decode().strip()

    def capture(self) -> dict[str, Any]:
        """Return the arguments of engram_memory_capture."""
        now = int(time.time() * 1000)
        citations, components = [], []
        for number, (kind, first, last) in enumerate(self.sections, 1):
            source = f"file:docs/decisions/{self.path.name}"
            citations.append(_citation(f"citation:{number}", source, f"{first}-{last}", self.bytes_of(first, last)))
            text = self.text(first, last)
            text = f"{self.title}\n\n{text}" if kind == "decision" else text
            components.append(
                {
                    "component_id": f"component:{number}",
                    "kind": kind,
                    "text": text,
                    "citation_ids": [f"citation:{number}"],
                }
            )
        primary = next(component for component in components if component["kind"] == "decision")
        return {
            "idempotency_key": f"demo-capture-{self.path.stem}",
            "payload": {
                "schema_version": 2, "purpose_ref": PURPOSE, "valid_time": {"t": now - 1000}, "components": components,
                "primary_component_id": primary["component_id"],
                "primary_event": {
                    "at": now - 1000, "type_ref": "event:decided", "citation_id": primary["citation_ids"][0]
                },
                "citations": citations,
            },
            "evidence": {
                "evidence_ref": f"file:docs/decisions/{self.path.name}",
                "evidence_digest": _digest(self.path.read_bytes()),
                "citation_ids": [citation["citation_id"] for citation in citations],
            },
        }  # fmt: skip


def _citation(citation_id: str, source: str, lines: str, selected: bytes) -> dict[str, Any]:
    return {
        "citation_id": citation_id,
        "source_ref": source,
        "locator": {"scheme": "line", "value": lines},
        "content_digest": _digest(selected),
    }


def _digest(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()

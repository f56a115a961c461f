"""Walks over pages that are due at once."""

from __future__ import annotations

from journal import limits


def unpaused(monkeypatch):
    """Let a walk be due whenever a scrub takes a step."""
    for name in ("PAGE_SCRUB_PAUSE_SECONDS", "PAGE_SCRUB_SHARE", "PAGE_SCRUB_AFTER_OPENING_SECONDS"):
        monkeypatch.setattr(limits, name, 0)

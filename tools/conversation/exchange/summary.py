"""What became of an import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How many messages were imported, and what was not."""

    imported: int
    duplicates: int  # messages that were here already
    skipped: int  # messages that were erased here, and aliases and old revisions that this store does not take
    tags: int  # project tags that are new here or got a description or an alias
    profile: str  # imported, kept (the user has one here), or none (the file has none)

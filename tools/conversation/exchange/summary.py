"""What became of an import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How many messages were imported, and what was not."""

    imported: int
    duplicates: int  # messages that were here already
    skipped: int  # messages that were erased here
    aliases_left_out: int = 0  # that are set otherwise here, or would close a circle
    revisions_left_out: int = 0  # of the profile, older than one decision holds
    tags: int  # project tags that are new here or got a description or an alias
    profile: str  # imported, kept (the user has one here), or none (the file has none)

"""What a message's fields count. The formula, and every constant beside these, are those of ``lexical.profile``."""

from __future__ import annotations

from typing import Final

from projections.lexical.profile import Field, profile_config_digest

MESSAGE_FIELDS: Final = (
    Field("text", 1_000, 300, 60),
    Field("who", 250, 0, 60),
    Field("tags", 1_500, 0, 60),
)
"""What was said; agent key and subagent role; project tag and keywords."""


def message_profile_digest() -> str:
    """Return the digest of the configuration, fields included."""
    return profile_config_digest(MESSAGE_FIELDS)

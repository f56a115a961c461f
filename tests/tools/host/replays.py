"""What a replay repeats, and what of it tells the present."""

from __future__ import annotations

from typing import Any

LIVES = {"replayed", "status", "key_destruction", "projection_invalidation", "coverage_receipt_digest"}
MINUTE = 60_000


def still(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value without what tells the present."""
    return {name: item for name, item in value.items() if name not in LIVES}

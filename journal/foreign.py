"""What decoding bytes that somebody may have changed can raise.

A decoder refuses what is no MessagePack or JSON, or of another shape, by DecodeError, and what nests deeper than
it goes by RecursionError. Both mean the same: these bytes are not what was written.
"""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, RecursionError)

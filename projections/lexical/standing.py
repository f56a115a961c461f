"""Where a document stands among others, and what counts of it besides its words."""

from __future__ import annotations

from typing import Final, NamedTuple

GROUP_BYTES: Final = 16
NO_LABEL: Final = 0


class Standing(NamedTuple):
    """A document's place in its source, and its traits.

    Documents of one group stand in the order of ``order``, then of their cursors: each is read with those around it.
    """

    group: bytes = bytes(GROUP_BYTES)  # keyed; zeros: it stands alone
    order: int = 0
    label: int = NO_LABEL  # the first eight bytes of the token of the word that labels it, as a little-endian number
    traits: int = 0  # ``traits.traits_of`` its main text

    @property
    def is_alone(self) -> bool:
        """Whether it stands in no group."""
        return not any(self.group)


ALONE: Final = Standing()


def label_of(token: bytes) -> int:
    """Return the number of a label's token."""
    return int.from_bytes(token[:8], "little")

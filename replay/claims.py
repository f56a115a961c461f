"""What checkpoints say that a journal must be, and what it means where it is not.

A claim from outside (an anchor, a file that somebody kept) is older than the store's own word and may contradict it.
The store's own checkpoints tell the cases apart: a cut tail is shorter than they say as well, a store that was rolled
back has them rolled back too, and a copy that went another way signed its own way with the same key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal.errors import CursorGap, EngramError, JournalCorrupt

if TYPE_CHECKING:
    from journal.merkle import Tree


@dataclass(frozen=True, slots=True)
class Claim:
    """A verified checkpoint, and where it was found."""

    source: str  # in words: "the anchor", "the store", "the file NAME"
    size: int
    root: bytes
    inside: bool  # whether it was found in the store itself


class Claims:
    """The claims about one scope, met one after another as its tree grows."""

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self._at: dict[int, list[Claim]] = defaultdict(list)
        for claim in claims:
            self._at[claim.size].append(claim)
        self._sizes = sorted(self._at)
        self._agreeing: list[Claim] = []
        self._differing: list[Claim] = []

    def next_size(self, size: int) -> int | None:
        """Return the next greater size at which something is claimed."""
        at = bisect_right(self._sizes, size)
        return self._sizes[at] if at < len(self._sizes) else None

    def meet(self, tree: Tree) -> None:
        """Compare a tree with what is claimed of its size."""
        for claim in self._at.get(tree.size, ()):
            (self._agreeing if claim.root == tree.root() else self._differing).append(claim)

    def findings(self, head: int) -> Iterator[tuple[EngramError, int | None]]:
        """Yield what is wrong with a journal of ``head`` events that was met as far as it goes, with its cursor."""
        yield from self._shorter(head)
        seen: set[str] = set()
        for claim in self._differing:
            if claim.source not in seen:  # what follows a difference differs too
                seen.add(claim.source)
                yield self._other_history(claim)

    def _shorter(self, head: int) -> Iterator[tuple[EngramError, int | None]]:
        beyond = [claim for size in self._sizes if size > head for claim in self._at[size]]
        if not beyond:
            return
        inside = any(claim.inside for claim in beyond)
        cause = "its tail was cut" if inside else "the whole store was rolled back to an earlier moment"
        for source in dict.fromkeys(claim.source for claim in beyond):
            size = max(claim.size for claim in beyond if claim.source == source)
            yield (
                CursorGap(f"the journal ends at cursor {head}; {source} has a checkpoint of {size}: {cause}"),
                head + 1,
            )

    def _other_history(self, claim: Claim) -> tuple[EngramError, int | None]:
        sound = max((each.size for each in self._agreeing if each.size < claim.size), default=0)
        place = f"between cursors {sound + 1} and {claim.size}"
        said = f"{claim.source} has a checkpoint of {claim.size} with another root"
        if self._is_forked(claim):
            return JournalCorrupt(f"{said}: a forked copy, two histories were signed that part {place}"), sound + 1
        return JournalCorrupt(f"{said}: an event was rewritten {place}"), sound + 1

    def _is_forked(self, claim: Claim) -> bool:
        """Whether the same key signed this journal's history, too, where the claim has another one."""
        rival = any(each.root != claim.root for each in self._at[claim.size] if each.inside is not claim.inside)
        return rival or any(each.inside is not claim.inside and each.size >= claim.size for each in self._agreeing)

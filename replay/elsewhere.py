"""What is known of a store outside it, held against what the store has: a roll-back takes its own memory along.

The anchor names in each key's folder the stores that signed there, and the state folder has the heads of each store
(``replay.known``). A scope that either knows and the store lacks, or has shorter or otherwise, was taken back. A scope
that began anew after that has a new signing key, so the old key's folder stands beside the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal.errors import CursorGap, EngramError, InvalidDigest, JournalCorrupt, StoreUnavailable

if TYPE_CHECKING:
    from journal.checkpointfiles import Anchor, CheckpointFolder, Held
    from journal.notes import PublicKey
    from replay.known import Outside, Point

_BACK = "the whole store was rolled back to an earlier moment"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a store's scope has come."""

    head: int
    key: PublicKey | None  # of its checkpoints, as far as it is known
    hash_at: Callable[[int], bytes | None]  # of the frame at a cursor up to the head; None: it cannot be read


def contradictions(
    store: str, reached: Callable[[], Mapping[str, Reached]], outside: Outside | None, anchor: Anchor | None
) -> Iterator[EngramError]:
    """Yield what is known of a store elsewhere and does not agree with it.

    Args:
        store: its id.
        reached: gives the scopes of which it has an event, by tag in hex; called when the heads are known, so that a
            store that is served meanwhile is not behind them.
        outside: the record of heads, None where there is no place for one.
        anchor: the folder of checkpoints, None where there is none that can be read.
    """
    points: Mapping[str, Point] = {}
    try:
        points = {} if outside is None else outside.points(store)
        held = [] if anchor is None else anchor.held()
        ours = {each.fingerprint: _is_ours(each, store, outside) for each in held}
    except StoreUnavailable as error:
        yield error
        held, ours = [], {}
    present = reached()
    for tag, point in points.items():
        yield from _against_point(tag, point, present.get(tag))
    for tag in sorted({each.tag for each in held}):
        yield from _against_anchor(tag, [each for each in held if each.tag == tag], ours, present.get(tag))


def _is_ours(held: Held, store: str, outside: Outside | None) -> bool | None:
    """Whether this store, or one in whose place it was restored, signed there; None where nobody noted who did."""
    signers = held.folder.signers()
    if not signers:
        return None
    return any(signer == store or (outside is not None and outside.newest_of(signer) == store) for signer in signers)


def _against_point(tag: str, point: Point, has: Reached | None) -> Iterator[EngramError]:
    head = 0 if has is None else has.head
    if head < point.cursor:
        yield CursorGap(
            f"scope {tag} ends at cursor {head}; the heads file in the state folder knows it up to {point.cursor}: "
            f"{_BACK}"
        )
    elif has is not None and point.hash:
        found = has.hash_at(point.cursor)
        if found is not None and found.hex() != point.hash:
            yield JournalCorrupt(
                f"scope {tag} has another event at cursor {point.cursor} than the heads file in the state folder "
                "knows: it was rolled back and went another way, or is a copy"
            )


def _against_anchor(
    tag: str, held: list[Held], ours: Mapping[str, bool | None], has: Reached | None
) -> Iterator[EngramError]:
    if has is None:
        for each in held:
            size = _newest(each)[0] if ours[each.fingerprint] else 0
            if size:
                yield CursorGap(f"scope {tag} has no event; the anchor has a checkpoint of {size} of it: {_BACK}")
        return
    yield from _beyond(tag, held, ours, has)
    mine = None if has.key is None else has.key.fingerprint
    others = [each for each in held if each.fingerprint != mine and ours[each.fingerprint] is not False]
    if mine is None:  # which one is its own cannot be told; more than one that it signed is one too many
        others = [each for each in others if ours[each.fingerprint]]
        others = others if len(others) > 1 else []
    for each in others:
        size, trouble = _newest(each)
        if size:
            yield JournalCorrupt(
                f"checkpoints of this scope were signed with another key: rolled back and begun anew, or a copy "
                f"(scope {tag}, up to {size}, in the anchor under {each.fingerprint})"
            )
        elif trouble:
            yield InvalidDigest(f"the anchor: scope {tag}, {each.fingerprint}: {trouble}")


def _beyond(tag: str, held: list[Held], ours: Mapping[str, bool | None], has: Reached) -> Iterator[EngramError]:
    """Yield where the scope's own key, or this store where the key is not known, signed more than there is."""
    for each in held:
        is_own = ours[each.fingerprint] if has.key is None else each.fingerprint == has.key.fingerprint
        size = _newest(each)[0] if is_own else 0
        if size > has.head:
            yield CursorGap(f"scope {tag} ends at cursor {has.head}; the anchor has a checkpoint of {size}: {_BACK}")


def _newest(held: Held) -> tuple[int, str]:
    """Return the greatest size that the key beside the notes signed, and what is wrong where there is none."""
    folder: CheckpointFolder = held.folder
    key, sizes = folder.key(), folder.sizes()
    if not sizes:
        return 0, ""
    if key is None or (key.name, key.fingerprint) != (f"engram/{held.tag}", held.fingerprint):
        return 0, "the public key beside the checkpoints is not the one that they are filed under"
    for size in reversed(sizes):
        try:
            return folder.checkpoint(size, key).size, ""
        except (InvalidDigest, StoreUnavailable):
            continue
    return 0, "none of the checkpoints is valid"

"""The background scrub: a bounded piece of a scope looked at again at a time, round after round.

It looks at what may rot: the chain, the sealed parts and what opens them, and the tree against the store's checkpoints.
Where it is, and up to which cursor it found everything clean, stands in ``<store>/checkpoints/<scope tag>/scrub`` as
JSON; the file may be thrown away at any time. Legality and projections are the whole audit's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from journal import checkpoints, limits
from journal.chain import has_ended
from journal.checkpointfiles import CheckpointFolder, place_file, read_file
from journal.errors import EngramError, InvalidDigest, JournalCorrupt, StoreUnavailable
from journal.foreign import UNREADABLE
from journal.frames import frame_hash, leaf_hash
from journal.merkle import Tree
from replay.bodies import Bodies
from replay.claims import Claim, Claims
from replay.headers import BROKEN

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, View

FILE = "scrub"


class Scrub(msgspec.Struct, kw_only=True):
    """How far the scrub of a scope is."""

    round_began_at: int  # epoch ms
    cursor: int = 0  # the last event that this round looked at
    peaks: tuple[str, ...] | None = ()  # of the tree at the cursor, in hex; None behind an event that cannot be read
    hash: str = ""  # of the frame at the cursor
    clean_cursor: int = 0  # up to here everything was found clean
    clean_at: int = 0  # epoch ms
    findings: int = 0  # of this round
    first_finding: tuple[str, int, str] | None = None  # code, cursor, detail


def state_of(folder: CheckpointFolder) -> Scrub | None:
    """Return how far a scope's scrub is, None where none was made or its file cannot be read."""
    try:
        return msgspec.json.decode(read_file(folder.path / FILE), type=Scrub)
    except (*UNREADABLE, InvalidDigest, StoreUnavailable):
        return None


def scrub(journal: Journal, scope: Scope, folder: CheckpointFolder) -> Scrub | None:
    """Look at the next piece of a scope; return how far that came, None where nothing was due.

    Raises:
        StoreUnavailable: the store cannot be read, or its folder not be written.
    """
    now, head = journal.clock.now(), journal.store.head(scope).cursor
    state = state_of(folder) or Scrub(round_began_at=now)
    if state.cursor >= head:
        if not head or now - state.round_began_at < limits.SCRUB_PAUSE_SECONDS * 1_000:
            return None
        state = Scrub(round_began_at=now, clean_cursor=min(state.clean_cursor, head), clean_at=state.clean_at)
    upto = min(state.cursor + limits.SCRUB_PIECE_EVENTS, head)
    _look(journal, scope, folder, state, upto)
    state.cursor = upto
    if not state.findings and upto >= state.clean_cursor:
        state.clean_cursor, state.clean_at = upto, now
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        place_file(folder.path / FILE, msgspec.json.encode(state), replace=True)
    except OSError as error:
        raise StoreUnavailable(f"{folder.path} cannot be written: {error.strerror}") from error
    return state


def _find(state: Scrub, error: EngramError, cursor: int) -> None:
    state.findings += 1
    state.clean_cursor = min(state.clean_cursor, cursor - 1)
    if state.first_finding is None:
        state.first_finding = (error.code, cursor, error.detail or error.message())


def _look(journal: Journal, scope: Scope, folder: CheckpointFolder, state: Scrub, upto: int) -> None:
    """Look at the events after the state's cursor up to another one, and bring its tree there."""
    try:
        events = journal.store.read(scope, state.cursor, upto - state.cursor)
    except BROKEN as error:
        _find(state, error, state.cursor + 1)
        state.peaks, state.hash = None, ""
        return
    if state.hash and events[0].header.prev.hex() != state.hash:
        _find(state, JournalCorrupt("the journal is another one than the scrub saw before"), state.cursor)
        state.peaks = None
    _grow(journal, scope, folder, state, events)
    state.hash = frame_hash(events[-1].frame).hex()
    _open(journal, scope, state, events)


def _grow(journal: Journal, scope: Scope, folder: CheckpointFolder, state: Scrub, events: list[Committed]) -> None:
    if state.peaks is None:
        return
    try:
        tree = Tree(state.cursor, [bytes.fromhex(peak) for peak in state.peaks])
    except ValueError:
        state.peaks = None
        return
    claims = Claims(_claims(journal, scope, folder, state, upto=state.cursor + len(events)))
    for event in events:
        tree.append(leaf_hash(event.frame))
        claims.meet(tree)
    for error, cursor in claims.findings(tree.size):
        _find(state, error, cursor or tree.size)
    state.peaks = tuple(peak.hex() for peak in tree.peaks)


def _claims(journal: Journal, scope: Scope, folder: CheckpointFolder, state: Scrub, upto: int) -> list[Claim]:
    sizes = [size for size in folder.sizes() if state.cursor < size <= upto]
    key = checkpoints.public_key(scope, journal.keyring.signing_seed(scope)) if sizes else None
    claims = []
    for size in sizes:
        assert key is not None
        try:
            claims.append(Claim("the store", size, folder.checkpoint(size, key).root, inside=True))
        except InvalidDigest as error:
            _find(state, error, size)
    return claims


class _IndexedStates:
    """Which subjects have ended, as the journal's index says now."""

    def __init__(self, view: View) -> None:
        self._view = view

    def ended(self, header: Header) -> bool:
        """Whether the subject of an event is in a terminal state."""
        if header.subject is None:
            return False
        row = self._view.subject(header.subject)
        return row is not None and has_ended(header.subject, row.state)


def _open(journal: Journal, scope: Scope, state: Scrub, events: list[Committed]) -> None:
    """Check every sealed part against its digest, and open it."""
    with journal.store.view(scope) as view:
        bodies = Bodies(journal, _IndexedStates(view), view.head.cursor)
        bodies.begin_page(view)
        for event in events:
            for found in bodies.judge(view, event.header):
                if found.error is not None:
                    _find(state, found.error, event.header.cursor)

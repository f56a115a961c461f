"""What a living record or message leaves in a store, and a search for it in every file.

    python -m bench.soaking.traces HOST_FILE    # {"subject": "word", ...} on stdin

prints {"subject": ["hex", ...], ...}: the keyed tokens of a word that it alone has, in each form in which they stand in
files, and last its wrapped key. A process of its own, so that what looks for traces never holds the store open.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tools.host.binding import bind
from tools.host.file import load_host_file
from tools.memory.engine import Engine

if TYPE_CHECKING:
    from bench.soaking.ground import Ground

_PIECE_BYTES = 1 << 23
_PREFIX_BYTES = 3


def traces_of(ground: Ground, words: Mapping[str, str]) -> dict[str, list[bytes]]:
    """Return what living subjects leave: subject -> byte strings. ``words``: subject -> its own word.

    Raises:
        RuntimeError: the process that looks could not.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench.soaking.traces", str(ground.host_file)], input=json.dumps(words),
        capture_output=True, text=True, check=False, env=ground.environment(), timeout=120,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"no traces: {done.stderr[-1_000:]}")
    return {subject: [bytes.fromhex(each) for each in found] for subject, found in json.loads(done.stdout).items()}


def _forms(token: bytes) -> list[bytes]:
    """Return a token as it stands in rows, and its halves as they stand in a segment's dictionary."""
    return [token, token[:8][::-1], token[8:][::-1]]


def _looked_at(host_file: Path, words: Mapping[str, str]) -> dict[str, list[bytes]]:
    from projections.lexical.keyed import TokenKey
    from projections.lexical.prepared import NAME as RECORDS
    from projections.lexical.projection import VERSION as RECORDS_VERSION
    from projections.lexical.tokens import document_terms
    from projections.messages import projection as messages
    from projections.messages.owners import Owners

    loaded = load_host_file(host_file)
    bound = bind(loaded)
    engine = Engine.open(loaded, bound, readonly=True)
    try:
        keyring, scope = engine.journal.keyring, bound.scope
        records = TokenKey(keyring.projection_key(scope, RECORDS, RECORDS_VERSION))
        owners = Owners(keyring.projection_key(scope, messages.NAME, messages.VERSION))
        own = owners.keys(owners.tag(bound.principal)).words
        found: dict[str, list[bytes]] = {}
        slots = keyring._opened(scope).slots  # noqa: SLF001 - nothing public tells a wrapped key, and rightly so
        with engine.journal.store.view(scope) as view:
            for subject, word in words.items():
                row = view.subject(subject)
                place = None if row is None or row.key_id is None else view.slot(row.key_id)
                slot = None if place is None else slots.read(place)
                tokens = (own if subject.startswith("message_") else records).tokens(document_terms(word))
                found[subject] = [form for token in tokens for form in _forms(token)]
                found[subject] += [] if slot is None else [slot.wrapped]
        return found
    finally:
        engine.close()


class Needles:
    """Byte strings of eight bytes or more, looked for all at once."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        self._by_prefix: dict[int, list[bytes]] = defaultdict(list)
        self._begins = np.zeros(1 << 8 * _PREFIX_BYTES, dtype=bool)
        for needle in set(needles):
            prefix = int.from_bytes(needle[:_PREFIX_BYTES], "little")
            self._by_prefix[prefix].append(needle)
            self._begins[prefix] = True
        self._longest = max(map(len, self._all()), default=0)

    def _all(self) -> list[bytes]:
        return [needle for many in self._by_prefix.values() for needle in many]

    def in_file(self, file: Path) -> set[bytes]:
        """Return those that a file holds."""
        found: set[bytes] = set()
        content = file.read_bytes()
        for start in range(0, len(content), _PIECE_BYTES):
            found |= self._in_piece(content[start : start + _PIECE_BYTES + self._longest])
        return found

    def _in_piece(self, piece: bytes) -> set[bytes]:
        raw = np.frombuffer(piece, dtype=np.uint8).astype(np.uint32)
        if len(raw) < _PREFIX_BYTES:
            return set()
        prefixes = raw[:-2] | raw[1:-1] << 8 | raw[2:] << 16
        return {
            needle
            for at in np.flatnonzero(self._begins[prefixes])
            for needle in self._by_prefix[int(prefixes[at])]
            if piece.startswith(needle, int(at))
        }

    def under(self, folder: Path) -> dict[bytes, list[str]]:
        """Return needle -> names of the files under a folder that hold it."""
        found: dict[bytes, list[str]] = defaultdict(list)
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            for needle in self.in_file(file):
                found[needle].append(str(file.relative_to(folder)))
        return found


if __name__ == "__main__":
    answered = _looked_at(Path(sys.argv[1]), json.load(sys.stdin))
    print(json.dumps({subject: [each.hex() for each in found] for subject, found in answered.items()}))

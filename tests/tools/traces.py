"""What a record or a message leaves in a store: its wrapped key, its keyed tokens, its sealed parts; where they are.

``everywhere`` gives every byte that could be read: every file of a place, and whatever any process has open or mapped
of it, unlinked or not. ``Trace`` is taken while its subject lives, and says later what of it is still to be found.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from journal import sealing
from journal.canonical import canonical_bytes
from journal.errors import JournalCorrupt
from journal.store.port import Part
from projections.lexical.tables import IndexTables
from tests.tools.memory.world import ROOT_KEY, SCOPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.tools.memory.world import Caller, World

PROJECTION_OF = {"candidate_": "lexical", "message_": "messages"}
_WORD = re.compile(r"\w{4,}")


def everywhere(place: Path) -> dict[str, bytes]:
    """Return the content of every file under a place, and of what any process has open or mapped of it, by name."""
    contents = {str(file): file.read_bytes() for file in place.rglob("*") if file.is_file()}
    for process in Path("/proc").iterdir():
        contents |= _held(process, os.path.realpath(place) + os.sep) if process.name.isdigit() else {}
    assert len(contents) > 5
    return contents


def _held(process: Path, prefix: str) -> dict[str, bytes]:
    """Return what a process has open or mapped of a place, and with it what it has aside, by process and name."""
    links = [link for directory in ("fd", "map_files") for link in _links(process / directory)]
    ours = [link for link, target in links if target.startswith(prefix)]
    aside = [link for link, target in links if ours and "/engram-projection-" in target]
    held = {}
    for link in ours + aside:
        with suppress(OSError):
            held[f"{process.name} {link.readlink()}"] = link.read_bytes()
    return held


def _links(directory: Path) -> list[tuple[Path, str]]:
    links = []
    with suppress(OSError):  # it ended, or is not ours
        for link in directory.iterdir():
            with suppress(OSError):  # closed meanwhile, as is the very descriptor that lists
                links.append((link, str(link.readlink())))
    return links


def unlinked(contents: Iterable[str]) -> list[str]:
    """Return the names of what was deleted and is open somewhere."""
    return [name for name in contents if name.endswith(" (deleted)")]


def holders(contents: dict[str, bytes], needles: Iterable[bytes]) -> list[str]:
    """Return the names of what holds one of these byte strings."""
    wanted = list(needles)
    return [name for name, content in contents.items() if any(needle in content for needle in wanted)]


def encoded(text: str) -> list[bytes]:
    """Return a text as it might stand in a file."""
    return [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be"), base64.b64encode(text.encode())[:-4]]


def digests(content: bytes) -> list[bytes]:
    """Return unkeyed digests of a content, raw, in hex and in base64."""
    raw = [hashlib.new(name, content).digest() for name in ("sha256", "sha1", "md5", "sha512", "sha3_256", "blake2b")]
    raw += [blake3(content).digest(), hashlib.blake2b(content, digest_size=32).digest()]
    return [form for digest in raw for form in (digest, digest.hex().encode(), base64.b64encode(digest))]


def token_forms(token: bytes) -> list[bytes]:
    """Return a token as it stands in rows, and its halves as they stand in a segment's dictionary."""
    return [token, token[:8][::-1], token[8:][::-1]]


@dataclass
class Trace:
    """What one subject leaves."""

    subject: str
    texts: list[str]
    wrapped: bytes = b""
    tokens: set[bytes] = field(default_factory=set)
    parts: list[tuple[Any, bytes]] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)

    def take(self, world: World, agent: Caller) -> Trace:
        """Note what the subject leaves by now; taken again, what it leaves besides."""
        journal = world.journal
        with journal.store.view(SCOPE) as view:
            row = view.subject(self.subject)
            assert row is not None
            assert row.key_id is not None
            slot = view.slot(row.key_id)
        assert slot is not None
        found = journal.keyring._opened(SCOPE).slots.read(slot)
        assert found is not None
        self.wrapped = found.wrapped
        self.tokens |= self._own_tokens(agent, row.born)
        events = [
            event.header for event in journal.store.read(SCOPE, 0, 10_000) if event.header.subject == self.subject
        ]
        self.parts = [
            (header, part)
            for header in events
            if header.content_digest is not None
            and (part := journal.store.body(SCOPE, header.cursor, Part.CONTENT)) is not None
        ]
        for header, _ in self.parts:
            with journal.store.view(SCOPE) as view:
                content = journal.content(view, header)
            self._digest(content)
        return self

    def _own_tokens(self, agent: Caller, born: int) -> set[bytes]:
        """Return the tokens that of all documents in force this one alone has."""
        name = next(name for prefix, name in PROJECTION_OF.items() if self.subject.startswith(prefix))
        with agent.engine.projections(SCOPE).snapshot(names=[name]) as snapshot:
            state = snapshot._states[name]
            tables = IndexTables(state.txn, state.tables)
            own: set[bytes] = set()
            others: set[bytes] = set()
            for cursor, ordinal in tables.in_force():
                (own if cursor == born else others).update(tables.forward(ordinal).token_list())
        return own - others

    def _digest(self, content: Any) -> None:
        for value in (content, content.get("payload") if isinstance(content, dict) else None):
            if value is not None:
                self.digests += digests(canonical_bytes(value))
        for text in self.texts:
            self.digests += digests(text.encode())
        for unkeyed in re.findall(r"sha256:([0-9a-f]{64})", repr(content)):
            self.digests += [unkeyed.encode(), bytes.fromhex(unkeyed)]

    @property
    def words(self) -> list[str]:
        """Every word of four letters or more, and the texts themselves."""
        return [*self.texts, *{word for text in self.texts for word in _WORD.findall(text)}]

    # --- what is still to be found ---------------------------------------------------------------

    def key_in(self, contents: dict[str, bytes]) -> list[str]:
        """Return what holds the wrapped key, or its sealed bytes alone."""
        return holders(contents, [self.wrapped, self.wrapped[12:44]])

    def tokens_in(self, contents: dict[str, bytes]) -> set[bytes]:
        """Return the own tokens that are somewhere, in any form."""
        return {token for token in self.tokens if holders(contents, token_forms(token))}

    def plain_in(self, contents: dict[str, bytes]) -> list[str]:
        """Return what holds the text, a word of it, or an unkeyed digest."""
        return holders(contents, [form for word in self.words for form in encoded(word)] + self.digests)

    def opened_by(self, world: World) -> int:
        """Return how many of the sealed parts open with any key of the store."""
        return sum(any(_opens(key, header, part) for key in keys_of(world)) for header, part in self.parts)


def keys_of(world: World) -> list[bytes]:
    """Return every key of the store that there is: of data, of the scope, of projections, and the root key."""
    keyring = world.journal.keyring
    scope_keys = keyring._opened(SCOPE).keys
    data = [keyring.open(SCOPE, key_id, slot) for key_id, slot in keyring.located(SCOPE).items()]
    derived = [
        keyring.projection_key(SCOPE, name, 1)
        for name in ("current", "lexical", "timeline", "messages", "tags", "profile")
    ]
    opened = [key for key in data if key is not None]
    return [*opened, scope_keys.wrapping, *scope_keys.held.values(), ROOT_KEY, *derived]


def _opens(key: bytes, header: Any, part: bytes) -> bool:
    for purpose in sealing.Purpose:
        aad = sealing.associated_data(purpose, header.scope, header.event_id, header.subject)
        try:
            sealing.unseal(key, purpose, aad, part)
        except JournalCorrupt:
            continue
        return True
    return False

"""What checkpoints say of a store's scopes, gathered for an audit: from the store, from the anchor, from files.

Which public key to believe: one that the person names; else the scope's own, where the store's keys are open; else the
one that stands beside the anchor. The one that stands in the store vouches for nothing, and is taken last, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from journal import checkpoints, keyringfile, layout
from journal.checkpointfiles import Anchor, CheckpointFolder, read_file
from journal.checkpointing import folder_of
from journal.errors import CursorGap, EngramError, InvalidDigest, StoreUnavailable
from journal.notes import PublicKey
from journal.scope import Scope
from replay.claims import Claim
from replay.report import Finding
from tools.cli.elsewhere import known_better, reached_by, trouble_of
from tools.cli.failures import CannotRun

if TYPE_CHECKING:
    from journal.store.port import Store


def public_key(text: str) -> PublicKey:
    """Return the key of a vkey text, or of the file that is named.

    Raises:
        CannotRun: it is neither.
    """
    try:
        if "+" in text and text.startswith("engram/"):
            return PublicKey.parse(text)
        return PublicKey.parse(read_file(Path(text), is_named=True).decode())
    except (EngramError, UnicodeDecodeError):
        raise CannotRun(f"{text} is no public key and no file that holds one") from None


@dataclass(slots=True)
class Gathered:
    """Claims by scope, and what is wrong with checkpoints themselves."""

    store: Path
    anchor: Anchor | None
    named: dict[str, PublicKey]  # origin -> key that the person named
    own: Callable[[Scope], PublicKey] | None  # the scope's own key, where the store's keys are open
    files: list[Path]
    is_this_hosts: bool = True  # the store is a host file's; not a copy that has no part in any anchor
    elsewhere: list[Finding] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    _answered: set[Path] = field(default_factory=set)

    def of(self, scope: Scope) -> list[Claim]:
        """Return what is claimed of a scope (replay.audit.ClaimsOf)."""
        origin = checkpoints.origin_of(scope)
        inside, key = folder_of(self.store, scope.tag), self._key(scope)
        claims: list[Claim] = []
        if key is not None:
            claims += self._kept("the store", inside, key, inside=True)
            if self.anchor is not None:
                claims += self._kept("the anchor", self.anchor.folder(key), key, inside=False)
        for path in self.files:
            claims += self._filed(path, origin, key)
        return claims

    def compare(self, store: Store) -> None:
        """Hold the store against what the anchor and the state folder know of it; before the scopes are asked for."""
        if self.anchor is not None:
            trouble = trouble_of(self.store, self.anchor.path)
            if trouble is not None and self.is_this_hosts:
                self.elsewhere.append(Finding(StoreUnavailable.code, None, trouble))
            elif trouble is not None:
                self.said.append(trouble)
            if self.anchor.trouble() is not None:
                self.anchor = None
        for error in known_better(self.store, self.anchor, lambda: reached_by(store, self._key)):
            self.elsewhere.append(Finding(error.code, None, error.detail or error.message()))

    def finish(self) -> list[Finding]:
        """Return what was wrong with checkpoints that belong to no scope of the store; called when all were asked."""
        for path in self.files:
            if path not in self._answered:
                detail = f"the file {path} has a checkpoint of a scope of which the store has no event"
                self.elsewhere.append(Finding(CursorGap.code, None, detail))
        return list(dict.fromkeys(self.elsewhere))

    def _key(self, scope: Scope) -> PublicKey | None:
        named = self.named.get(checkpoints.origin_of(scope))
        if named is not None:
            return named
        if self.own is not None:
            with suppress(EngramError):
                return self.own(scope)
        standing = folder_of(self.store, scope.tag).key()
        kept = [] if self.anchor is None else self.anchor.keys(scope.tag)
        if standing not in kept and len(kept) > 1 and self.anchor is not None:
            own = layout.store_id(self.store)
            signed = [key for key in kept if own in self.anchor.folder(key).signers()]
            kept = signed if len(signed) == 1 else kept
        if standing in kept or len(kept) == 1:
            return standing if standing in kept else kept[0]
        if standing is not None and standing.name == checkpoints.origin_of(scope):
            self.said.append("the public key was taken from the store itself, which proves little: name --public-key")
            return standing
        return None

    def _kept(self, source: str, folder: CheckpointFolder, key: PublicKey, *, inside: bool) -> Iterable[Claim]:
        for size in folder.sizes():
            try:
                yield Claim(source, size, folder.checkpoint(size, key).root, inside=inside)
            except (InvalidDigest, StoreUnavailable) as error:
                detail = f"{source}: the checkpoint of {size} is not valid: {error.detail}"
                self.elsewhere.append(Finding(error.code, None, detail))

    def _filed(self, path: Path, origin: str, key: PublicKey | None) -> Iterable[Claim]:
        note = read_file(path, is_named=True)
        try:
            claimed = checkpoints.unverified(note)
            if claimed.origin != origin:
                return
            self._answered.add(path)
            if key is None:
                raise CannotRun(f"no public key is known for {claimed.origin}: name it with --public-key")
            found = checkpoints.verified(note, key)
        except InvalidDigest as error:
            self._answered.add(path)
            detail = f"the file {path} is not a valid checkpoint: {error.detail}"
            self.elsewhere.append(Finding(error.code, None, detail))
            return
        yield Claim(f"the file {path}", found.size, found.root, inside=False)


def scopes_with_keys(store: Path) -> list[Scope]:
    """Return the scopes of which the store has a keyring file: they had events once, unless they never committed."""
    found = []
    for path in sorted((store / layout.KEYS).glob("*.keyring")):
        with suppress(EngramError, OSError):
            found.append(keyringfile.scope_of(path.read_bytes()))
    return found

"""The root key: there, whole, yours alone, this store's, and not lying beside what it opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from journal import keyringfile, layout
from journal.errors import EngramError, StoreUnavailable
from journal.rootchange import root_key_in_force
from journal.rootkey import RootKeySource, load_root_key
from tools.cli.checkup.finding import Finding, fault, note
from tools.cli.checkup.situation import Situation
from tools.damage import RESTORE

_READ_MAX_BYTES = 64 * 1024  # a keyring file has some 500


def check(look_at: Situation) -> Iterator[Finding]:
    """Yield what is wrong with the root key."""
    source = look_at.root_key
    if source is None:
        return
    subject = _subject(source)
    try:
        key = load_root_key(source) if look_at.store is None else root_key_in_force(look_at.store, source)
    except StoreUnavailable as error:
        yield _unusable(source, subject, error.detail or "")
        return
    if look_at.store is not None:
        yield from _other_store(look_at.store, key, subject)
        yield from _beside(look_at.store, source)


def _subject(source: RootKeySource) -> str:
    """Name the source; of a command the program alone, for its words may hold more than a name."""
    return f"{source.kind} {source.where[0]}" if source.where else source.kind


def _unusable(source: RootKeySource, subject: str, detail: str) -> Finding:
    keep = "without the key the store can be read by nobody"
    if source.kind == "file":
        path = Path(source.where[0])
        if not os.path.lexists(path):
            return fault("ROOT_KEY_MISSING", subject, detail, f"put its copy back to that place; {keep}")
        if "open to others" in detail:
            return fault("ROOT_KEY_OPEN_TO_OTHERS", subject, detail, f"run chmod 600 {path}")
        if "base64" not in detail:
            return fault("ROOT_KEY_MISSING", subject, detail, f"make it readable for you; {keep}")
    if "base64" in detail:
        return fault("ROOT_KEY_MALFORMED", subject, detail, f"put the right key back from its copy; {keep}")
    mends = {
        "env": f"set {source.where[0]} where the server and the commands are started",
        "command": "run the command by hand and see why it fails",
        "keyring": "unlock the keyring, or store the key in it again",
    }
    return fault("ROOT_KEY_MISSING", subject, detail, mends.get(source.kind, keep))


def _other_store(store: Path, key: bytes, subject: str) -> Iterator[Finding]:
    for path in sorted((store / layout.KEYS).glob("*.keyring")):
        try:
            with path.open("rb") as file:
                raw = file.read(_READ_MAX_BYTES)
            keyringfile.check_root(raw, key)
        except StoreUnavailable:
            yield fault(
                "ROOT_KEY_WRONG", subject, "it does not open this store's keyring: it is another store's key",
                "name the key that was made with this store in keys.root, or the store that belongs to this key",
            )  # fmt: skip
            return
        except (EngramError, OSError) as error:
            why = error.detail if isinstance(error, EngramError) else error.strerror
            yield fault(
                "KEYRING_BROKEN",
                str(path),
                why or type(error).__name__,
                f"put back a copy of keys/ that is not older than the journal; where there is none, {RESTORE}",
            )


def _beside(store: Path, source: RootKeySource) -> Iterator[Finding]:
    if source.kind != "file":
        return
    key = Path(source.where[0]).resolve()
    if key.is_relative_to(store.resolve()):
        yield note(
            "ROOT_KEY_IN_STORE", str(key), "it stands inside the store, so that whoever takes the store can open it",
            "move it out of the store's folder and name its new place in keys.root",
        )  # fmt: skip

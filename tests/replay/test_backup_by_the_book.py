"""A backup read from docs/design.md alone: standard tar, JSON, MessagePack, hashes and Ed25519, none of our code."""

from __future__ import annotations

import hashlib
import json
import tarfile

import msgspec
import rfc8785
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.replay.restores import Safe, told
from tests.tools.memory.world import SCOPE


def root_of(frames: list[bytes]) -> bytes:
    """Return the RFC 6962 root, by the definition and not by peaks."""
    if len(frames) == 1:
        return hashlib.sha256(b"\x00" + frames[0]).digest()
    split = 1
    while split * 2 < len(frames):
        split *= 2
    return hashlib.sha256(b"\x01" + root_of(frames[:split]) + root_of(frames[split:])).digest()


def test_a_backup_is_what_the_page_says(tmp_path):
    safe = Safe(tmp_path)
    ids = told(safe)
    safe.world.caller().forget(ids["gone"])
    path = safe.backup()
    public = Ed25519PrivateKey.from_private_bytes(safe.world.journal.keyring.signing_seed(SCOPE)).public_key()
    head = safe.world.journal.store.head(SCOPE)
    safe.world.close()

    raw = path.read_bytes()
    assert raw[-40:] == b"ENGRTAIL" + blake3(raw[:-40]).digest()
    with tarfile.open(path) as tar:
        files = {}
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            files[member.name] = file.read()
    manifest = json.loads(files.pop("manifest.json"))
    assert (manifest["format"], manifest["kind"]) == (1, "journal")
    assert set(files) == {member["name"] for scope in manifest["scopes"] for member in scope["members"]}
    for scope in manifest["scopes"]:
        for member in scope["members"]:
            content = files[member["name"]]
            assert (len(content), blake3(content).hexdigest()) == (member["size_bytes"], member["blake3"])

    (scope,) = [scope for scope in manifest["scopes"] if scope["workspace_id"] == SCOPE.workspace_id]
    tags = [name.split("/")[1] for name in files if name.endswith("/events/" + "1".zfill(20))]
    text = {name: manifest[name] for name in ("format", "kind", "store", "made_at")}
    signed = rfc8785.dumps({**text, "tags": tags, "scope": {**scope, "signature": ""}})
    public.verify(bytes.fromhex(scope["signature"]), b"engram backup scope v1\0" + signed)

    prefix = f"scopes/{SCOPE.tag.hex()}"
    rows = msgspec.msgpack.decode(files[f"{prefix}/events/{1:020}"])
    frames = [row[0] for row in rows]
    assert (scope["head_cursor"], scope["head_hash"]) == (len(rows), head.hash.hex())
    assert blake3(frames[-1]).digest() == head.hash
    assert root_of(frames).hex() == scope["root"]
    prev = bytes(32)
    for frame in frames:
        assert msgspec.msgpack.decode(frame)[17] == prev
        prev = blake3(frame).digest()
    erasures = [
        one for name in files if name.startswith(f"{prefix}/erasures/") for one in msgspec.msgpack.decode(files[name])
    ]
    assert len(erasures) == scope["erasures"] == 4, "a withdrawal, a forgetting, and the two requests for them"
    assert [one[1] in frames for one in erasures] == [True] * 4
    ended = {one[0] for one in erasures}
    for frame, content, ledger in rows:
        fields = msgspec.msgpack.decode(frame)
        key_id, content_digest, ledger_digest = fields[12], fields[15], fields[16]
        assert (content is None) == (content_digest is None or key_id in ended)
        assert content is None or blake3(content).digest() == content_digest
        assert ledger is None or blake3(ledger).digest() == ledger_digest

"""A reader of stores written from docs/design.md alone: it imports nothing of the product.

    python tests/independent_reader.py STORE ROOT_KEY_FILE

It opens the keyring with the root key, walks every scope's chain, opens every sealed part whose key is there, derives
ids and digests once more, and fails on the first thing that is not as the page says.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lmdb
import msgspec
from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FIELDS = (
    "format", "type", "scope", "cursor", "recorded_at", "event_id", "actor", "subject", "record_id", "related",
    "from_state", "to_state", "key_id", "intent", "guards", "content_digest", "ledger_digest", "prev",
)  # fmt: skip
TABLES = ("outcome", "subject", "record", "tombstone", "request", "open_request", "pending", "destroy", "erase", "slot")
CAPTURE, ACCEPT = 1, 2
DESTROYED = 2
ERASED = object()
pack, unpack = msgspec.msgpack.encode, msgspec.msgpack.decode


class Broken(Exception):
    """Something is not as the page says."""


def need(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


# --- primitives ----------------------------------------------------------------------------------


def canonical(value: Any) -> bytes:
    """JCS, for ASCII keys and integers."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def scope_tag(tenant: str, workspace: str) -> bytes:
    return blake3(canonical({"tenant_id": tenant, "workspace_id": workspace})).digest(16)


def subkey(key: bytes, use: str) -> bytes:
    return hmac.digest(key, b"engram/" + use.encode() + b"\x01", "sha256")


def keyed(identity_key: bytes, use: str, value: Any) -> bytes:
    return blake3(canonical(value), key=subkey(identity_key, use)).digest()


def digest(domain: str, value: Any) -> str:
    return "sha256:" + hashlib.sha256(domain.encode() + b"\0" + canonical(value)).hexdigest()


def leaf_hash(frame: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + frame).digest()


def tree_root(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + tree_root(leaves[:split]) + tree_root(leaves[split:])).digest()


def checkpoint(note: bytes, vkey: str) -> tuple[str, int, bytes]:
    """Return (origin, size, root) of a checkpoint that this key signed."""
    name, hexed, encoded = vkey.split("+", 2)
    key = base64.b64decode(encoded)
    need(hashlib.sha256(name.encode() + b"\n" + key).digest()[:4].hex() == hexed, "key id")
    text, _, line = note.decode().rpartition("\n\n")
    dash, signer, blob = line.rstrip("\n").split(" ")
    raw = base64.b64decode(blob)
    need((dash, signer, raw[:4].hex()) == ("\u2014", name, hexed), "signature line")
    try:
        Ed25519PublicKey.from_public_bytes(key[1:]).verify(raw[4:], (text + "\n").encode())
    except InvalidSignature:
        raise Broken("signature") from None
    origin, size, root = text.split("\n")
    return origin, int(size), base64.b64decode(root)


def candidate_id(event_id: bytes) -> str:
    return "candidate_" + digest("graphify-memory/capture-identity/v1", {"event_id": event_id.hex()})[7:]


def record_id(record_digest: str) -> str:
    return "mem_" + base64.b32encode(bytes.fromhex(record_digest[7:])).decode().rstrip("=").lower()


def opened(key: bytes, sealed: bytes, aad: bytes) -> bytes:
    """AES-256-GCM: nonce (12) || ciphertext || tag (16)."""
    return AESGCM(key).decrypt(sealed[:12], sealed[12:], aad)


def part_aad(purpose: str, tenant: str, workspace: str, event_id: bytes, subject: str | None) -> bytes:
    return pack([1, purpose, tenant, workspace, event_id, subject])


# --- keys ----------------------------------------------------------------------------------------


def read_keyring(raw: bytes, root: bytes) -> dict[str, bytes]:
    """Return the scope's keys by name, the wrapping key among them, and the epoch's slot file name as "epoch"."""
    file = unpack(raw)
    need(file["format"] == 1, "keyring format")
    need(blake3(pack({**file, "check": b""})).digest(16) == file["check"], "keyring check")

    def unwrapped(key: bytes, name: str) -> bytes:
        place = [1, "keyring", file["tenant_id"], file["workspace_id"], name, file["epoch"]]
        return opened(key, file["wrapped"][name], pack(place))

    keys = {"wrapping": unwrapped(root, "wrapping")}
    keys.update({name: unwrapped(keys["wrapping"], name) for name in ("identity", "ledger", "signing")})
    return {**keys, "epoch": str(file["epoch"]).encode()}


def read_slots(raw: bytes, tag: bytes) -> tuple[int, int, list[tuple[int, bytes, bytes] | None]]:
    """Return (epoch, generation, slots), each slot (state, key_id, wrapped key), None where it is broken."""
    magic, form, _, epoch, generation, found = struct.unpack("<8sHHIQ16s", raw[:40])
    need(magic == b"ENGRSLOT" and form == 1 and found == tag, "slot file header")
    need(raw[40:496] == bytes(456) and blake3(raw[:496]).digest(16) == raw[496:512], "slot file header check")
    return epoch, generation, [read_slot(raw[at : at + 128]) for at in range(512, len(raw) - 127, 128)]


def read_slot(raw: bytes) -> tuple[int, bytes, bytes] | None:
    if blake3(raw[:112]).digest(16) != raw[112:]:
        return None
    need(raw[1:4] == bytes(3) and raw[80:112] == bytes(32), "slot zeros")
    return raw[0], raw[4:20], raw[20:80]


def data_key(wrapping: bytes, slot: tuple[int, bytes, bytes], tenant: str, workspace: str) -> bytes | None:
    state, key_id, wrapped = slot
    if state == DESTROYED:
        need(wrapped == bytes(60), "a destroyed slot holds nothing")
        return None
    return opened(wrapping, wrapped, pack([1, "slot", tenant, workspace, key_id]))


# --- a store -------------------------------------------------------------------------------------


class Scope:
    """One scope of a store, read whole."""

    def __init__(self, rows: dict[str, dict[bytes, bytes]], tag: bytes, keys: Path, root: bytes) -> None:
        (self.tenant, self.workspace), self.cursor, self.head, self.recorded_at, self.generation, self.sums = unpack(
            rows["heads"][tag]
        )
        need(scope_tag(self.tenant, self.workspace) == tag, "scope tag")
        self.tag, self._rows = tag, rows
        self.keys = read_keyring((keys / f"{tag.hex()}.keyring").read_bytes(), root)
        slot_file = keys / f"{tag.hex()}.{self.keys['epoch'].decode()}.slots"
        _, generation, slots = read_slots(slot_file.read_bytes(), tag)
        need(generation >= self.generation, "an older slot file")
        self.slots = {slot[1]: slot for slot in slots if slot is not None}
        self.events = self._read_events()
        self.leaves = [leaf_hash(event["frame"]) for event in self.events]
        self.records = dict(self._read_records())
        self._check_sums()

    def _read_events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        prev, last = bytes(32), 0
        for cursor in range(1, self.cursor + 1):
            frame = self._rows["events"][self.tag + cursor.to_bytes(8, "big")]
            fields = unpack(frame)
            need(len(fields) == len(FIELDS) and fields[0] == 1, "frame format")
            event = dict(zip(FIELDS, fields, strict=True))
            need(event["scope"] == [self.tenant, self.workspace] and event["cursor"] == cursor, "frame place")
            need(event["prev"] == prev and event["recorded_at"] >= last, "frame chain")
            prev, last = blake3(frame).digest(), event["recorded_at"]
            event["frame"] = frame
            events.append(event)
        need(prev == self.head and last == self.recorded_at, "the head")
        for event in events:  # the chain is whole: what the headers name can be believed
            event["content"] = self._part(event, "content", "body", self._key_of(event))
            event["ledger"] = self._part(event, "ledger", "ledger", self.keys["ledger"])
        return events

    def _key_of(self, event: dict[str, Any]) -> bytes | None:
        slot = self.slots.get(event["key_id"])
        return None if slot is None else data_key(self.keys["wrapping"], slot, self.tenant, self.workspace)

    def _part(self, event: dict[str, Any], table: str, purpose: str, key: bytes | None) -> Any:
        """Return a part's JSON value, None where the event has none, ERASED where its key is gone."""
        part = self._rows[table].get(self.tag + event["cursor"].to_bytes(8, "big"))
        named = event[f"{table}_digest"]
        need((part is None) == (named is None), "a part that the header names")
        if part is None:
            return None
        need(blake3(part).digest() == named, "part digest")
        if key is None:
            return ERASED
        aad = part_aad(purpose, self.tenant, self.workspace, event["event_id"], event["subject"])
        plain = opened(subkey(key, purpose), part, aad)
        value = json.loads(plain)
        need(canonical(value) == plain, "a part is canonical JSON")
        return value

    def _read_records(self) -> Any:
        """Yield (record id, record) of every accepted candidate whose content is there; ids are derived once more."""
        captures = {event["subject"]: event for event in self.events if event["type"] == CAPTURE}
        for subject, capture in captures.items():
            need(candidate_id(capture["event_id"]) == subject, "candidate id")
        for event in self.events:
            if event["type"] != ACCEPT:
                continue
            capture = captures[event["subject"]]
            content = capture["content"]
            if content is ERASED:
                continue
            record = self._record(capture, content)
            need(record["record_id"] == event["record_id"], "record id")
            yield record["record_id"], record

    @staticmethod
    def _record(capture: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
        record = {
            **content["payload"],
            "payload_digest": digest("graphify-memory/payload/v2", content["payload"]),
            "recorded_at": instant(capture["recorded_at"]),
            "recorded_cursor": str(capture["cursor"]),
            "authorization_receipt_digest": content["authorization"]["receipt_digest"],
            "trust": content["trust"],
        }
        found = digest("graphify-memory/record/v2", record)
        return {**record, "record_digest": found, "record_id": record_id(found)}

    def _check_sums(self) -> None:
        sum_key = self._rows["store"][b"sum_key"]
        for table in TABLES:
            rows = {key: value for key, value in self._rows[table].items() if key.startswith(self.tag)}
            total = sum(row_sum(sum_key, table, key, value) for key, value in rows.items()) % 2**128
            need(self.sums.get(table, [0, bytes(16)]) == [len(rows), total.to_bytes(16, "big")], f"sum of {table}")


def row_sum(sum_key: bytes, table: str, key: bytes, value: bytes) -> int:
    row = table.encode() + b"\0" + len(key).to_bytes(4, "big") + b"\0" + key + value
    return int.from_bytes(blake3(row, key=sum_key).digest(16), "big")


def instant(epoch_milliseconds: int) -> str:
    moment = datetime.fromtimestamp(epoch_milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_milliseconds % 1000:03d}Z"


def read_store(store: Path, root: bytes) -> list[Scope]:
    """Return every scope of a store, by tag."""
    need(tomllib.loads((store / "store.toml").read_text())["format"] == 1, "store format")
    rows: dict[str, dict[bytes, bytes]] = {}
    with lmdb.open(str(store / "journal"), readonly=True, max_dbs=32, lock=False) as env:
        for table in ("heads", "store", "events", "content", "ledger", *TABLES):
            database = env.open_db(table.encode(), create=False)
            with env.begin() as txn, txn.cursor(database) as cursor:
                rows[table] = {bytes(key): bytes(value) for key, value in cursor}
    return [Scope(rows, tag, store / "keys", root) for tag in sorted(rows["heads"])]


if __name__ == "__main__":
    for scope in read_store(Path(sys.argv[1]), base64.b64decode(Path(sys.argv[2]).read_bytes())):
        erased = sum(event["content"] is ERASED for event in scope.events)
        print(f"{scope.tenant} {scope.workspace}: {scope.cursor} events, {len(scope.records)} records, {erased} erased")  # noqa: T201 - this is what it is for

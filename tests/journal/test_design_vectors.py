"""docs/design.md is kept current: its vectors and its numbers are recomputed from the page itself.

Each vector is recomputed twice: by the product, and by the reader that imports nothing of it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from journal import checkpoints, identity, keyringfile, sealing, slots
from journal.authority import GrantState, OptIn
from journal.canonical import canonical_bytes
from journal.datakeys import slot_aad
from journal.digests import candidate_id_of
from journal.events import WRITTEN, Actor, EventType, Header, RequestState
from journal.frames import decode_frame, encode_frame, event_digest, frame_hash, leaf_hash, part_digest
from journal.indexes import Table, decode_subject, encode_subject
from journal.lifecycle import State
from journal.merkle import root_of
from journal.messages import MessageState
from journal.scope import Scope
from journal.store.lmdb import tables
from journal.store.port import Subject
from tests import independent_reader as reader

PAGE = (Path(__file__).parents[2] / "docs" / "design.md").read_text(encoding="utf-8")


def _value(text):
    if re.match(r'["\[{]|null$', text) or re.fullmatch(r"[0-9]{1,15}", text):
        return json.loads(text)
    return bytes.fromhex(text.replace(" ", ""))


def _fields(block):
    """Return a vector's fields; a line that begins with a space goes on with the one before."""
    joined = re.sub(r"\n +", " ", block)
    return {name: _value(text.strip()) for name, text in (line.split(None, 1) for line in joined.splitlines())}


def _blocks(kind, text=PAGE):
    """Return name -> content of the page's fenced blocks of a kind."""
    return dict(re.findall(rf"^```{kind} ([\w-]+)\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL))


VECTORS = {name: _fields(block) for name, block in _blocks("vector").items()}
NUMBERS = {name: block.splitlines() for name, block in _blocks("numbers").items()}
SCOPE = Scope.of("tenant:one", "workspace:하나")


def scope_tag(v):
    scope = Scope.of(v["tenant_id"], v["workspace_id"])
    assert scope == SCOPE
    assert canonical_bytes({"tenant_id": scope.tenant_id, "workspace_id": scope.workspace_id}) == v["canonical"]
    assert scope.tag == v["tag"] == reader.scope_tag(v["tenant_id"], v["workspace_id"])


def subkey(v):
    assert sealing.subkey(v["key"], v["use"]) == v["subkey"] == reader.subkey(v["key"], v["use"])


def event_id(v):
    found = identity.event_id(v["identity_key"], SCOPE, v["principal"], v["idempotency_key"])
    value = [SCOPE.tenant_id, SCOPE.workspace_id, v["principal"], v["idempotency_key"]]
    assert found == v["event_id"] == reader.keyed(v["identity_key"], "event-id", value)
    assert candidate_id_of(found) == v["candidate_id"] == reader.candidate_id(found)


def intent(v):
    found = identity.intent(v["identity_key"], v["tool"], v["target"], v["content"])
    assert found == v["intent"] == reader.keyed(v["identity_key"], "intent", [v["tool"], v["target"], v["content"]])


def request(v):
    found = identity.request(v["identity_key"], v["event_id"], v["intent"])
    value = [v["event_id"].hex(), v["intent"].hex()]
    assert found == v["request"] == reader.keyed(v["identity_key"], "request", value)


def erasure(v):
    found = identity.erasure(v["identity_key"], v["candidate_id"])
    assert found == v["event_id"] == reader.keyed(v["identity_key"], "erasure", v["candidate_id"])


def rotation(v):
    found = identity.rotation(v["identity_key"], v["epoch"])
    assert found == v["event_id"] == reader.keyed(v["identity_key"], "rotation", v["epoch"])


def guards(v):
    texts = [component["text"] for component in v["payload"]["components"]]
    assert [identity.normalised(text) for text in texts] == v["normalised"]
    assert identity.guards(v["identity_key"], v["payload"]) == (v["texts"], v["primary"])
    assert reader.keyed(v["identity_key"], "guard-texts", v["normalised"]) == v["texts"]
    assert reader.keyed(v["identity_key"], "guard-primary", v["normalised"][1]) == v["primary"]


def session(v):
    found = identity.session(v["identity_key"], v["session_id"])
    assert found == v["session"] == reader.keyed(v["identity_key"], "session", v["session_id"])[:16]


def read_nonce(v):
    found = identity.read_nonce(v["identity_key"], v["audit_id"])
    assert found == v["nonce"] == reader.keyed(v["identity_key"], "read-nonce", v["audit_id"])


def projection_key(v):
    use = f"projection/{v['name']}/{v['version']}"
    assert sealing.subkey(v["identity_key"], use) == v["key"] == reader.subkey(v["identity_key"], use)


def sealed_part(v):
    purpose = sealing.Purpose(v["purpose"])
    aad = sealing.associated_data(purpose, SCOPE, v["event_id"], v["subject"])
    place = (v["purpose"], v["tenant_id"], v["workspace_id"], v["event_id"], v["subject"])
    assert aad == v["aad"] == reader.part_aad(*place)
    assert sealing.subkey(v["data_key"], v["purpose"]) == v["subkey"]
    assert sealing.seal(v["data_key"], purpose, aad, v["plaintext"], v["nonce"]) == v["part"]
    assert sealing.unseal(v["data_key"], purpose, aad, v["part"]) == v["plaintext"]
    assert reader.opened(v["subkey"], v["part"], v["aad"]) == v["plaintext"]
    assert part_digest(v["part"]) == v["digest"]


def _bytes(text):
    return None if text is None else bytes.fromhex(text)


def frame(v):
    actor = Actor(v["actor"][0], v["actor"][1], _bytes(v["actor"][2]))
    given = {name: v[name] for name in Header.__struct_fields__}
    given |= {"scope": SCOPE, "actor": actor, "guards": tuple(_bytes(guard) for guard in v["guards"])}
    header = Header(**given)
    assert encode_frame(header) == v["frame"]
    assert decode_frame(v["frame"]) == header
    assert (frame_hash(v["frame"]), leaf_hash(v["frame"])) == (v["hash"], v["leaf_hash"])
    assert event_digest(v["frame"]) == v["event_digest"]
    fields = dict(zip(reader.FIELDS, reader.unpack(v["frame"]), strict=True))
    assert [fields[name] for name in ("cursor", "prev", "event_id")] == [
        v[name] for name in ("cursor", "prev", "event_id")
    ]
    assert reader.leaf_hash(v["frame"]) == v["leaf_hash"]


def keyring_file(v):
    held = {name: v[name] for name in keyringfile.HELD}
    nonces = iter([bytes.fromhex(nonce) for nonce in v["nonces"]])
    keys = keyringfile.ScopeKeys(v["epoch"], v["wrapping"], held)
    assert keyringfile.encode(SCOPE, keys, v["root_key"], lambda: next(nonces)) == v["file"]
    assert keyringfile.decode(SCOPE, v["file"], v["root_key"]) == keys
    assert reader.read_keyring(v["file"], v["root_key"]) == {"wrapping": v["wrapping"], **held, "epoch": b"1"}


def slot(v):
    assert slot_aad(SCOPE, v["key_id"]) == v["aad"]
    assert sealing.wrap(v["wrapping"], v["data_key"], v["aad"], v["nonce"]) == v["wrapped"]
    live = slots.Slot(slots.SlotState.LIVE, v["key_id"], v["wrapped"])
    assert slots.encode_slot(live) == v["live"]
    assert slots.encode_slot(slots.Slot(slots.SlotState.DESTROYED, v["key_id"], bytes(60))) == v["destroyed"]
    place = (SCOPE.tenant_id, SCOPE.workspace_id)
    for raw, key in ((v["live"], v["data_key"]), (v["destroyed"], None)):
        found = reader.read_slot(raw)
        assert found is not None
        assert reader.data_key(v["wrapping"], found, *place) == key


def slot_header(v, path):
    slots.SlotFile.create(path, v["tag"], v["epoch"], v["generation"], [])
    raw = path.read_bytes()
    assert (raw[:40], raw[496:]) == (v["first_40_bytes"], v["last_16_bytes"])
    assert raw == v["first_40_bytes"] + bytes(456) + v["last_16_bytes"]
    assert reader.read_slots(raw, v["tag"]) == (v["epoch"], v["generation"], [])


def subject_row(v):
    subject = Subject(**{name: v[name] for name in Subject.__struct_fields__})
    assert encode_subject(subject) == v["row"]
    assert decode_subject(v["row"]) == subject


def row_sum(v):
    name = v["table"].encode()
    assert v["row"] == name + b"\0" + len(v["key"]).to_bytes(4, "big") + b"\0" + v["key"] + v["value"]
    total = int.from_bytes(v["sum"], "big")
    assert tables.row_sum(v["sum_key"], name, v["key"], v["value"]) == total
    assert reader.row_sum(v["sum_key"], v["table"], v["key"], v["value"]) == total


def commit_record(v):
    sums = {name: tables.TableSum(rows, bytes.fromhex(total)) for name, (rows, total) in v["sums"].items()}
    place = (SCOPE, v["cursor"], v["hash"], v["recorded_at"], v["slot_generation"])
    record = tables.CommitRecord(*place, sums)
    assert tables.encode_record(record) == v["record"]
    assert tables.decode_record(v["record"]) == record
    assert msgspec.msgpack.decode(v["record"])[0] == v["scope"]


def checkpoint(v):
    leaves = [bytes.fromhex(leaf) for leaf in v["leaves"]]
    key = checkpoints.public_key(SCOPE, v["seed"])
    assert root_of(leaves) == v["root"] == reader.tree_root(leaves)
    assert (key.raw, key.key_id, key.text()) == (v["public_key"], v["key_id"], v["vkey"])
    note = v["note"].encode()
    assert checkpoints.sign(SCOPE, v["size"], v["root"], v["seed"]) == note
    found = checkpoints.verified(note, key)
    assert (found.origin, found.size, found.root) == reader.checkpoint(note, v["vkey"])
    with pytest.raises(reader.Broken):
        reader.checkpoint(note.replace(b"\n2\n", b"\n3\n"), v["vkey"])


CHECKS = {
    "scope-tag": scope_tag, "subkey": subkey, "event-id": event_id, "intent": intent, "request": request,
    "erasure": erasure, "rotation": rotation, "guards": guards, "session": session, "read-nonce": read_nonce,
    "projection-key": projection_key, "sealed-part": sealed_part, "frame": frame,
    "next-frame": frame, "keyring-file": keyring_file, "slot": slot,
    "subject-row": subject_row, "row-sum": row_sum, "commit-record": commit_record,
    "checkpoint": checkpoint,
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_a_vector_of_the_page_is_what_the_code_makes(name):
    CHECKS[name](VECTORS[name])


def test_no_vector_of_the_journals_formats_is_left_out():
    journals = PAGE[: PAGE.index("### Lexical token")]
    assert set(_blocks("vector", journals)) == {*CHECKS, "slot-header"}


def test_the_slot_header_of_the_page_is_what_the_code_makes(tmp_path):
    slot_header(VECTORS["slot-header"], tmp_path / "a.slots")


def test_the_second_frame_follows_the_first():
    assert VECTORS["next-frame"]["prev"] == VECTORS["frame"]["hash"]


def test_the_commit_record_names_the_sum_that_is_drawn():
    assert bytes.fromhex(VECTORS["commit-record"]["sums"]["outcome"][1]) == VECTORS["row-sum"]["sum"]


def test_every_type_and_state_is_listed_with_its_number():
    types = [f"{kind:<4}{kind.label}" + ("" if kind in WRITTEN else "  reserved") for kind in EventType]
    assert NUMBERS["types"] == types
    assert NUMBERS["states"] == [f"{state:<4}{state.label}" for state in State]
    assert NUMBERS["messages"] == [f"{state:<4}{state.label}" for state in MessageState]
    assert NUMBERS["grants"] == [f"{state:<4}{state.name.lower()}" for state in GrantState]
    assert NUMBERS["opt-ins"] == [f"{state:<4}{state.name.lower()}" for state in OptIn]
    assert NUMBERS["requests"] == [f"{state:<4}{state.name.lower()}" for state in RequestState]


def test_every_field_and_table_is_drawn():
    fields = re.findall(r"^\| (\d+) \| (\w+) \|", PAGE, re.MULTILINE)
    assert fields == [(str(number), name) for number, name in enumerate(Header.__struct_fields__)]
    drawn = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE, re.MULTILINE))))
    assert {name.decode() for name in tables.NAMES} <= drawn
    assert {table.value.decode() for table in Table} <= drawn

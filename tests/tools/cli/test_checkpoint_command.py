"""engram checkpoint and engram prove: what they print, and that a stranger can check it with the public key alone."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from journal.proofs import inclusion_ranges


@pytest.fixture
def full(open_desk):
    with open_desk.agent() as agent:
        for number in range(4):
            agent.remember(f"Words {number}.")
    return open_desk


def test_it_prints_a_note_that_ed25519_verifies(full):
    value = full.json("checkpoint")
    text, _, line = value["note"].rpartition("\n\n")
    raw_key = base64.b64decode(value["public_key"].split("+", 2)[2])
    raw = base64.b64decode(line.split(" ")[2])
    assert raw[:4].hex() == value["public_key"].split("+")[1]
    Ed25519PublicKey.from_public_bytes(raw_key[1:]).verify(raw[4:], (text + "\n").encode())
    origin, size, root = text.split("\n")
    assert (origin, int(size)) == (value["origin"], value["size"]) == (value["origin"], 8)
    assert base64.b64decode(root).hex() == value["root"] == full.json("audit")["scopes"][0]["root"]
    assert full.json("checkpoint") == value
    assert value["note"].splitlines()[0] in full.ok("checkpoint").out


def test_every_scope(full):
    values = full.json("checkpoint", "--all")
    assert [value["size"] for value in values] == [8]


def test_nothing_to_sign(open_desk):
    ended = open_desk.run("checkpoint")
    assert ended.code == 1
    assert "no event yet" in ended.err


@pytest.mark.parametrize("cursor", [1, 5, 8])
def test_a_proof_holds_with_the_public_key_alone(full, cursor, tmp_path):
    value = full.json("checkpoint")
    proof = full.json("prove", str(cursor))
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(proof), encoding="utf-8")
    full.store.rename(tmp_path / "gone")
    full.host_file.unlink()
    full.root_key.unlink()
    for words in (["--public-key", value["public_key"]], []):
        ended = full.bare("prove", "--verify", str(file), *words, "--json")
        assert ended.code == 0, ended
        assert ended.json["proven"] is True
        assert ended.json["cursor"] == str(cursor)


def test_a_stranger_checks_the_proof(full):
    proof = full.json("prove", "6")
    leaf = hashlib.sha256(b"\x00" + bytes.fromhex(proof["frame"])).digest()
    assert leaf.hex() == proof["leaf_hash"]
    assert leaf.hex() == full.json("replay")[5]["event_digest"].removeprefix("sha256:")
    rule = [1 if each.start < proof["index"] else 0 for each in inclusion_ranges(proof["index"], proof["size"])]
    root = leaf
    for left, sibling in zip(rule, map(bytes.fromhex, proof["hashes"]), strict=True):
        root = hashlib.sha256(b"\x01" + (sibling + root if left else root + sibling)).digest()
    assert base64.b64encode(root).decode() == proof["checkpoint"].splitlines()[2]


def test_a_proof_of_a_new_event_signs_a_new_checkpoint(full):
    full.ok("checkpoint")
    full.captured("One more.")
    assert full.json("prove", "9")["size"] == 9
    assert full.json("prove", "2")["size"] == 9


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("frame", lambda proof: proof["frame"][:-2] + "00"), ("hashes", lambda proof: proof["hashes"][:-1]),
        ("hashes", lambda proof: proof["hashes"][::-1]), ("index", lambda proof: proof["index"] + 1),
        ("index", lambda proof: -1), ("cursor", lambda proof: "4"), ("size", lambda proof: 7),
        ("leaf_hash", lambda proof: "00" * 32), ("origin", lambda proof: "engram/" + "0" * 32),
        ("checkpoint", lambda proof: proof["checkpoint"].replace("\n8\n", "\n9\n")), ("frame", lambda proof: "zz"),
    ],
)  # fmt: skip
def test_an_altered_proof_does_not_hold(full, tmp_path, field, value):
    proof = full.json("prove", "3")
    proof[field] = value(proof)
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(proof), encoding="utf-8")
    ended = full.run("prove", "--verify", str(file), "--public-key", full.json("checkpoint")["public_key"])
    assert ended.code == 1, ended
    assert "not proven" in ended.err


def test_another_key_does_not_verify_it(full, tmp_path):
    from journal.notes import PublicKey

    proof = full.json("prove", "3")
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(proof), encoding="utf-8")
    other = PublicKey.of(proof["origin"], bytes(32)).text()
    assert full.run("prove", "--verify", str(file), "--public-key", other).code == 1


@pytest.mark.parametrize("words", [[], ["0"], ["x"], ["1", "--verify", "f"], ["1", "--public-key", "k"]], ids=str)
def test_wrong_use(full, words):
    ended = full.run("prove", *words)
    assert (ended.code, ended.out) == (2, "")


def test_no_such_event(full):
    ended = full.run("prove", "9")
    assert ended.code == 1
    assert "the journal ends at 8" in ended.err


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"format": 2}'])
def test_what_is_no_proof(full, tmp_path, text):
    (tmp_path / "proof.json").write_text(text, encoding="utf-8")
    assert full.run("prove", "--verify", str(tmp_path / "proof.json")).code == 2

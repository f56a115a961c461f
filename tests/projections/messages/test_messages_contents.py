"""The content digest: derived again from its own description, and sensitive to every part."""

from __future__ import annotations

import random
import struct
from collections import Counter

import numpy as np
import pytest
from blake3 import blake3

from journal.events import EventType
from journal.identity import normalised
from projections.lexical import contents as index_contents
from projections.lexical.tables import DOCUMENTS, FORWARD, ORDINALS, STATE, IndexTables
from projections.messages.owners import Owners
from projections.messages.signatures import grams, signature, size_class, text_hashes
from projections.messages.tables import MESSAGES, OWNERS, SIGNATURE_ROWS, SIGNATURE_SIZES, SIGNATURES
from tests.projections.messages.conversations import KEY, small_limits

YOU = "principal:you"


@pytest.fixture
def said(conversation):
    for number in range(80):
        conversation.say(f"알림 {number}", YOU if number % 7 == 0 else "principal:me")
    conversation.say("\u200b")
    conversation.tag(conversation.messages[3], "project-a", ["cache"])
    return conversation


@pytest.fixture
def small(index):
    with small_limits():
        yield index


def rows(index, name):
    with index.env.begin() as txn:
        found = list(txn.cursor(db=index.databases[name]))
    assert found
    return found


def put(index, name, key, value):
    with index.env.begin(write=True) as txn:
        txn.put(key, value, db=index.databases[name])


def derived(index, conversation):
    """Return the digest as ``contents`` describes it; the counts by part, which a test of their own covers, as kept."""
    kept = {struct.unpack(">Q", key)[0]: value for key, value in rows(index, MESSAGES)}
    owners = Owners(KEY)
    there = conversation.in_force({YOU, "principal:me"})
    with index.env.begin() as txn:
        hasher = blake3(index_contents.content_digest(IndexTables(txn, index.databases)))
    owned = sorted(Counter(owners.tag(message.owner) for message in there).items())
    hasher.update(struct.pack("<Q", len(owned)) + b"".join(tag + struct.pack("<Q", count) for tag, count in owned))
    hasher.update(struct.pack("<Q", len(there)))
    for message in sorted(there, key=lambda message: message.cursor):
        tag = owners.tag(message.owner)
        length, counts = kept[message.cursor][21:25], kept[message.cursor][25:]
        hasher.update(struct.pack("<Q", message.cursor) + tag + length + struct.pack("<I", len(counts)) + counts)
        text = normalised(message.content["message"])
        hashes = text_hashes(owners.keys(tag).grams, text)
        bits = signature(size_class(len(grams(text))), hashes) if text else b""
        hasher.update(blake3(bits).digest())
    return hasher.digest()


def test_the_digest_is_what_its_description_says(said, small):
    said.erase(said.messages[10])
    said.revise(said.messages[20], "서버")
    small.fold_in_batches(said.events, [7])
    assert small.digest() == derived(small, said)


@pytest.mark.parametrize(
    "name", [MESSAGES, OWNERS, SIGNATURE_SIZES, SIGNATURE_ROWS, SIGNATURES, STATE, DOCUMENTS, FORWARD, ORDINALS]
)
def test_every_changed_bit_of_what_is_in_force_is_seen(said, small, name):
    said.events = [event for event in said.events if event.header.type == EventType.MESSAGE]  # nothing was replaced
    small.fold(said.events)
    before = small.digest()
    generator = random.Random(5)
    found = rows(small, name)
    for key, value in generator.sample(found, min(5, len(found))):
        for _ in range(5):
            damaged = bytearray(value)
            bit = generator.randrange(8 * len(damaged))
            damaged[bit // 8] ^= 1 << bit % 8
            if name == STATE and key == b"counts" and bit // 8 >= 16:
                continue  # the next numbers: to skip some does no harm
            put(small, name, key, bytes(damaged))
            assert small.digest() != before
        put(small, name, key, value)
    assert small.digest() == before


@pytest.mark.parametrize("name", [MESSAGES, OWNERS, SIGNATURE_SIZES, SIGNATURE_ROWS, SIGNATURES])
def test_a_missing_row_is_seen(said, small, name):
    small.fold(said.events)
    before = small.digest()
    for key, value in rows(small, name)[:5]:
        with small.env.begin(write=True) as txn:
            txn.delete(key, db=small.databases[name])
        assert small.digest() != before
        put(small, name, key, value)
    assert small.digest() == before


def test_a_signature_that_was_taken_away_has_no_part_in_it(said, small):
    small.fold(said.events)
    block, value = next((key, value) for key, value in rows(small, SIGNATURES) if key[17])
    first = int(np.frombuffer(dict(rows(small, SIGNATURE_ROWS))[block], "<u8")[0])
    flipped = bytes([value[0] ^ 1]) + value[1:]  # the first bit of the first row
    before = small.digest()
    put(small, SIGNATURES, block, flipped)
    assert small.digest() != before
    put(small, SIGNATURES, block, value)
    said.erase(next(message for message in said.messages if message.cursor == first))
    small.fold(said.events[-1:])
    before = small.digest()
    put(small, SIGNATURES, block, flipped)
    assert small.digest() == before

"""The golden vector, and what a digest covers (CONTRACT §7)."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import digests

GOLDEN = json.loads((Path(__file__).parents[1] / "vectors" / "golden.json").read_text(encoding="utf-8"))
RECEIPT_KINDS = [
    "authorization",
    "transaction",
    "decision",
    "rank",
    "read",
    "redaction",
    "revalidation",
    "projection",
    "coverage",
    "search-response",
    "get-packet",
]


def test_golden_payload():
    # typed here as well, so that a changed vector file cannot hide a changed digest
    expected = "sha256:df5abcbf1d1091794c1f37efcd89e5f7bd6b91afa631e29f084178d35c55e913"
    assert digests.payload_digest(GOLDEN["payload"]) == GOLDEN["payload_digest"] == expected


def test_golden_record():
    expected = "sha256:c75783c63ab735102bf1cf8fb361f8eee2771d3accb233a7e67c3354b5094415"
    record = GOLDEN["record_without_ids"]
    assert record["payload_digest"] == GOLDEN["payload_digest"]
    assert digests.record_digest(record) == GOLDEN["record_digest"] == expected


def test_golden_record_id():
    expected = "mem_y5lyhrr2w42rak7rz6h3gypy53rhohj2zszdhj7gpqzvjnijiqkq"
    assert digests.record_id_of(GOLDEN["record_digest"]) == GOLDEN["record_id"] == expected


def test_golden_payload_by_hand():
    # neither of the product's encoders: sorted, without spaces, which is JCS for ASCII keys and integers
    form = json.dumps(GOLDEN["payload"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    by_hand = hashlib.sha256(b"graphify-memory/payload/v2\x00" + form).hexdigest()
    assert digests.payload_digest(GOLDEN["payload"]) == f"sha256:{by_hand}"


def test_a_record_does_not_cover_its_own_ids():
    record = GOLDEN["record_without_ids"]
    with_ids = {**record, "record_id": GOLDEN["record_id"], "record_digest": GOLDEN["record_digest"]}
    assert digests.record_digest(with_ids) == digests.record_digest(record)


def _leaves(value, path=()):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path


@pytest.mark.parametrize("path", list(_leaves(GOLDEN["record_without_ids"])), ids=lambda path: ".".join(map(str, path)))
def test_every_leaf_of_a_record_counts(path):
    changed = copy.deepcopy(GOLDEN["record_without_ids"])
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = "another" if isinstance(place[path[-1]], str) else place[path[-1]] + 1
    assert digests.record_digest(changed) != GOLDEN["record_digest"]


@pytest.mark.parametrize("kind", RECEIPT_KINDS)
def test_a_receipt_is_digested_under_its_kind_and_without_its_own_digest(kind):
    receipt = {"b": 1, "a": "x"}
    by_hand = hashlib.sha256(f"graphify-memory/{kind}/v1\0".encode() + b'{"a":"x","b":1}').hexdigest()
    sealed = digests.sealed_receipt(kind, receipt)
    assert sealed == {"b": 1, "a": "x", "receipt_digest": f"sha256:{by_hand}"}
    assert digests.receipt_digest(kind, sealed) == sealed["receipt_digest"]
    assert receipt == {"b": 1, "a": "x"}


def test_domains_are_apart():
    value = {"same": "value"}
    found = [digests.receipt_digest(kind, value) for kind in RECEIPT_KINDS]
    found += [digests.payload_digest(value), digests.record_digest(value)]
    assert len(set(found)) == len(RECEIPT_KINDS) + 2


@given(st.binary(min_size=32, max_size=32))
def test_record_ids_have_the_contracts_shape(raw):
    record_id = digests.record_id_of("sha256:" + raw.hex())
    assert re.fullmatch(r"mem_[a-z2-7]{52}", record_id)
    assert len(record_id) == 56


@given(st.binary(min_size=32, max_size=32))
def test_candidate_ids_are_the_capture_identity_digest(event_id):
    form = b'{"event_id":"%b"}' % event_id.hex().encode()
    by_hand = hashlib.sha256(b"graphify-memory/capture-identity/v1\x00" + form).hexdigest()
    assert digests.candidate_id_of(event_id) == f"candidate_{by_hand}"

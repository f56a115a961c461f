"""What fuzzing found once is never found again: each seed goes through its target."""

from __future__ import annotations

import pytest

from fuzz.kept import FOLDER, seeds
from fuzz.targets import TARGETS

SEEDS = [
    pytest.param(target, raw, id=f"{target}-{number}") for target in TARGETS for number, raw in enumerate(seeds(target))
]


@pytest.mark.parametrize(("target", "raw"), SEEDS)
def test_a_seed_goes_through(target, raw):
    TARGETS[target](raw)


def test_every_target_has_seeds_and_every_seed_a_target():
    assert {path.stem for path in FOLDER.glob("*.hex")} == set(TARGETS)
    assert all(seeds(target) for target in TARGETS)

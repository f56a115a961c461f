"""A store of records and messages, and its embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.projections.vector.spaces import Space


@pytest.fixture
def space(tmp_path):
    with Space(tmp_path) as opened:
        yield opened


@pytest.fixture
def rng():
    return np.random.default_rng(7)


class GoesOn:
    """Says to go on, and counts how often it was asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return True


@pytest.fixture
def goes_on():
    return GoesOn()

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

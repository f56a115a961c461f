"""Keyrings that are closed again."""

from __future__ import annotations

import pytest

from journal.clock import SystemRandomness
from journal.keyring import Keyring
from tests.journal.stores import ROOT


@pytest.fixture
def open_ring(tmp_path):
    """Open keyrings in the test's own directory."""
    rings = []

    def open_ring(root=ROOT, **how):
        rings.append(Keyring(tmp_path, root, SystemRandomness(), **how))
        return rings[-1]

    yield open_ring
    for ring in rings:
        ring.close()


@pytest.fixture
def ring(open_ring):
    """One keyring in the test's own directory."""
    return open_ring()

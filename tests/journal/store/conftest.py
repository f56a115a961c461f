"""The contract's asserts are explained like a test module's own."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.journal.store.contract")

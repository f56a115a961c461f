"""An index of messages."""

from __future__ import annotations

import pytest

from tests.projections.messages.conversations import Conversation, Index


@pytest.fixture
def conversation():
    return Conversation()


@pytest.fixture
def index(tmp_path):
    index = Index(tmp_path / "index")
    yield index
    index.close()

"""The four conversation tools by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.conversation.manage_knowledge import manage_knowledge
from tools.conversation.memory_startup import memory_startup
from tools.conversation.save_message import save_message
from tools.conversation.search_memory import search_memory
from tools.host.capabilities import MANAGE_KNOWLEDGE, MEMORY_STARTUP, SAVE_MESSAGE, SEARCH_MEMORY
from tools.memory.call import Call
from tools.memory.engine import Engine

CONVERSATION: dict[str, Callable[[Engine, Call, dict[str, Any]], dict[str, Any]]] = {
    SAVE_MESSAGE: save_message,
    SEARCH_MEMORY: search_memory,
    MANAGE_KNOWLEDGE: manage_knowledge,
    MEMORY_STARTUP: memory_startup,
}

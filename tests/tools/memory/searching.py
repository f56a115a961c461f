"""Searches page by page, over texts that all hold one word."""

from __future__ import annotations

import itertools
from typing import Any

from tests.tools.memory.world import (
    PURPOSE,
    Caller,
)
from tools.host.capabilities import SEARCH

WORD = "harvest"


def stocked(agent: Caller, count: int, bytes_each: int = 0) -> list[str]:
    """Remember texts that all hold the word, each with another score; return the record ids."""
    filler = " ".join(["filler"] * (bytes_each // 7))
    return [agent.remember(f"{WORD} {'word ' * number}{filler}".strip()) for number in range(count)]


def page(agent: Caller, cursor: str | None = None, query: str = WORD, **more: Any) -> dict[str, Any]:
    return agent.search(query, **({"page_cursor": cursor} if cursor else {}), **more)


def code(agent: Caller, cursor: str | None = None, query: str = WORD, **more: Any) -> str:
    arguments = {"query": query, "purpose_ref": PURPOSE, **({"page_cursor": cursor} if cursor else {}), **more}
    return agent.code(SEARCH, arguments)


def pages(agent: Caller, query: str = WORD, *, each: Any = None, **more: Any) -> list[dict[str, Any]]:
    """Return all packets of a search, page by page; ``each`` gives further arguments a page."""
    packets: list[dict[str, Any]] = []
    cursor = None
    for number in itertools.count():
        value = page(agent, cursor, query, **more, **(each(number) if each else {}))
        packets += value["records"]
        cursor = value.get("next_page_cursor")
        if cursor is None:
            return packets
        assert value["records"], "a page that leads on has a record"
    raise AssertionError


def ids(packets: list[dict[str, Any]]) -> list[str]:
    return [packet["record"]["record_id"] for packet in packets]

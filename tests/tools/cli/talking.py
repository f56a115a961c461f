"""What an agent says at a desk, and what a person reads of it."""

from __future__ import annotations

from typing import Any

from tests.tools.cli.desk import Desk
from tools.host.capabilities import MANAGE_KNOWLEDGE, SAVE_MESSAGE

ELSEWHERE = "talk"


def say(desk: Desk, *texts: str, role: str = "user", **more: Any) -> list[str]:
    """Have an agent save messages; return their ids."""
    with desk.agent() as agent:
        return [agent.value(SAVE_MESSAGE, {"role": role, "message": text, **more})["id"] for text in texts]


def know(desk: Desk, action: str, target: str, **more: Any) -> dict[str, Any]:
    """Have an agent manage what is known; return the tool's value."""
    with desk.agent() as agent:
        return agent.value(MANAGE_KNOWLEDGE, {"action": action, "target": target, **more})


def elsewhere(desk: Desk) -> Desk:
    """Let conversations lie in a workspace of their own."""
    text = desk.host_file.read_text(encoding="utf-8")
    assert "\n[conversation]\n" in text
    text = text.replace("\n[conversation]\n", f'\n[conversation]\nworkspace = "{ELSEWHERE}"\n')
    desk.host_file.write_text(f'{text}\n[[workspaces]]\nname = "{ELSEWHERE}"\n', encoding="utf-8")
    return desk


def texts(desk: Desk, *words: str) -> list[str]:
    """Return what the timeline lists."""
    return [each["message"] for each in desk.json("timeline", *words)]

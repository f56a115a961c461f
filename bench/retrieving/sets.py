"""Sets of questions whose answers are known: documents, and which of them each question wants.

They are read where they lie: LoCoMo's first five conversations, by turns and by sessions, and KorQuAD 1.0's
development set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from journal import limits

LOCOMO: Final = "locomo-first5.json"
KORQUAD: Final = "KorQuAD_v1.0_dev.json"
_EVIDENCE: Final = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Text:
    """A document: its main text, texts around it, and where it stands."""

    main: str
    around: tuple[str, ...]
    source: str  # documents of one source were said one after the other
    locator: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the positions of the documents that answer it; one at least."""

    query: str
    wanted: frozenset[int]


@dataclass(slots=True)
class Workspace:
    """Documents that are searched together, and what is asked about them."""

    name: str
    texts: list[Text] = field(default_factory=list)
    questions: list[Asked] = field(default_factory=list)


def locomo_turns(data: Path) -> list[Workspace]:
    """Return a workspace a conversation, a document a turn: the text; its speaker, the session's date, the caption."""
    found = []
    for talk in _read(data / LOCOMO):
        workspace = Workspace(f"locomo-{talk['sample_id']}")
        positions: dict[str, int] = {}
        for number, date, turns in _sessions(talk):
            for turn in turns:
                positions[turn["dia_id"]] = len(workspace.texts)
                around = (turn["speaker"], date, turn.get("blip_caption", ""))
                source = f"source:{workspace.name}-session-{number}"
                workspace.texts.append(Text(turn["text"], tuple(filter(None, around)), source, turn["dia_id"]))
        workspace.questions = _asked(talk, positions)
        found.append(workspace)
    return found


def locomo_sessions(data: Path) -> list[Workspace]:
    """Return a workspace a conversation, a document a session: all that was said, and the date."""
    found = []
    for talk in _read(data / LOCOMO):
        workspace = Workspace(f"locomo-{talk['sample_id']}-sessions")
        positions: dict[str, int] = {}
        for number, date, turns in _sessions(talk):
            positions |= {turn["dia_id"]: len(workspace.texts) for turn in turns}
            said = "\n".join(f"{turn['speaker']}: {turn['text']}" for turn in turns)
            source = f"source:{workspace.name}-{number}"
            workspace.texts.append(Text(_cut(said), (date,), source, f"session {number}"))
        workspace.questions = _asked(talk, positions)
        found.append(workspace)
    return found


def korquad(data: Path) -> list[Workspace]:
    """Return one workspace, a document a distinct passage, and all questions."""
    workspace = Workspace("korquad")
    positions: dict[str, int] = {}
    for article in _read(data / KORQUAD)["data"]:
        for paragraph in article["paragraphs"]:
            passage = paragraph["context"]
            if passage not in positions:
                number = positions[passage] = len(workspace.texts)
                workspace.texts.append(Text(_cut(passage), (), f"source:korquad-{number}", str(number)))
            wanted = frozenset([positions[passage]])
            workspace.questions += [Asked(asked["question"], wanted) for asked in paragraph["qas"]]
    return [workspace]


SETS: Final[dict[str, Callable[[Path], list[Workspace]]]] = {
    "locomo-turns": locomo_turns,
    "locomo-sessions": locomo_sessions,
    "korquad": korquad,
}


def _read(path: Path) -> Any:
    """Return a JSON document."""
    return json.loads(path.read_text(encoding="utf-8"))


def _sessions(talk: dict[str, Any]) -> Iterator[tuple[int, str, list[dict[str, Any]]]]:
    """Yield (number, date, turns) of every session in which something was said, in order."""
    conversation = talk["conversation"]
    numbers = sorted(int(name.split("_")[1]) for name in conversation if re.fullmatch(r"session_\d+", name))
    for number in numbers:
        if turns := [turn for turn in conversation[f"session_{number}"] if turn["text"]]:
            yield number, conversation[f"session_{number}_date_time"], turns


def _asked(talk: dict[str, Any], positions: dict[str, int]) -> list[Asked]:
    """Return the questions that have evidence: some entries are malformed, so every id in them that exists counts."""
    found = []
    for question in talk["qa"]:
        named = [each for entry in question.get("evidence", ()) for each in _EVIDENCE.findall(entry)]
        if wanted := frozenset(positions[each] for each in named if each in positions):
            found.append(Asked(question["question"], wanted))
    return found


def _cut(text: str) -> str:
    """Return as much of a text's beginning as a component may hold."""
    return text.encode()[: limits.COMPONENT_TEXT_MAX_BYTES].decode(errors="ignore")

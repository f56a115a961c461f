"""The book of a soak: all that was acknowledged, and what stands of it now."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

PENDING, CURRENT, WITHDRAWN, FORGOTTEN = "pending", "accepted_current", "withdrawn", "tombstoned"
SUPERSEDED, ACTIVE, ERASED = "historical", "active", "erased"
ENDED = frozenset({WITHDRAWN, FORGOTTEN, ERASED})
"""The states of what can be read no more: its key is destroyed."""

_VOWELS, _CONSONANTS = "aeiou", "bdfgklmnprtvz"
_COMMON = (
    "build deploy review schedule budget release server backup meeting decision owner branch latency customer "
    "회의 배포 일정 예산 검토 서버 백업 고객 결정 담당자 내일 오전 한라산 제주 보고서 저장소"
).split()


@dataclass
class Kept:
    """One candidate with its record, or one message."""

    workspace: str
    client: int
    kind: str  # "record" or "message"
    word: str  # stands in this text and in no other
    text: str
    key: str  # of the capture; of a message, which has none, its word again
    subject: str = ""  # the candidate's or the message's id, once it is acknowledged
    record_id: str = ""
    state: str = PENDING
    sends: int = 0  # how often it was sent without an answer: a message may stand there so often besides
    fate: str = ""  # of what is to end: doomed, traced, asked; of what a person has in hand: held
    changing: int = 0  # calls under way that may change it
    version: int = 0  # how often it changed
    changed_at: float = 0.0

    @property
    def is_steady(self) -> bool:
        """Whether nothing is under way that changes it."""
        return not self.changing and self.fate in ("", "doomed", "traced")

    def found_by_search(self) -> bool:
        """Whether a search for its word must find it."""
        return self.state in (CURRENT, ACTIVE)


@dataclass
class Book:
    """Everything that was acknowledged. The lock guards the lists; an entry is changed by one thread at a time."""

    seed: int
    kept: dict[str, list[Kept]] = field(default_factory=lambda: defaultdict(list))  # workspace ->
    traces: dict[str, list[bytes]] = field(default_factory=dict)  # subject -> its wrapped key and tokens
    violations: list[str] = field(default_factory=list)
    acknowledged: Counter[str] = field(default_factory=Counter)  # by operation
    refused: Counter[str] = field(default_factory=Counter)  # by retriable code
    lock: threading.Lock = field(default_factory=threading.Lock)
    _words: int = 0

    def wrong(self, what: str) -> None:
        """Note a violation."""
        with self.lock:
            self.violations.append(what)

    def count(self, operation: str) -> None:
        """Count what was acknowledged."""
        with self.lock:
            self.acknowledged[operation] += 1

    def add(self, entry: Kept) -> None:
        """Enter what was acknowledged."""
        with self.lock:
            self.kept[entry.workspace].append(entry)

    def entries(self, workspace: str | None = None) -> list[Kept]:
        """Return what is entered so far, of a workspace or of all."""
        with self.lock:
            return [each for name, many in self.kept.items() if workspace in (None, name) for each in many]

    def claim(self, entry: Kept, fate: str) -> bool:
        """Say what is to become of an entry; False where something else is."""
        with self.lock:
            if entry.fate:
                return False
            entry.fate = fate
            return True

    def new_word(self) -> str:
        """Return a word that was never used: no stemmer shortens it, and no other begins with it."""
        with self.lock:
            self._words += 1
            number = self._words
        letters = ""
        for _ in range(5):
            number, syllable = divmod(number, len(_CONSONANTS) * len(_VOWELS))
            consonant, vowel = divmod(syllable, len(_VOWELS))
            letters += _CONSONANTS[consonant] + _VOWELS[vowel]
        return f"{letters}xq"

    def new_text(self, chance: random.Random, word: str) -> str:
        """Return a text of 4 to 40 common words, of two scripts, with one word of its own."""
        words = chance.choices(_COMMON, k=chance.randint(4, 40))
        words.insert(chance.randrange(len(words)), word)
        return " ".join(words)


def frequent_word(chance: random.Random) -> str:
    """Return a word that many texts have."""
    return chance.choice(_COMMON)

"""A message as a document: how often its parts say each token, kept so that one part can change without the others.

An event brings the text or the tags, never both. What is kept are counts, so that a token that several parts hold
weighs the same whatever the order in which they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from projections.lexical.documents import Document, Weighed
from projections.lexical.identifiers import STOP_MARK
from projections.lexical.keyed import TokenKey
from projections.lexical.scoring import field_factor, impacts
from projections.lexical.standing import ALONE, NO_LABEL, Standing, label_of
from projections.lexical.tokens import Tokenizer
from projections.messages.profile import MESSAGE_FIELDS

COUNTS: Final = np.dtype([("text", "<u2"), ("who", "u1"), ("tags", "u1")])
"""How often each part says a token; one row a token of the forward entry. What is more counts as the greatest."""

_GREATEST: Final = {"text": 2**16 - 1, "who": 2**8 - 1, "tags": 2**8 - 1}
_SESSION_MARK: Final = "\x01"  # stands before a session where its token is made; no term begins with it
_WHO_KEYS: Final = ("agent_key", "subagent_role")  # not the role: all messages have one, and searches filter by it
PartCounts = dict[bytes, int]


@dataclass(slots=True)
class Parts:
    """The parts of one message: counts by token, and the length of the text in terms without stop words."""

    text: PartCounts = field(default_factory=dict)
    who: PartCounts = field(default_factory=dict)
    tags: PartCounts = field(default_factory=dict)
    length: int = 0

    @classmethod
    def of(cls, document: Weighed, length: int, counts: bytes) -> Parts:
        """Return the parts of a forward entry and the counts that go with it.

        Raises:
            ValueError: they are not of one size.
        """
        rows = np.frombuffer(counts, COUNTS)
        tokens = document.token_list()
        text, who, tags = (
            {token: count for token, count in zip(tokens, rows[name].tolist(), strict=True) if count}
            for name in ("text", "who", "tags")
        )
        return cls(text, who, tags, length)

    def weighed(self) -> tuple[Weighed, bytes]:
        """Return the document by BM25F, as ``lexical.documents.Weigher`` weighs it, and the counts that go with it."""
        frequencies: dict[bytes, float] = {}
        for known, counts in zip(MESSAGE_FIELDS, (self.text, self.who, self.tags), strict=True):
            factor = field_factor(known, self.length if known.name == "text" else 0)
            for token, count in counts.items():
                frequencies[token] = frequencies.get(token, 0.0) + factor * count
        if not frequencies:
            return Weighed(b"", b""), b""
        tokens = sorted(frequencies)
        weights = impacts(np.array([frequencies[token] for token in tokens])).tobytes()
        rows = np.empty(len(tokens), COUNTS)
        for name, counts in (("text", self.text), ("who", self.who), ("tags", self.tags)):
            rows[name] = [counts.get(token, 0) for token in tokens]
        return Weighed(b"".join(tokens), weights), rows.tobytes()


def set_text(parts: Parts, tokenizer: Tokenizer, key: TokenKey, content: dict[str, Any]) -> None:
    """Take the text of a message or of its revision."""
    terms = Counter(tokenizer.document_terms(content.get("message", "")))
    parts.length = sum([count for term, count in terms.items() if term[0] != STOP_MARK])
    parts.text = _keyed(key, terms, "text")


def set_who(parts: Parts, tokenizer: Tokenizer, key: TokenKey, content: dict[str, Any]) -> None:
    """Take who said it."""
    parts.who = _keyed(key, _terms(tokenizer, _who(content)), "who")


def message_document(content: dict[str, Any], tags: dict[str, Any]) -> Document:
    """Return a message as the texts that are weighed: its content, and the tags {p_tag, d_tags} that it has."""
    texts = [("text", content.get("message", ""))]
    texts += [("who", text) for text in _who(content)]
    texts += [("tags", text) for text in _tags(tags)]
    return Document(tuple(texts))


def _who(content: dict[str, Any]) -> list[str]:
    return [content[name] for name in _WHO_KEYS if content.get(name)]


def _tags(content: dict[str, Any]) -> list[str]:
    return [content.get("p_tag") or "", *content.get("d_tags", ())]


def standing_of(key: TokenKey, tokenizer: Tokenizer, content: dict[str, Any], instant: int) -> Standing:
    """Return where a new message stands: in its session, by the instant at which it was said."""
    session = content.get("session_id")
    group = key.tokens([_SESSION_MARK + session])[0] if session else ALONE.group
    name = [term for term in tokenizer.document_terms(content.get("agent_key", "")) if term[0] != STOP_MARK]
    return Standing(group, max(instant, 0), label_of(key.tokens(name[:1])[0]) if name else NO_LABEL)


def set_tags(parts: Parts, tokenizer: Tokenizer, key: TokenKey, content: dict[str, Any]) -> None:
    """Take the tags of a message, all of them."""
    parts.tags = _keyed(key, _terms(tokenizer, _tags(content)), "tags")


def _terms(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """Return the terms of texts that no bigram joins."""
    return Counter(term for text in texts for term in tokenizer.document_terms(text))


def _keyed(key: TokenKey, terms: Counter[str], part: str) -> PartCounts:
    """Return counts by token."""
    greatest = _GREATEST[part]
    return {token: min(count, greatest) for token, count in zip(key.tokens(terms), terms.values(), strict=True)}

"""A small journal and its lexical index in a real LMDB environment, and the plain scan that the index must equal."""

from __future__ import annotations

import base64
from collections import Counter
from contextlib import contextmanager

import lmdb
import numpy as np
import pytest
from blake3 import blake3

from journal import limits
from journal.events import FORMAT, Actor, EventType, Header
from journal.lifecycle import LEGAL, Operation, State
from journal.scope import Scope
from projections.lexical import profile
from projections.lexical.documents import Weighed, Weigher, record_document
from projections.lexical.identifiers import STOP_MARK
from projections.lexical.keyed import TokenKey
from projections.lexical.profile import RECORD_FIELDS
from projections.lexical.projection import LexicalProjection
from projections.lexical.question import Question
from projections.lexical.scoring import term_weight
from projections.lexical.tokens import document_terms, query_terms
from projections.lexical.traits import traits_of
from projections.overlay import Changes, Overlay
from projections.port import FoldEvent, OpenTables
from tests.projections.lexical.plain_ranking import Plain, plain_ranking

KEY = bytes(range(32))
SCOPE = Scope.of("tenant", "workspace")


SMALL_LIMITS = {
    "LEXICAL_PIECE_POSTINGS": 3,
    "LEXICAL_CHUNK_POSTINGS": 7,
    "LEXICAL_BUILD_POSTINGS": 12,
    "LEXICAL_LEVEL_POSTINGS": 8,
    "LEXICAL_LEVEL_FACTOR": 2,
    "LEXICAL_LOWEST_MERGE": 3,
    "LEXICAL_INLINE_POSTINGS": 24,
    "LEXICAL_SEGMENT_POSTINGS": 48,
    "LEXICAL_SEGMENTS_MAX": 6,
    "LEXICAL_PAGE_DOCUMENTS": 3,
    "LEXICAL_SEQUENCE_PAGE_DOCUMENTS": 2,
    "LEXICAL_JOIN_POSTINGS": 4,
    "LEXICAL_MEMO_WORDS": 7,
    "LEXICAL_JOINT_SEARCHES": 1,
    "LEXICAL_JOINT_POSTINGS": 60,
}
"""Limits under which a handful of short texts has many chunks, merges, levels, pages and lists that are not joined."""


@contextmanager
def small_limits():
    """Work under ``SMALL_LIMITS``."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL_LIMITS.items():
            patch.setattr(limits, name, value)
        patch.setattr(profile, "WINDOW_DOCUMENTS", 4)
        yield


def payload_of(text, *, kind="decision", others=(), source="source:notes", value="notes#1"):
    """Return an effective payload whose primary component has this text; ``others`` are (kind, text)."""
    components = [{"component_id": "component:0", "kind": kind, "text": text, "citation_ids": ["citation:0"]}]
    components += [
        {"component_id": f"component:{number}", "kind": other, "text": words}
        for number, (other, words) in enumerate(others, 1)
    ]
    return {
        "components": components,
        "primary_component_id": "component:0",
        "purpose_ref": "purpose:notes",
        "citations": [
            {"citation_id": "citation:0", "source_ref": source, "locator": {"scheme": "document", "value": value}}
        ],
    }


class Journal:
    """Lifecycle events of one scope, legal by construction."""

    def __init__(self):
        self.events = []
        self.states = {}
        self.payloads = {}
        self.cursors = {}
        self.erased = set()
        self.opened = []  # subjects whose payload a fold asked for

    def capture(self, payload, name=None):
        """Capture a payload, or a text as the only component; return the candidate id, which the name decides."""
        name = str(len(self.events)) if name is None else name
        subject = "candidate_" + blake3(name.encode()).hexdigest()
        self.payloads[subject] = (
            payload_of(payload, source=f"source:{len(payload) % 3}") if isinstance(payload, str) else payload
        )
        self.cursors[subject] = len(self.events) + 1
        self._append(EventType.CAPTURE, subject)
        return subject

    def add(self, payload, name=None):
        """Capture and accept; return the candidate id."""
        subject = self.capture(payload, name)
        self.move(subject, Operation.ACCEPT)
        return subject

    def move(self, subject, operation, related=None):
        """Append a transition. A tombstone makes the payload unreadable, as destroying its key does."""
        self._append(EventType(operation), subject, related)
        if operation is Operation.REWIND:
            self.states[related] = State.HISTORICAL
        if operation is Operation.TOMBSTONE:
            self.erased.add(subject)

    def _append(self, kind, subject, related=None):
        before = self.states.get(subject, State.ABSENT)
        after = LEGAL[Operation(kind), before]
        self.states[subject] = after
        known_as = record_id(subject) if after > State.WITHDRAWN else None
        header = Header(
            format=FORMAT, type=kind, scope=SCOPE, cursor=len(self.events) + 1, recorded_at=0, event_id=bytes(32),
            actor=Actor("principal"), subject=subject, record_id=known_as,
            related=related, from_state=before, to_state=after, key_id=None, intent=None, guards=(),
            content_digest=None, ledger_digest=None, prev=bytes(32),
        )  # fmt: skip
        self.events.append(FoldEvent(header, lambda: self._opened(subject)))

    def _opened(self, subject):
        self.opened.append(subject)
        return None if subject in self.erased else self.payloads[subject]

    def current(self):
        """Return the candidates whose record is in force."""
        return [subject for subject, state in self.states.items() if state is State.ACCEPTED_CURRENT]

    def cursor(self, subject):
        """Return a candidate's capture cursor."""
        return self.cursors[subject]


def record_digest(subject):
    return blake3(subject.encode()).digest()


def record_id(subject):
    return "mem_" + base64.b32encode(record_digest(subject)).decode().rstrip("=").lower()


class Index:
    """A generation of the lexical projection."""

    def __init__(self, path, key=KEY):
        self.projection = LexicalProjection(key)
        self.env = lmdb.open(str(path), map_size=1 << 30, max_dbs=16, sync=False, lock=False)
        self.databases = OpenTables({name: self.env.open_db(name) for name in self.projection.databases}, {})

    def fold(self, events):
        with self.env.begin(write=True) as txn:
            self.projection.fold(txn, self.databases, events)

    def fold_in_batches(self, events, sizes):
        """Fold events in batches of these sizes, repeated as long as needed."""
        at = 0
        for size in sizes * (len(events) + 1):
            if at >= len(events):
                return
            self.fold(events[at : at + size])
            at += size

    def upkeep(self):
        """Do every merge that is due; return how many there were."""
        merges = 0
        with self.env.begin(write=True) as txn:
            while self.projection.upkeep(txn, self.databases):
                merges += 1
        return merges

    @contextmanager
    def reading(self, tail=()):
        """Give a transaction, with a tail of events folded over it in memory."""
        with self.env.begin(buffers=True) as txn:
            if not tail:
                yield txn
                return
            overlay = Overlay(txn, self.databases, Changes(object(), 0, bytes(32)))
            self.projection.fold(overlay, self.databases, tail)
            yield overlay

    def search(self, query, limit=10, eligible=None, tail=()):
        with self.reading(tail) as txn:
            reader = self.projection.reader(txn, self.databases, 0)
            return reader.search(Question.of(query), limit, eligible).hits[:limit]

    def digest(self, tail=()):
        with self.reading(tail) as txn:
            return self.projection.content_digest(txn, self.databases)

    def close(self):
        self.env.close()


def scanned(journal, query, limit=10, eligible=None):
    """Rank what is in force by looking at every document: no index, no pruning."""
    weigher = Weigher(TokenKey(KEY), RECORD_FIELDS)
    documents = []
    for subject in journal.current():
        payload = journal.payloads[subject]
        weighed = weigher.weigh(record_document(payload))
        documents.append((journal.cursor(subject), record_digest(subject), impacts_by_token(weighed), payload))
    frequencies = Counter(token for _, _, impacts, _ in documents for token in impacts)
    query_counts = Counter(TokenKey(KEY).tokens(query_terms(query)))
    plain = []
    for cursor, digest, impacts, payload in documents:
        score = sum(
            term_weight(len(documents), frequencies[token], times) * impacts[token]
            for token, times in query_counts.items()
            if token in impacts
        )
        may = eligible is None or bool(eligible(np.array([cursor], np.uint64))[0])
        text, source = payload["components"][0]["text"], payload["citations"][0]["source_ref"]
        named = label(payload) in query_terms(query)
        plain.append(Plain(cursor, (digest,), score, source, cursor, named, traits_of(text), may))
    return plain_ranking(plain, query, limit)


def label(payload):
    """Return the term by which a question names a payload: the first of the first context that is a name."""
    for component in payload["components"][1:]:
        terms = [term for term in document_terms(component["text"]) if term[0] != STOP_MARK]
        if component["kind"] == "context" and 0 < len(terms) <= limits.LABEL_MAX_TERMS:
            return terms[0]
    return None


def impacts_by_token(weighed: Weighed):
    return dict(zip(weighed.token_list(), weighed.impacts, strict=True))

"""Documents: texts in fields, and what is kept of them: tokens and impacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import add
from typing import Any, Final

import msgspec
import numpy as np

from journal import limits
from projections.lexical.identifiers import STOP_MARK
from projections.lexical.keyed import TOKEN_BYTES, TokenKey
from projections.lexical.profile import Field
from projections.lexical.scoring import field_factor, impact
from projections.lexical.standing import ALONE, NO_LABEL, Standing, label_of
from projections.lexical.tokens import Reading, Tokenizer
from projections.lexical.traits import traits_read

_SOURCE_MARK: Final = "\x01"  # stands before a source where its token is made; no term begins with it


class Document(msgspec.Struct, frozen=True, gc=False):
    """Texts, each with the name of its field. A field may occur often; its texts add up, and no bigram joins them."""

    fields: tuple[tuple[str, str], ...]
    main: str = ""  # the text whose traits count
    source: str = ""  # documents of one source are read in order; none: it stands alone
    labels: tuple[str, ...] = ()  # texts that may be its label

    @property
    def characters(self) -> int:
        """How long its texts are."""
        return sum([len(text) for _, text in self.fields])


def record_document(payload: dict[str, Any]) -> Document:
    """Return the document of a record's effective payload: components by role, citations by source and locator."""
    primary = payload["primary_component_id"]
    fields = [
        ("primary" if component["component_id"] == primary else component["kind"], component["text"])
        for component in payload["components"]
    ]
    for citation in payload["citations"]:
        fields += [("citations", citation["source_ref"]), ("citations", citation["locator"]["value"])]
    texts = {component["component_id"]: component for component in payload["components"]}
    first = texts[primary]["citation_ids"][0]
    [cited] = [citation["source_ref"] for citation in payload["citations"] if citation["citation_id"] == first]
    return Document(
        tuple(fields),
        main=texts[primary]["text"],
        source="\0".join((payload["purpose_ref"], cited)),  # who reads one of a source reads all of it
        labels=tuple(text for name, text in fields if name == "context"),
    )


class Weighed(msgspec.Struct, frozen=True, gc=False):
    """A document as the index holds it.

    ``tokens`` is a row of 16-byte tokens, ascending and distinct; ``impacts`` has one byte a token. The two joined are
    the document's forward entry, from which it can be taken out again without its content.
    """

    tokens: bytes
    impacts: bytes

    @classmethod
    def from_forward(cls, entry: bytes) -> Weighed:
        """Return the document of a forward entry."""
        size = len(entry) // (TOKEN_BYTES + 1)
        return cls(entry[: size * TOKEN_BYTES], entry[size * TOKEN_BYTES :])

    @property
    def forward(self) -> bytes:
        """The forward entry: all tokens, then all impacts."""
        return self.tokens + self.impacts

    def token_list(self) -> list[bytes]:
        """Return the tokens one by one."""
        return [self.tokens[at : at + TOKEN_BYTES] for at in range(0, len(self.tokens), TOKEN_BYTES)]


class Weigher:
    """Weighs the documents and queries of one scope. Safe to share between threads."""

    def __init__(self, key: TokenKey, fields: tuple[Field, ...]) -> None:
        self.key = key
        self.fields = fields
        self._tokenizer = Tokenizer()

    def weigh(self, document: Document) -> Weighed:
        """Return the document's tokens and impacts by BM25F: weighted frequencies over all fields, saturated once.

        Raises:
            ValueError: a field that the profile does not know.
        """
        return self._weighed(document, self._read(document))

    def standing(self, document: Document, order: int) -> Standing:
        """Return where a document stands; ``order``: its place in its source."""
        return self.stands(document, order, self._read(document))

    def arriving(self, document: Document, order: int) -> tuple[Weighed, Standing]:
        """Return what ``weigh`` and ``standing`` do; each text is read once."""
        readings = self._read(document)
        return self._weighed(document, readings), self.stands(document, order, readings)

    def read_apart(self, document: Document, readings: dict[str, Reading]) -> None:
        """Add to readings those of all texts of a document, as ``Tokenizer.read_apart`` gives them."""
        for text in _texts(document):
            if text not in readings:
                readings[text] = self._tokenizer.read_apart(text)

    def _read(self, document: Document) -> dict[str, Reading]:
        """Return the readings of all texts of a document."""
        return {text: self._tokenizer.read(text) for text in {*_texts(document)}}

    def _weighed(self, document: Document, readings: dict[str, Reading]) -> Weighed:
        fields: dict[str, list[Reading]] = {field.name: [] for field in self.fields}
        for name, text in document.fields:
            if name not in fields:
                raise ValueError("a field that the profile does not know")
            fields[name].append(readings[text])
        frequencies: dict[str, float] = {}
        for field in self.fields:  # in the profile's order, so that sums of floats never depend on the document's
            if fields[field.name]:
                _add_field(frequencies, field, fields[field.name])
        return self._keyed(frequencies)

    def stands(self, document: Document, order: int, readings: dict[str, Reading]) -> Standing:
        """Return where a document stands whose texts were read."""
        group = self.key.tokens([_SOURCE_MARK + document.source])[0] if document.source else ALONE.group
        return Standing(group, order, self._label(document.labels, readings), traits_read(readings[document.main]))

    def _label(self, texts: Sequence[str], readings: dict[str, Reading]) -> int:
        """Return the label: the first word of the first text that is no longer than a name."""
        for text in texts:
            if len(text) <= limits.LABEL_MAX_CHARACTERS:
                reading = readings[text]
                words = [term for term in reading.terms if term[0] != STOP_MARK]
                if 0 < len(words) + reading.pairs <= limits.LABEL_MAX_TERMS:
                    return label_of(self.key.tokens(words)[0])
        return NO_LABEL

    def _keyed(self, frequencies: dict[str, float]) -> Weighed:
        """Return the weighed document of its terms' frequencies."""
        if not frequencies:
            return Weighed(b"", b"")
        # Few frequencies differ. A token and its impact are one row of bytes, so that one sort orders both.
        quantised = {frequency: bytes((impact(frequency),)) for frequency in set(frequencies.values())}
        tokens = self.key.tokens(frequencies)
        rows = b"".join(sorted(map(add, tokens, map(quantised.__getitem__, frequencies.values()))))
        table = np.frombuffer(rows, np.uint8).reshape(-1, TOKEN_BYTES + 1)
        return Weighed(table[:, :TOKEN_BYTES].tobytes(), table[:, TOKEN_BYTES].tobytes())


def _texts(document: Document) -> Iterator[str]:
    """Give the texts of a document, some more than once."""
    for _, text in document.fields:
        yield text
    yield document.main
    yield from document.labels


def _add_field(frequencies: dict[str, float], field: Field, texts: list[Reading]) -> None:
    """Add a field's weighted frequencies. Stop words have no part in its length."""
    factor = field_factor(field, sum([text.length for text in texts]))
    counts = Counter(texts[0].terms)
    for text in texts[1:]:
        counts.update(text.terms)
    if not frequencies:
        frequencies.update({term: factor * count for term, count in counts.items()})
        return
    before = frequencies.get
    frequencies.update({term: before(term, 0.0) + factor * count for term, count in counts.items()})

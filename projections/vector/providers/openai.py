"""An endpoint that speaks OpenAI's ``/v1/embeddings``: a service, or a server of models on this machine.

What an endpoint answers is checked before it counts: every text has its vector, by the index that the answer gives it,
of the dimension that the host named, of finite numbers. A request that did not go through is tried again after a pause
of random length (full jitter), at least as long as Retry-After asks; then the whole call fails, and no vector of it
counts. Models read texts of different lengths, and some servers refuse a longer one: of what is refused, less is sent.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import partial

import msgspec
import numpy as np
from blake3 import blake3

from journal import limits
from projections.address import Address
from projections.exchange import Answer, Requests, Unanswered, post
from projections.vector.providers.port import EmbeddingFailed, Identity, Vectors, model_digest
from projections.vector.providers.rows import unit_rows
from projections.vector.providers.settings import Settings, address_of
from projections.vector.providers.texts import first_part

_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_TOO_MUCH = frozenset({400, 413, 422})  # how servers say that a text, or a request, is longer than they take
_OK = 200
_LACKING = "the provider openai needs endpoint, model and dimension"
_SPEAKING = {
    401: "the key is refused",
    403: "the key is refused",
    404: "there is no such address or model",
    413: "the request is too large",
}


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _Rows(msgspec.Struct):
    data: list[_Row]


class _Refused(EmbeddingFailed):
    """Less of it may be taken."""


_ROWS = msgspec.json.Decoder(_Rows)


class OpenAI:
    """The provider "openai". A question and a document are sent alike, as the protocol knows no difference."""

    name = "openai"

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], *, pause: Callable[[float], None] | None = None
    ) -> None:
        """Make ready, without a request.

        Args:
            settings: checked (``flaw_of``).
            environ: where the key is looked up.
            pause: waits between attempts, seconds; for tests.

        Raises:
            EmbeddingFailed: the key is not there, or the settings lack something.
        """
        bound = identity(settings)
        self.model, self.dimension, self.digest = bound.model, bound.dimension, bound.digest
        self.leaves_machine = bound.leaves_machine
        self._address = _address(settings)
        self._batch_texts = settings.batch_texts
        self._batch_characters = settings.batch_characters
        self._headers = _headers(settings.api_key_env, environ)
        self._closed = threading.Event()
        self._requests = Requests()
        self._pause = pause or self._wait

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are to be found; of a long one its first part counts."""
        return self._embed(texts, limits.EMBEDDING_DOCUMENTS_DEADLINE_SECONDS)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are searched for; of a long one its first part counts."""
        return self._embed(texts, limits.EMBEDDING_QUERIES_DEADLINE_SECONDS)

    def close(self) -> None:
        """Let go of what is awaited: a call under way fails, whatever the endpoint does."""
        self._closed.set()
        self._requests.end()

    def _embed(self, texts: Sequence[str], seconds: float) -> Vectors:
        ends = time.monotonic() + seconds
        parts = [first_part(text, limits.EMBEDDING_ENDPOINT_CHARACTERS) for text in texts]
        made = [self._batch(batch, ends) for batch in self._batches(parts)]
        return np.concatenate(made) if made else np.empty((0, self.dimension), dtype=np.float32)

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Give the texts in order, each batch within both bounds; a text over the second goes alone."""
        batch: list[str] = []
        characters = 0
        for text in texts:
            if batch and (len(batch) == self._batch_texts or characters + len(text) > self._batch_characters):
                yield batch
                batch, characters = [], 0
            batch.append(text)
            characters += len(text)
        if batch:
            yield batch

    def _batch(self, texts: list[str], ends: float) -> Vectors:
        body = msgspec.json.encode({"model": self.model, "input": texts, "encoding_format": "float"})
        max_bytes = limits.EMBEDDING_ANSWER_BYTES + limits.EMBEDDING_NUMBER_BYTES * len(texts) * self.dimension
        try:
            answer = self._ask(body, max_bytes, ends)
        except _Refused:
            if len(texts) == 1 and len(texts[0]) <= limits.EMBEDDING_ENDPOINT_LEAST_CHARACTERS:
                raise
            return self._by_halves(texts, ends)
        return self._vectors(answer, len(texts))

    def _by_halves(self, texts: list[str], ends: float) -> Vectors:
        """Ask for less at once: half of the texts, or half of the one text. One that is refused to the end ends it."""
        if len(texts) == 1:
            return self._batch([texts[0][: len(texts[0]) // 2]], ends)
        middle = len(texts) // 2
        return np.concatenate([self._batch(texts[:middle], ends), self._batch(texts[middle:], ends)])

    def _ask(self, body: bytes, max_bytes: int, ends: float) -> Answer:
        """Return an answer that is no failure."""
        reason = "the time is over"
        for attempt in range(limits.EMBEDDING_ATTEMPTS):
            left = ends - time.monotonic()
            if left <= 0 or self._closed.is_set():
                break
            asked_seconds = 0.0
            try:
                seconds = min(left, limits.EMBEDDING_ATTEMPT_SECONDS)
                request = partial(post, self._address, body, self._headers, seconds=seconds, max_bytes=max_bytes)
                answer = self._requests.run(request)
            except Unanswered as error:
                reason = f"the endpoint did not answer ({error})"
            else:
                if answer.status == _OK:
                    return answer
                reason = _reason(answer.status)
                if answer.status in _TOO_MUCH:
                    raise _Refused(reason)
                if answer.status not in _RETRIED:
                    raise EmbeddingFailed(reason)
                asked_seconds = _seconds(answer.retry_after)
            pause = max(asked_seconds, _jitter(attempt))
            if attempt + 1 == limits.EMBEDDING_ATTEMPTS or pause > ends - time.monotonic():
                break
            self._pause(pause)
        raise EmbeddingFailed(reason, retryable=True)

    def _vectors(self, answer: Answer, count: int) -> Vectors:
        if not answer.is_whole:
            raise EmbeddingFailed("the answer is larger than vectors of the dimension can be")
        try:
            rows = _ROWS.decode(answer.body).data
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise EmbeddingFailed("the answer is no list of embeddings") from None
        if len(rows) == count and sorted(row.index for row in rows) != list(range(count)):
            raise EmbeddingFailed("the answer does not tell which vector is whose")
        rows.sort(key=lambda row: row.index)
        return unit_rows([row.embedding for row in rows], count, self.dimension)

    def _wait(self, seconds: float) -> None:
        self._closed.wait(seconds)


def identity(settings: Settings) -> Identity:
    """Return what the provider's vectors are bound to; no key is needed for it.

    Raises:
        EmbeddingFailed: the settings lack something.
    """
    address = _address(settings)
    if settings.model is None or settings.dimension is None:
        raise EmbeddingFailed(_LACKING)
    # Two endpoints may serve two models under one name, so the address is a part of what a vector is bound to.
    decides = msgspec.msgpack.encode((address, limits.EMBEDDING_ENDPOINT_CHARACTERS))
    digest = model_digest(OpenAI.name, settings.model, blake3(decides).digest(), settings.dimension)
    return Identity(
        name=OpenAI.name, model=settings.model, dimension=settings.dimension, digest=digest,
        leaves_machine=not address.is_loopback,
    )  # fmt: skip


def _address(settings: Settings) -> Address:
    address = address_of(settings.endpoint or "")
    if address is None:
        raise EmbeddingFailed(_LACKING)
    return address


def _reason(status: int) -> str:
    """Return what a status means, without a word of the answer: it may quote what was sent."""
    if 300 <= status < 400:  # noqa: PLR2004 - the redirects
        return f"the endpoint answered {status}: redirects are not followed, write the address itself"
    spoken = _SPEAKING.get(status)
    return f"the endpoint answered {status}: {spoken}" if spoken else f"the endpoint answered {status}"


def _jitter(attempt: int) -> float:
    """Return how long to wait after an attempt, counted from 0: anything up to a bound that doubles."""
    most = min(limits.EMBEDDING_BACKOFF_MAX_SECONDS, limits.EMBEDDING_BACKOFF_SECONDS * 2**attempt)
    return random.uniform(0, most)  # noqa: S311 - it spreads attempts and hides nothing


def _seconds(retry_after: str | None) -> float:
    """Return what Retry-After asks, in seconds or as a date; 0 where it asks nothing that can be read."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return 0.0


def _headers(api_key_env: str | None, environ: Mapping[str, str]) -> Mapping[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "engram-journal"}
    if api_key_env is None:
        return headers
    key = environ.get(api_key_env, "").strip()
    if not key:
        raise EmbeddingFailed(f"the environment variable {api_key_env} holds no key: set it")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise EmbeddingFailed(f"the environment variable {api_key_env} holds what cannot be a key")
    return _Headers(headers, Authorization=f"Bearer {key}")


class _Headers(dict[str, str]):
    """Headers that show no value, whoever prints them."""

    def __repr__(self) -> str:
        return f"<headers {', '.join(self)}>"

"""The keys of an issuer: a JWK set, fetched over https or read from a file, kept for a while and no longer.

Only what verifies a signature of RS256, ES256 or EdDSA is taken out of a set. A symmetric key in it is no key here: who
takes one would have a token verified by what everybody can read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from anyio.to_thread import run_sync
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWTError

from journal import limits
from projections.address import Address
from projections.exchange import Unanswered, fetch
from tools.server.logs import note, warn

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")

_KINDS: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
_OK: Final = 200
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

Keys = Mapping[str, PyJWK]


class KeysUnavailable(Exception):
    """The issuer's keys cannot be had now; the text is the kind of failure."""


class KeySet:
    """The keys of one issuer by their ids."""

    def __init__(self, source: Address | Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Make ready, without a request; ``source`` is where the set stands."""
        self._source = source
        self._monotonic = monotonic
        self._lock = anyio.Lock()
        self._keys: Keys | None = None
        self._read_at = 0.0
        self._tried_at: float | None = None  # the set was asked for, with or without success

    async def key(self, key_id: str) -> PyJWK | None:
        """Return the key of an id, or None where the issuer has none of it.

        An id that is not known has the set asked for again, but not more often than the limit says.

        Raises:
            KeysUnavailable: there is no set that is young enough.
        """
        if not self._is_older_than(limits.JWKS_FRESH_SECONDS) and self._keys and key_id in self._keys:
            return self._keys[key_id]
        async with self._lock:
            unknown = self._keys is None or key_id not in self._keys
            if (unknown or self._is_older_than(limits.JWKS_FRESH_SECONDS)) and self._may_ask():
                await self._ask()
            if self._keys is None or self._is_older_than(limits.JWKS_STALE_SECONDS):
                raise KeysUnavailable("no set of keys")
            return self._keys.get(key_id)

    def _is_older_than(self, seconds: float) -> bool:
        return self._keys is None or self._monotonic() - self._read_at >= seconds

    def _may_ask(self) -> bool:
        """Whether the set may be asked for; after the very first time one unknown id is free."""
        return self._tried_at is None or self._monotonic() - self._tried_at >= limits.JWKS_REFETCH_SECONDS

    async def _ask(self) -> None:
        is_first = self._keys is None and self._tried_at is None
        self._tried_at = None if is_first else self._monotonic()
        try:
            self._keys = await run_sync(read_keys, self._source)
        except (KeysUnavailable, Unanswered, OSError) as error:
            self._tried_at = self._monotonic()
            warn("keys of the issuer not read", error=str(error) if isinstance(error, Unanswered) else _kind(error))
            return
        self._read_at = self._monotonic()
        note("keys of the issuer read", count=len(self._keys))


def read_keys(source: Address | Path) -> Keys:
    """Return the keys that stand at a place now.

    Raises:
        KeysUnavailable: there is no JWK set. Unanswered: it is not reached. OSError: its file cannot be read.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            content = file.read(limits.JWKS_MAX_BYTES + 1)
        is_whole = len(content) <= limits.JWKS_MAX_BYTES
    else:
        answer = fetch(
            source, {"Accept": "application/json"}, seconds=limits.JWKS_FETCH_SECONDS, max_bytes=limits.JWKS_MAX_BYTES
        )
        if answer.status != _OK:
            raise KeysUnavailable(f"status {answer.status}")
        content, is_whole = answer.body, answer.is_whole
    if not is_whole:
        raise KeysUnavailable("the set is too large")
    return keys_of(content)


def _kind(error: Exception) -> str:
    return str(error) if isinstance(error, KeysUnavailable) else type(error).__name__


def keys_of(content: bytes) -> dict[str, PyJWK]:
    """Return the usable keys of a JWK set. An id that two of them share names neither.

    Raises:
        KeysUnavailable: it is no JWK set.
    """
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KeysUnavailable("no JSON") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > limits.JWKS_KEYS_MAX:
        raise KeysUnavailable("no JWK set, or one of too many keys")
    named = [(each["kid"], each) for each in listed if isinstance(each, dict) and isinstance(each.get("kid"), str)]
    times = Counter(key_id for key_id, _ in named)
    keys = {key_id: _key(each) for key_id, each in named if times[key_id] == 1}
    return {key_id: key for key_id, key in keys.items() if key is not None}


def _key(jwk: dict[str, Any]) -> PyJWK | None:
    """Return a key that verifies signatures of a known algorithm, or None for any other."""
    kind = jwk.get("kty")
    curve = None if kind == "RSA" else jwk.get("crv")
    algorithm = _KINDS.get((kind, curve)) if isinstance(kind, str) and isinstance(curve, str | None) else None
    if algorithm is None or jwk.get("alg", algorithm) != algorithm or jwk.get("use", "sig") != "sig":
        return None
    public = {name: value for name, value in jwk.items() if name not in _PRIVATE}
    try:
        key = PyJWK(public, algorithm)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key.key, RSAPublicKey) and key.key.key_size < limits.JWKS_RSA_MIN_BITS:
        return None
    return key

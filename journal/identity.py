"""Keyed digests of what must be recognised again without being kept: identities, intents, guards, sessions.

All are keyed BLAKE3 under a subkey of the scope's identity key, one subkey a use. Whoever holds that key can test
guesses against a guard; without it they tell nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from blake3 import blake3

from journal.canonical import canonical_bytes
from journal.normal import nfkc, visible
from journal.scope import Scope
from journal.sealing import subkey

SESSION_BYTES = 16


def event_id(identity_key: bytes, scope: Scope, principal: str, idempotency_key: str) -> bytes:
    """Return the 32-byte event id of an idempotency identity {tenant, workspace, principal, idempotency_key}."""
    return _keyed(identity_key, "event-id", [scope.tenant_id, scope.workspace_id, principal, idempotency_key])


def intent(identity_key: bytes, tool: str, target: str | None, content: Any) -> bytes:
    """Return the 32-byte intent digest of tool, target and content: no clock, no cursor, no receipt is in it."""
    return _keyed(identity_key, "intent", [tool, target, content])


def request(identity_key: bytes, event_id: bytes, intent: bytes) -> bytes:
    """Return the 32-byte digest under which an operation's open confirmation request is found."""
    return _keyed(identity_key, "request", [event_id.hex(), intent.hex()])


def erasure(identity_key: bytes, candidate_id: str) -> bytes:
    """Return the 32-byte event id of the erasure-done event of a candidate: there can be one."""
    return _keyed(identity_key, "erasure", candidate_id)


def rotation(identity_key: bytes, epoch: int) -> bytes:
    """Return the 32-byte event id of the event of a rotation to this epoch: there can be one."""
    return _keyed(identity_key, "rotation", epoch)


def message_erasure(identity_key: bytes, principal: str, message_id: str) -> bytes:
    """Return the 32-byte event id of a principal's erasure of a message: there can be one."""
    return _keyed(identity_key, "message-erasure", [principal, message_id])


def external(identity_key: bytes, principal: str, external_id: str) -> bytes:
    """Return the 32-byte event id of a message that another system knows by an id: it is kept once a principal."""
    return _keyed(identity_key, "external-id", [principal, external_id])


def copied(identity_key: bytes, source_scope_ref: str, record_id: str) -> bytes:
    """Return the 32-byte event id of the copy that a scope has of another scope's record: there can be one."""
    return _keyed(identity_key, "copied", [source_scope_ref, record_id])


def grant(identity_key: bytes, principal: str, tool: str) -> bytes:
    """Return the 32-byte digest by which a scope's journal names the grant of a tool to a principal."""
    return _keyed(identity_key, "grant", [principal, tool])


def guards(identity_key: bytes, payload: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return the guard digests of a payload: its ordered component texts, and its primary component's text alone."""
    texts = {component["component_id"]: normalised(component["text"]) for component in payload["components"]}
    primary = texts[payload["primary_component_id"]]
    return (
        _keyed(identity_key, "guard-texts", list(texts.values())),
        _keyed(identity_key, "guard-primary", primary),
    )


def session(identity_key: bytes, session_id: str) -> bytes:
    """Return the 16-byte digest by which events name a session."""
    return _keyed(identity_key, "session", session_id)[:SESSION_BYTES]


def read_nonce(identity_key: bytes, audit_id: str) -> bytes:
    """Return the 32-byte nonce of the authorization of a read: whoever has the answer and the key derives it again.

    Of a mutation it is drawn: a capture's goes with the content, and must not be had again.
    """
    return _keyed(identity_key, "read-nonce", audit_id)


def answer_seal(identity_key: bytes, answer: Any) -> str:
    """Return what binds an answer to its receipt for whoever has the key: 64 hex digits.

    Digests alone bind nothing against somebody who makes them anew; of what was erased since nothing else is left.
    """
    return _keyed(identity_key, "answer", answer).hex()


def normalised(text: str) -> str:
    """Return a text in NFKC, case-folded, white space collapsed, unseen characters gone: what counts as the same."""
    if text.isascii() and text.isprintable():  # nothing unseen, one form, and no white space but the space
        return " ".join(text.lower().split()) if "  " in text else text.lower().strip(" ")
    return " ".join(nfkc(visible(nfkc(visible(text))).casefold()).split())


def _keyed(identity_key: bytes, use: str, value: Any) -> bytes:
    return blake3(canonical_bytes(value), key=_subkey(identity_key, use)).digest()


@lru_cache(maxsize=1_024)
def _subkey(identity_key: bytes, use: str) -> bytes:
    """Return the subkey for a use; remembered, for a capture takes five of them, and an identity key never changes."""
    return subkey(identity_key, use)

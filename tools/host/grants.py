"""Authorization: said once at the start of a call and looked at again just before it takes effect (CONTRACT §8).

An authorization receipt binds one operation, one resource digest and one scope; it lives at most 300 s and carries the
authorization epoch. Its 256-bit nonce makes every capture's record digest, which contains the receipt's, unguessable
once the body is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal import limits
from journal.clock import Randomness, instant, parse_instant
from journal.digests import receipt_digest, sealed_receipt
from journal.errors import AuthorizationExpired, AuthorizationRevoked, InvalidDigest
from tools.host.capabilities import MAINTAIN

if TYPE_CHECKING:
    from journal.store.port import View
    from tools.host.authority import Authority
    from tools.host.binding import Binding

Receipt = dict[str, Any]


def authorize(
    binding: Binding,
    operation: str,
    resource_digest: str,
    now: int,
    *,
    randomness: Randomness,
    authority: Authority,
    nonce: bytes | None = None,
) -> Receipt:
    """Return a sealed authorization receipt, or refuse: what is not granted is denied.

    Args:
        binding: who calls.
        operation: the tool's name.
        resource_digest: the digest of what the operation is about.
        now: epoch milliseconds.
        randomness: where the nonce is drawn, unless there is one.
        authority: where grants and the authorization epoch are read.
        nonce: the nonce of a read, 32 bytes, which can be derived again; None: draw one.

    Raises:
        Unauthorized: the tool is not granted, or memory is off. AuthorizationRevoked, AuthorizationExpired: it was.
    """
    granted_epoch = authority.permitted(binding, operation, now)
    if nonce is None:
        nonce = randomness.draw(binding.scope, limits.AUTHORIZATION_NONCE_BYTES)
    receipt: Receipt = {
        "schema_version": 1,
        "operation": operation,
        "resource_digest": resource_digest,
        "scope_ref": binding.scope.ref,
        "principal": binding.principal,
        "authorization_epoch": str(granted_epoch),
        "issued_at": instant(now),
        "expires_at": instant(now + limits.RECEIPT_TTL_SECONDS * 1000),
        "nonce": nonce.hex(),
    }
    if binding.agent_id is not None:
        receipt["agent_id"] = binding.agent_id
    return sealed_receipt("authorization", receipt)


def still_authorized(
    authority: Authority, binding: Binding, receipt: Receipt, now: int, view: View | None = None,
    *, checked_at: int | None = None,
) -> Receipt:  # fmt: skip
    """Look at an authorization and the grant behind it again, and return the sealed revalidation receipt.

    Args:
        authority: where grants and the authorization epoch are read.
        binding: who calls.
        receipt: what ``authorize`` returned.
        now: epoch milliseconds.
        view: the view under the scope's lock, where the effect is a commit.
        checked_at: as of ``revalidate``.

    Raises:
        InvalidDigest, AuthorizationExpired, AuthorizationRevoked: it no longer holds.
    """
    check_authorized(authority, binding, receipt, now, view)
    return _revalidated(receipt, now if checked_at is None else checked_at)


def check_authorized(
    authority: Authority, binding: Binding, receipt: Receipt, now: int, view: View | None = None
) -> None:
    """Look at an authorization and the grant behind it again, where nobody wants the receipt of that.

    Raises:
        InvalidDigest, AuthorizationExpired, AuthorizationRevoked: it no longer holds.
    """
    standing = authority.standing(binding.scope, binding.principal, view)
    _check_receipt(receipt, now, standing.epoch)
    if receipt["operation"] != MAINTAIN:
        standing.check(receipt["operation"], now, by_events=binding.by_events)


def revalidate(receipt: Receipt, now: int, epoch: int, *, checked_at: int | None = None) -> Receipt:
    """Look at an authorization again just before it takes effect, and return the sealed revalidation receipt.

    Args:
        receipt: what ``authorize`` returned.
        now: epoch milliseconds.
        epoch: the scope's authorization epoch now.
        checked_at: the instant that the receipt names: of a read its one instant; None: ``now``.

    Raises:
        InvalidDigest: the receipt is not the one that was sealed.
        AuthorizationExpired: it is 300 s old, exactly then too, or the clock was set back before its issue.
        AuthorizationRevoked: the authorization epoch has changed since.
    """
    _check_receipt(receipt, now, epoch)
    return _revalidated(receipt, now if checked_at is None else checked_at)


def _check_receipt(receipt: Receipt, now: int, epoch: int) -> None:
    if receipt_digest("authorization", receipt) != receipt["receipt_digest"]:
        raise InvalidDigest("an authorization receipt does not match its digest")
    age = now - parse_instant(receipt["issued_at"])
    if not -limits.RECEIPT_SKEW_MAX_MILLISECONDS <= age < limits.RECEIPT_TTL_SECONDS * 1000:
        raise AuthorizationExpired(f"the authorization is {age} ms old")
    if receipt["authorization_epoch"] != str(epoch):
        raise AuthorizationRevoked(f"epoch {receipt['authorization_epoch']} is now {epoch}")


def _revalidated(receipt: Receipt, checked_at: int) -> Receipt:
    return sealed_receipt(
        "revalidation",
        {
            "schema_version": 1,
            "authorization_receipt_digest": receipt["receipt_digest"],
            "authorization_epoch": receipt["authorization_epoch"],
            "checked_at": instant(checked_at),
        },
    )

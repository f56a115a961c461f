"""Authorization receipts: what they bind, how long they live, what voids them."""

from typing import Any

import pytest

from journal.clock import SystemRandomness, instant
from journal.digests import receipt_digest
from journal.errors import AuthorizationExpired, AuthorizationRevoked, InvalidDigest, Unauthorized
from journal.scope import Scope
from journal.store.port import View
from tests.tools.host.host_files import loaded
from tools.host.authority import Authority
from tools.host.binding import Binding, bind
from tools.host.capabilities import CAPTURE, FORGET
from tools.host.grants import authorize, revalidate

NOW = 1_755_350_096_789
RESOURCE = "sha256:" + "a" * 64


class Counting:
    """Randomness that can be told apart by scope."""

    def __init__(self) -> None:
        self.drawn: list[tuple[Scope, int]] = []

    def draw(self, scope: Scope, size_bytes: int) -> bytes:
        self.drawn.append((scope, size_bytes))
        return bytes([len(self.drawn)]) * size_bytes


class Held(Authority):
    """An authority of one epoch, under which all that the host file grants is granted."""

    def __init__(self, epoch: int = 0) -> None:
        self._epoch = epoch

    def permitted(self, binding: Binding, tool: str, now: int, view: View | None = None) -> int:
        if tool not in binding.listed_tools:
            raise Unauthorized
        return self._epoch


@pytest.fixture
def binding(tmp_path) -> Binding:
    return bind(loaded(tmp_path))


def authorized(binding: Binding, **changes: Any) -> dict[str, Any]:
    return authorize(binding, CAPTURE, RESOURCE, NOW, **{"randomness": Counting(), "authority": Held(), **changes})


def test_a_receipt_binds_one_operation_one_resource_one_scope(binding):
    randomness = Counting()
    receipt = authorized(binding, randomness=randomness, authority=Held(7))
    assert receipt["operation"] == CAPTURE
    assert receipt["resource_digest"] == RESOURCE
    assert receipt["scope_ref"] == binding.scope.ref
    assert receipt["principal"] == "somebody"
    assert receipt["authorization_epoch"] == "7"
    assert receipt["issued_at"] == instant(NOW)
    assert receipt["expires_at"] == instant(NOW + 300_000)
    assert receipt["nonce"] == "01" * 32
    assert randomness.drawn == [(binding.scope, 32)]
    assert receipt["receipt_digest"] == receipt_digest("authorization", receipt)


def test_two_receipts_differ_by_their_nonce(binding):
    one, two = (authorized(binding, randomness=SystemRandomness()) for _ in range(2))
    assert one["receipt_digest"] != two["receipt_digest"]


@pytest.mark.parametrize("operation", ["save_messages", "engram_memory_maintain", "maintain", ""])
def test_what_is_not_granted_is_denied(binding, operation):
    with pytest.raises(Unauthorized):
        authorize(binding, operation, RESOURCE, NOW, randomness=Counting(), authority=Held())


def test_an_ungranted_tool_and_a_sleeping_host_are_denied(tmp_path):
    fewer = bind(loaded(tmp_path, ('\n    "engram_memory_forget",', "")))
    with pytest.raises(Unauthorized):
        authorize(fewer, FORGET, RESOURCE, NOW, randomness=Counting(), authority=Held())
    asleep = bind(loaded(tmp_path, ("tenant_enabled = true", "tenant_enabled = false")))
    with pytest.raises(Unauthorized):
        authorized(asleep)


@pytest.mark.parametrize("age", [0, 1, 299_999, -5_000])
def test_a_fresh_receipt_is_revalidated(binding, age):
    receipt = authorized(binding)
    again = revalidate(receipt, NOW + age, 0)
    assert again["authorization_receipt_digest"] == receipt["receipt_digest"]
    assert again["checked_at"] == instant(NOW + age)
    assert again["receipt_digest"] == receipt_digest("revalidation", again)


@pytest.mark.parametrize("age", [300_000, 301_000, -5_001])
def test_an_old_receipt_is_expired(binding, age):
    with pytest.raises(AuthorizationExpired):
        revalidate(authorized(binding), NOW + age, 0)


def test_a_raised_epoch_revokes(binding):
    receipt = authorized(binding, authority=Held(3))
    assert revalidate(receipt, NOW, 3)
    for epoch in (2, 4):
        with pytest.raises(AuthorizationRevoked):
            revalidate(receipt, NOW, epoch)


@pytest.mark.parametrize("field", ["operation", "resource_digest", "scope_ref", "nonce", "expires_at", "principal"])
def test_a_changed_receipt_is_none(binding, field):
    with pytest.raises(InvalidDigest):
        revalidate({**authorized(binding), field: "other"}, NOW, 0)

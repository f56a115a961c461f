"""The policy ``http``: an address that the host file names gets the question as JSON and answers with JSON.

One request a decision: no redirect is followed, no proxy asked, nothing tried again. The agent may ask again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from journal import limits
from journal.errors import PolicyUnavailable
from projections.address import Address
from projections.exchange import Requests, Unanswered, post
from tools.host.bearer import TokenPlace, Unreadable
from tools.host.policies.port import PolicyAnswer, PolicyRequest, read_answer

_OK: Final = 200
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "User-Agent": "engram-journal",
}


class HttpPolicy:
    """Asks a service."""

    def __init__(
        self,
        address: Address,
        policy_id: str,
        policy_version: str,
        *,
        timeout_seconds: float,
        bearer: TokenPlace | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Make ready, without a request.

        Args:
            address: over TLS, or on this machine.
            policy_id: the policy's name, as the host file gives it.
            policy_version: its version, likewise.
            timeout_seconds: for one decision, the look-up of the host's name included.
            bearer: the place of the token that is sent with each question; None: none is.
            environ: in which that may be.
        """
        assert address.is_private
        self.policy_id = policy_id
        self.policy_version = policy_version
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._bearer = bearer
        self._environ = environ
        self._requests = Requests()

    def decide(self, request: PolicyRequest) -> PolicyAnswer:
        """Return the service's answer.

        Raises:
            PolicyUnavailable: it is not reached, is too slow, answers with another status than 200, or no answer; or
                there is no token to send.
        """
        ask = partial(
            post,
            self._address,
            msgspec.json.encode(request),
            self._headers(),
            seconds=self._timeout_seconds,
            max_bytes=limits.POLICY_ANSWER_MAX_BYTES,
        )
        try:
            answered = self._requests.run(ask, self._timeout_seconds)
        except Unanswered as error:
            raise PolicyUnavailable(f"the policy's service did not answer ({error})") from None
        if answered.status != _OK:
            raise PolicyUnavailable(f"the policy's service answered {answered.status}")
        if not answered.is_whole:
            raise PolicyUnavailable(f"the policy's answer is over {limits.POLICY_ANSWER_MAX_BYTES} bytes")
        return read_answer(answered.body)

    def _headers(self) -> dict[str, str]:
        """Return what is sent before the question; the token is read anew, for it may have been changed."""
        if self._bearer is None:
            return _HEADERS
        try:
            return {**_HEADERS, "Authorization": f"Bearer {self._bearer.read(self._environ)}"}
        except Unreadable as error:
            raise PolicyUnavailable(f"the token for the policy's service {error.reason}") from None

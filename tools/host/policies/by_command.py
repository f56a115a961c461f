"""The policy ``command``: a program that the host file names is told the question and prints the answer, both JSON."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence

import msgspec

from journal import limits
from journal.errors import PolicyUnavailable
from tools.host.policies.port import PolicyAnswer, PolicyRequest, read_answer
from tools.host.programs import ProgramFailed, answer_of


class CommandPolicy:
    """Asks a program, a new process each time, and so many at once that calls cannot fill the machine with them."""

    def __init__(
        self,
        command: Sequence[str],
        policy_id: str,
        policy_version: str,
        *,
        timeout_seconds: float,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Make ready.

        Args:
            command: the program, absolute or found on ``PATH``, and its arguments.
            policy_id: the policy's name, as the host file gives it.
            policy_version: its version, likewise.
            timeout_seconds: for one decision; a program that takes longer is ended.
            environ: of which the program gets ``tools.host.programs.ENVIRONMENT``.
        """
        self.policy_id = policy_id
        self.policy_version = policy_version
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds
        self._environ = environ
        self._at_once = threading.BoundedSemaphore(limits.POLICY_PROGRAMS_MAX)

    def decide(self, request: PolicyRequest) -> PolicyAnswer:
        """Return the program's answer.

        Raises:
            PolicyUnavailable: it does not start, is too slow, ends with another code than 0, or prints no answer.
        """
        ends = time.monotonic() + self._timeout_seconds
        if not self._at_once.acquire(timeout=self._timeout_seconds):
            raise PolicyUnavailable("too many of the policy's programs run already")
        try:
            printed = answer_of(
                self._command,
                msgspec.json.encode(request) + b"\n",
                self._environ,
                seconds=max(ends - time.monotonic(), 0),
                max_bytes=limits.POLICY_ANSWER_MAX_BYTES,
            )
        except ProgramFailed as error:
            raise PolicyUnavailable(f"the policy's program: {error}") from None
        finally:
            self._at_once.release()
        return read_answer(printed)

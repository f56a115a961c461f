"""The admission policy that stands outside: whether it can be asked, and answers as what the host file says it is.

It is asked about a candidate that does not exist: every digest is that of nothing, and its references say that it is a
probe. No content goes out, and whatever the answer decides, nothing is decided.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Final

from journal.clock import SystemClock, instant
from journal.errors import EngramError, InvalidDigest, PolicyStale
from tools.cli.checkup.finding import Finding, fault, warning
from tools.host.admission import Admission
from tools.host.bearer import TokenPlace, Unreadable
from tools.host.policies.builtin import policy_of
from tools.host.policies.port import PolicyRequest, ask

OUTSIDE: Final = ("command", "http")
PROBE: Final = "engram:probe"  # the evidence_ref of a question that is about nothing

_SETTING: Final = "admission.policy"
_NOTHING: Final = "sha256:" + "0" * 64
_CANDIDATE: Final = "candidate_" + "0" * 64
_SEE: Final = "see that it runs and answers within admission.timeout_seconds"
_ASK_IT: Final = f"{_SEE}; what it writes to standard error is seen by asking it yourself (docs/admission.md)"


def check(admission: Admission, environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yield why the policy cannot decide."""
    if admission.policy == "command":
        missing = _missing_program(admission.command[0], environ)
        if missing is not None:
            yield missing
            return
    if admission.bearer is not None:
        missing = _missing_token(admission.bearer, environ)
        if missing is not None:
            yield missing
            return
    yield from _probed(admission, environ)


def _missing_program(program: str, environ: Mapping[str, str]) -> Finding | None:
    if shutil.which(program, path=environ.get("PATH")) is not None:
        return None
    is_there = os.path.isfile(program)  # noqa: PTH113 - a bare name must stay one
    detail = "the program may not be run" if is_there else "the program is not there"
    mend = "make it executable (chmod u+x)" if is_there else "put it there, or mend admission.command"
    return fault("POLICY_COMMAND_MISSING", "admission.command", f"{detail}, so that every candidate waits", mend)


def _missing_token(bearer: TokenPlace, environ: Mapping[str, str]) -> Finding | None:
    try:
        bearer.read(environ)
    except Unreadable as error:
        subject = f"admission.bearer_{error.key}"
        if error.key == "env":  # the server's environment may be another than this one
            return warning("POLICY_TOKEN_UNREADABLE", subject, error.reason, error.mend)
        return fault("POLICY_TOKEN_UNREADABLE", subject, error.reason, error.mend)
    return None


def _probed(admission: Admission, environ: Mapping[str, str]) -> Iterator[Finding]:
    clock = SystemClock()
    request = PolicyRequest(
        policy_id=admission.policy_id, policy_version=admission.policy_version, record_digest=_NOTHING,
        payload_digest=_NOTHING, candidate_envelope_ref=_CANDIDATE, evidence_digest=_NOTHING, evidence_ref=PROBE,
        deadline=instant(clock.now() + admission.timeout_seconds * 1000),
    )  # fmt: skip
    try:
        ask(policy_of(admission, clock, environ), request, clock)
    except PolicyStale as error:
        yield fault(
            "POLICY_STALE", _SETTING, f"{admission.policy}: {error.detail}",
            "write its own name and version to admission.policy_id and policy_version, and set both clocks right",
        )  # fmt: skip
    except InvalidDigest as error:
        yield fault(
            "POLICY_ANSWER_WRONG", _SETTING, f"{admission.policy}: {error.detail}",
            "have it answer about the record that it is asked about, and seal its answer (docs/admission.md)",
        )  # fmt: skip
    except EngramError as error:
        why = f"{admission.policy}: {error.detail or error.code}; until then every candidate waits"
        mend = _ASK_IT if admission.policy == "command" else _SEE
        yield fault("POLICY_UNAVAILABLE", _SETTING, why, mend)

"""The verifiers that a host file can name, made of what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.host.admission import Verification
    from tools.host.verifiers.port import Verifier


def verifier_of(verification: Verification) -> Verifier | None:
    """Return the verifier that a host file names, or None; no file is looked at."""
    if not verification.roots:
        return None
    from tools.host.verifiers.files import FileVerifier

    return FileVerifier(verification.roots, verification.revocation_epoch)

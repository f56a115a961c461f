"""Why each class of the host's side exists.

None of them is a code of the contract: an agent meets the first as an exit of the command line, never in an
envelope, and the second as a protocol error.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class HostFileError(Exception):
    """The host file cannot be used. It exists so that every command refuses with one sentence and exit code 2.

    The sentence names the file, the key and the mend. It quotes names (a key, a tool, a policy) and numbers, never
    another value: what stands in a host file may be a key pasted into the wrong place.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, file: Path, key: str, reason: str, mend: str) -> None:
        place = f"{file}: {key}" if key else f"{file}:"
        super().__init__(f"{place} {reason}; {mend}")
        self.file = file
        self.key = key


class UntrustedContext(Exception):
    """The call names a context that the host did not bind.

    It exists because a purpose, tenant or principal that the host did not bind is no fault of the arguments and no
    memory answer: it is the JSON-RPC error -32603 with this constant message (CONTRACT §1).
    """

    rpc_code: ClassVar[int] = -32603
    rpc_message: ClassVar[str] = "trusted invocation context unavailable"

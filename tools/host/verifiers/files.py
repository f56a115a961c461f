"""The verifier ``files``: a citation of a file under the host's roots is held against the file's bytes.

``source_ref`` is ``file:`` and an absolute path, or ``file:FOLDER/PATH`` with the name of a checkout's folder, as
``engram cite`` writes it. Whatever link leads there, the file itself must lie under a root, and no link is followed
once that is known: between looking and opening, another file could be put in its place.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from journal import limits
from journal.canonical import canonical_bytes
from journal.digests import DIGEST_PREFIX
from tools.host.verifiers.locators import OutOfTime, Unselected, selected
from tools.host.verifiers.port import Finding, Result, Verified

_SCHEME: Final = "file:"
_CHUNK_BYTES: Final = 1 << 20
NO_FILE: Final = "it cites no file"
OUTSIDE: Final = "it lies outside the roots"
NOT_THERE: Final = "it is not there"
NOT_REGULAR: Final = "it is no regular file"
TOO_LARGE: Final = "it is too large"
UNREADABLE: Final = "it cannot be read"
TOO_SLOW: Final = "there was no time left for it"
OTHER_BYTES: Final = "its bytes are others"
ENDS_BEFORE: Final = "it ends before what is cited"
NOTHING_BEHIND: Final = "there is nothing behind its reference that can be compared"

# Of several files that may be meant, what is said of the one that tells most.
_TELLING: Final = (*(OTHER_BYTES, ENDS_BEFORE, TOO_LARGE, TOO_SLOW, UNREADABLE, NOT_REGULAR, OUTSIDE, NOT_THERE),)


class _Unread(Exception):
    """A file cannot be compared. The text is the reason, one of the constants above."""


class FileVerifier:
    """Compares what is cited with the files of this machine."""

    verifier_id = "engine:files"
    verifier_version = "1"

    def __init__(self, roots: Sequence[Path], revocation_epoch: int = 0) -> None:
        """Make ready; ``roots`` are absolute folders, and need not be there."""
        self._roots = tuple(roots)
        self.revocation_epoch = revocation_epoch

    def verify(self, citations: Sequence[Mapping[str, Any]], evidence: Mapping[str, Any], deadline: float) -> Verified:
        """Return what is found of each citation and of the evidence; ``deadline`` is time.monotonic seconds."""
        files = _Files(self._roots, deadline)
        findings = [self._citation(files, citation) for citation in citations]
        return Verified(trust_class="earned", findings=(*findings, self._evidence(files, citations, evidence)))

    def _citation(self, files: _Files, citation: Mapping[str, Any]) -> Finding:
        locator = citation["locator"]
        result, reason = _compared(
            files, citation["source_ref"], (locator["scheme"], locator["value"]), citation["content_digest"]
        )
        return Finding(citation_id=citation["citation_id"], result=result, reason=reason)

    def _evidence(self, files: _Files, citations: Sequence[Mapping[str, Any]], evidence: Mapping[str, Any]) -> Finding:
        """Compare the evidence: the whole file that it names, or the canonical form of the citations that it names."""
        reference, digest = evidence["evidence_ref"], evidence["evidence_digest"]
        if reference.startswith(_SCHEME):
            result, reason = _compared(files, reference, None, digest)
            return Finding(result=result, reason=reason)
        cited = {citation["citation_id"]: citation for citation in citations}
        if _digest(canonical_bytes([cited[name] for name in evidence["citation_ids"]])) == digest:
            return Finding(result="matched")
        return Finding(result="unverified", reason=NOTHING_BEHIND)


def _compared(files: _Files, reference: str, locator: tuple[str, str] | None, digest: str) -> tuple[Result, str | None]:
    """Compare what a reference and a locator select with a digest; no locator selects the whole file."""
    if not reference.startswith(_SCHEME):
        return "unverified", NO_FILE
    reasons: list[str] = []
    for content in files.of(reference.removeprefix(_SCHEME), reasons):
        try:
            found = content if locator is None else selected(content, *locator, files.deadline)
        except Unselected as error:
            return "unverified", str(error)
        except OutOfTime:
            reasons.append(TOO_SLOW)
            continue
        if found is not None and _digest(found) == digest:
            return "matched", None
        reasons.append(ENDS_BEFORE if found is None else OTHER_BYTES)
    reason = min(reasons, key=_TELLING.index, default=OUTSIDE)
    return ("mismatched" if reason in (OTHER_BYTES, ENDS_BEFORE) else "unverified"), reason


def _digest(content: bytes | bytearray | memoryview) -> str:
    return DIGEST_PREFIX + hashlib.sha256(content).hexdigest()


class _Files:
    """The files under the roots, each read once a verification."""

    def __init__(self, roots: Sequence[Path], deadline: float) -> None:
        self._roots = roots
        self.deadline = deadline
        self._read: dict[Path, bytearray | str] = {}
        self._left_bytes = limits.VERIFIED_TOTAL_MAX_BYTES

    def of(self, named: str, reasons: list[str]) -> Iterator[bytearray]:
        """Yield the contents that a reference may mean; why another cannot be read is put among the reasons.

        Two checkouts of one name may stand under the roots: either may be what is meant.
        """
        for root, path in self._places(named):
            if time.monotonic() >= self.deadline:
                reasons.append(TOO_SLOW)
                return
            if path not in self._read:
                try:
                    self._read[path] = self._content(root, path)
                except _Unread as error:
                    self._read[path] = str(error)
            found = self._read[path]
            if isinstance(found, str):
                reasons.append(found)
            else:
                yield found

    def _places(self, named: str) -> Iterator[tuple[Path, Path]]:
        """Yield each root under which the name may be, and the path: the root's own name may be its first part.

        A reference is in NFC; the name of a file that came from elsewhere may be decomposed on the disk.
        """
        if ".." in PurePosixPath(named).parts or "\0" in named or named in ("", "/"):
            return
        for form in dict.fromkeys((named, unicodedata.normalize("NFD", named))):
            parts = PurePosixPath(form).parts
            for root in self._roots:
                real = root.resolve()
                if not form.startswith("/"):
                    yield root, real / form
                    if parts[0] in (root.name, real.name):
                        yield root, real.joinpath(*parts[1:])
                elif any(Path(form).is_relative_to(each) for each in (root, real)):
                    yield root, Path(form)  # what lies elsewhere is not even looked at

    def _content(self, root: Path, path: Path) -> bytearray:
        """Return a file's bytes.

        Raises:
            _Unread: it is not there, not under the root, not a file, too large, or cannot be read in time.
        """
        try:
            real_root = root.resolve(strict=True)
            inside = path.resolve(strict=True).relative_to(real_root)
            descriptor = _opened(real_root, inside.parts)
        except ValueError:
            raise _Unread(OUTSIDE) from None
        except (FileNotFoundError, NotADirectoryError):
            raise _Unread(NOT_THERE) from None
        except (OSError, RuntimeError):  # RuntimeError: links in a ring
            raise _Unread(UNREADABLE) from None
        try:
            return self._all_of(descriptor)
        except OSError:
            raise _Unread(UNREADABLE) from None
        finally:
            os.close(descriptor)

    def _all_of(self, descriptor: int) -> bytearray:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _Unread(NOT_REGULAR)
        content = bytearray()
        while True:
            if time.monotonic() >= self.deadline:
                raise _Unread(TOO_SLOW)
            chunk = os.read(descriptor, _CHUNK_BYTES)
            content += chunk
            if len(content) > min(limits.VERIFIED_FILE_MAX_BYTES, self._left_bytes):
                raise _Unread(TOO_LARGE)
            if not chunk:
                self._left_bytes -= len(content)
                return content  # as it is: copying it would take its size again


def _opened(root: Path, parts: Sequence[str]) -> int:
    """Open a file below a folder step by step, no step over a link; a FIFO is opened without waiting."""
    base = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    folder = os.open(root, base | os.O_DIRECTORY)
    try:
        for name in parts[:-1]:
            below = os.open(name, base | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(parts[-1] if parts else ".", base | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)

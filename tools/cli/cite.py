"""engram cite: ready citation and evidence objects for a file, because a model cannot compute SHA-256 (CONTRACT §7).

``content_digest`` is over the exact bytes of the lines that the locator selects, their line ends included and nothing
normalised; ``evidence_digest`` is over the whole file. A line ends with LF, or with the file. Lines of several files
have no one thing behind them: their evidence is the citations themselves, and its digest is over their canonical form.

A reference is the same wherever the command is run: inside a git checkout it begins with the checkout's folder, so that
it holds on every machine, and elsewhere it is the absolute path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from journal import limits
from journal.canonical import canonical_bytes
from journal.digests import DIGEST_PREFIX
from tools.cli.failures import CannotRun
from tools.cli.options import config_option, json_option
from tools.cli.output import as_json, give
from tools.host.verifiers.locators import LINE, line_count, lines

_RANGE = re.compile(r"(?P<file>.+):(?P<first>\d{1,12})(?:-(?P<last>\d{1,12}))?", re.DOTALL)
_LOOKS_LIKE_RANGE = re.compile(r".+:[\d-]*-?[\d-]*")
_SHORT_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Lines:
    """What is cited: lines ``first`` to ``last`` of a file, counted from 1; None: from the first, to the last."""

    file: Path
    first: int | None = None
    last: int | None = None


def parse(what: str) -> Lines:
    """Return what ``FILE``, ``FILE:A`` or ``FILE:A-B`` names; a file whose own name ends so is itself.

    Raises:
        CannotRun: the range starts at 0 or is reversed.
    """
    found = _RANGE.fullmatch(what)
    if found is None or os.path.lexists(what):
        return Lines(Path(what))
    first = int(found["first"])
    last = int(found["last"]) if found["last"] else first
    if first < 1:
        raise CannotRun(f"{what}: lines are counted from 1")
    if last < first:
        raise CannotRun(f"{what}: the range is reversed; write {found['file']}:{last}-{first}")
    return Lines(Path(found["file"]), first, last)


def cite(*selections: str) -> dict[str, Any]:
    """Return ``{citation, citations, evidence}`` for a file or some of its lines, without ``citation`` for several.

    Raises:
        CannotRun: in one sentence, why it cannot be cited.
    """
    cited = {each.citation["citation_id"]: each for each in map(_cited, selections)}  # the same lines twice are one
    if len(cited) > limits.CITATIONS_MAX:
        raise CannotRun(f"a payload holds {limits.CITATIONS_MAX} citations at most")
    citations = [each.citation for each in cited.values()]
    first = next(iter(cited.values()))
    if all(each.citation["source_ref"] == first.citation["source_ref"] for each in cited.values()):
        reference, digest = first.citation["source_ref"], first.file_digest
    else:
        content = canonical_bytes(citations)
        reference, digest = f"citations:{_short(content)}", _digest(content)
    evidence = {"evidence_ref": reference, "evidence_digest": digest, "citation_ids": list(cited)}
    one = {"citation": citations[0]} if len(citations) == 1 else {}
    return {**one, "citations": citations, "evidence": evidence}


@dataclass(frozen=True, slots=True)
class _Cited:
    citation: dict[str, Any]
    file_digest: str


def _cited(what: str) -> _Cited:
    selection = parse(what)
    content = _read(selection.file)
    count = line_count(content)
    first, last = selection.first or 1, selection.last or count
    cited = lines(content, first, last)
    if cited is None:
        raise CannotRun(f"{selection.file}: line {last} is asked for, but it has {count}")
    source = _source_ref(selection.file)
    locator = {"scheme": LINE, "value": f"{first}-{last}"}
    citation = {
        "citation_id": f"citation:{_short(json.dumps([source, locator]).encode())}",
        "source_ref": source,
        "locator": locator,
        "content_digest": _digest(cited),
    }
    return _Cited(citation, _digest(content))


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_SHORT_DIGITS]


def _digest(content: bytes | memoryview) -> str:
    return DIGEST_PREFIX + hashlib.sha256(content).hexdigest()


def _read(file: Path) -> bytes:
    try:
        # Looked at before it is opened: opening a FIFO would wait for ever.
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise CannotRun(f"{file}: is a folder; cite a file in it")
        if not stat.S_ISREG(mode):
            raise CannotRun(f"{file}: is no regular file")
        with file.open("rb") as opened:
            content = opened.read(limits.CITE_FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise CannotRun(f"{file}: does not exist{_hint(file)}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no file name"
        raise CannotRun(f"{file}: cannot be read ({reason})") from None
    if len(content) > limits.CITE_FILE_MAX_BYTES:
        raise CannotRun(f"{file}: is over {limits.CITE_FILE_MAX_BYTES} bytes")
    if not content:
        raise CannotRun(f"{file}: is empty; there is nothing to cite")
    if b"\0" in content:
        raise CannotRun(f"{file}: is not text, and lines are what a citation names")
    return content


def _hint(file: Path) -> str:
    return "; a range is written FILE:A-B" if _LOOKS_LIKE_RANGE.fullmatch(str(file)) else ""


def _source_ref(file: Path) -> str:
    """Return ``file:`` and the path: from the git checkout's folder on where the file lies in one, else absolute."""
    path = Path.cwd() / file
    path = path.parent.resolve() / path.name  # one name, by whatever links and dots it was reached
    root = next((folder for folder in path.parents if folder.name and _is_checkout(folder)), None)
    shown = path if root is None else path.relative_to(root.parent)
    try:
        reference = unicodedata.normalize("NFC", f"file:{shown.as_posix()}")
        size_bytes = len(reference.encode())
    except UnicodeEncodeError:
        raise CannotRun("the file's name is not UTF-8, and a reference must be") from None
    if size_bytes > limits.REF_MAX_BYTES:
        raise CannotRun(f"{shown}: the reference would be over {limits.REF_MAX_BYTES} bytes; copy it to a shorter path")
    return reference


def _is_checkout(folder: Path) -> bool:
    """Whether a folder is the root of a git checkout; a worktree's and a submodule's .git is a file."""
    git = folder / ".git"
    try:
        return git.is_file() or (git / "HEAD").is_file()
    except OSError:  # a folder that may not be searched
        return False


@click.command()
@click.argument("selections", metavar="FILE[:A-B]...", nargs=-1, required=True)
@config_option
@json_option
def command(selections: tuple[str, ...]) -> None:
    """Print citation and evidence objects for files or for some of their lines, counted from 1.

    Several arguments give several citations and one evidence over all of them.

    source_ref is the same wherever this is run: inside a git checkout it is file:FOLDER/PATH, the name of the
    checkout's folder and the path from its root; elsewhere it is file: and the absolute path.
    """
    cited = cite(*selections)
    evidence = f"evidence:\n{as_json(cited['evidence'])}"
    one = cited.get("citation")
    citations = f"citations:\n{as_json(cited['citations'])}" if one is None else f"citation:\n{as_json(one)}"
    give(cited, lambda: f"{citations}\n\n{evidence}")

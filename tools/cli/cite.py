"""engram cite: ready citation and evidence objects for a file, because a model cannot compute SHA-256 (CONTRACT §7).

``content_digest`` is over the exact bytes of the lines that the locator selects, their line ends included and nothing
normalised; ``evidence_digest`` is over the whole file. A line ends with LF, or with the file.
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
from journal.digests import DIGEST_PREFIX
from tools.cli.failures import CannotRun
from tools.cli.options import config_option, json_option
from tools.cli.output import as_json, give

_RANGE = re.compile(r"(?P<file>.+):(?P<first>\d{1,12})(?:-(?P<last>\d{1,12}))?", re.DOTALL)
_LOOKS_LIKE_RANGE = re.compile(r".+:[\d-]*-?[\d-]*")
_CITATION_ID_DIGITS = 16


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


def cite(what: str) -> dict[str, Any]:
    """Return ``{citation, evidence}`` for a file or some of its lines.

    Raises:
        CannotRun: in one sentence, why it cannot be cited.
    """
    selection = parse(what)
    content = _read(selection.file)
    lines = content.split(b"\n")
    ended = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    first, last = selection.first or 1, selection.last or len(ended)
    if last > len(ended):
        raise CannotRun(f"{selection.file}: line {last} is asked for, but it has {len(ended)}")
    source = _source_ref(selection.file)
    locator = {"scheme": "line", "value": f"{first}-{last}"}
    name = hashlib.sha256(json.dumps([source, locator]).encode()).hexdigest()[:_CITATION_ID_DIGITS]
    citation = {
        "citation_id": f"citation:{name}",
        "source_ref": source,
        "locator": locator,
        "content_digest": _digest(b"".join(ended[first - 1 : last])),
    }
    evidence = {"evidence_ref": source, "evidence_digest": _digest(content), "citation_ids": [citation["citation_id"]]}
    return {"citation": citation, "evidence": evidence}


def _digest(content: bytes) -> str:
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
    """Return ``file:`` and the path: relative to the working directory where it lies in it, else absolute."""
    path = Path.cwd() / file
    if ".." in path.parts:
        path = path.resolve()  # a link on the way would make another file of it if the dots were only crossed out
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    try:
        reference = unicodedata.normalize("NFC", f"file:{shown.as_posix()}")
        size_bytes = len(reference.encode())
    except UnicodeEncodeError:
        raise CannotRun("the file's name is not UTF-8, and a reference must be") from None
    if size_bytes > limits.REF_MAX_BYTES:
        raise CannotRun(f"{shown}: the reference would be over {limits.REF_MAX_BYTES} bytes; cite it from nearer by")
    return reference


@click.command()
@click.argument("what", metavar="FILE[:A-B]")
@config_option
@json_option
def command(what: str) -> None:
    """Print citation and evidence objects for a file or for some of its lines, counted from 1."""
    cited = cite(what)
    give(cited, lambda: f"citation:\n{as_json(cited['citation'])}\n\nevidence:\n{as_json(cited['evidence'])}")

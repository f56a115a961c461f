"""The targets: each takes any bytes, and raises AssertionError or whatever the code under it should not have raised.

An error that is declared is an answer. What comes out without one must hold together: it can be written again, and
reads the same then.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from blake3 import blake3

from journal import keyringfile, limits
from journal.canonical import canonical_bytes
from journal.errors import InvalidSchema, JournalCorrupt, RegistryVersionUnavailable, StalePage, StoreUnavailable
from journal.frames import decode_frame, encode_frame
from journal.keyringfile import KeyringFile
from journal.scope import Scope
from journal.slots import decode_slot, encode_slot
from projections.lexical.tokens import Tokenizer, document_terms, query_terms
from tools.host.exceptions import HostFileError
from tools.host.file import load_host_file
from tools.memory.arguments import capture_arguments
from tools.memory.page_cursor import PageCursors, PagePosition
from tools.server.decoding import Flaw, decode
from tools.server.outline import Outline
from tools.server.refusals import refusal
from tools.server.strict import Clean, Refused, read_line

Target = Callable[[bytes], None]

_KEY: Final = bytes(range(32))
_SCOPE: Final = Scope.of("tenant", "work")
_CHECK_BYTES: Final = 16


def read_one_line(raw: bytes) -> None:
    """A verdict on every line; what is clean means the same to the standard library, and the rest can be answered."""
    line = raw.replace(b"\n", b" ")
    verdict = read_line(line)
    if isinstance(verdict, Clean):
        assert json.loads(line) == verdict.message
        msgspec.json.encode(verdict.message)
    elif isinstance(verdict, Refused):
        answer = msgspec.json.encode(refusal(verdict, ("engram_memory_get",), lambda: "audit"))
        assert json.loads(answer)["id"] == verdict.request_id
    _outline_in_pieces(line)


def _outline_in_pieces(line: bytes) -> None:
    """An outline is the same however the line comes: whole, in two, or byte by byte."""
    cuts = [[line], [line[: len(line) // 2], line[len(line) // 2 :]], [line[at : at + 1] for at in range(len(line))]]
    told = []
    for pieces in cuts:
        outline = Outline()
        for piece in pieces:
            outline.feed(piece)
        told.append(
            (
                outline.request_id,
                outline.method,
                outline.tool,
                outline.closed,
                outline.trailing,
                outline.arguments_bytes,
            )
        )
    assert told[0] == told[1] == told[2]


def frame(raw: bytes) -> None:
    """A frame is a header, or refused; a header is written as a frame that says the same."""
    try:
        header = decode_frame(raw)
    except (JournalCorrupt, RegistryVersionUnavailable):
        return
    assert decode_frame(encode_frame(header)) == header


def slot(raw: bytes) -> None:
    """A slot is whole or none, also where its check holds."""
    decode_slot(raw)
    body = raw[: limits.SLOT_BYTES - _CHECK_BYTES].ljust(limits.SLOT_BYTES - _CHECK_BYTES, b"\0")
    found = decode_slot(body + blake3(body).digest(_CHECK_BYTES))
    assert found is None or decode_slot(encode_slot(found)) == found


def capture(raw: bytes) -> None:
    """Arguments fit or do not. The first byte chooses a place in sound ones; the rest is the JSON put there."""
    try:
        value = decode(raw[1:])
    except Flaw:
        return
    places = _places(_sound_capture())
    arguments = _sound_capture()
    *steps, last = places[raw[0] % len(places)]
    inner: Any = arguments
    for step in steps:
        inner = inner[step]
    inner[last] = value
    for candidate in (arguments, value):
        try:
            fitting = capture_arguments(candidate)
        except InvalidSchema:
            continue
        canonical_bytes(msgspec.to_builtins(fitting))


def page_cursor(raw: bytes) -> None:
    """A cursor is ours and says what we wrote, or it is stale."""
    cursors = PageCursors(_KEY, query="q", purpose_ref="p", policy=("lexical",), principal="one")
    for text in (raw.decode("latin-1"), raw.decode("utf-8", "surrogateescape"), raw.decode("utf-8", "replace")):
        try:
            cursors.decode(text)
        except StalePage:
            continue
        raise AssertionError("a cursor that we did not make")
    padded = raw[:20].ljust(20, b"\0")
    numbers = (
        int.from_bytes(padded[:4], "big"),
        int.from_bytes(padded[4:12], "big"),
        int.from_bytes(padded[12:], "big"),
    )
    assert cursors.decode(cursors.encode(PagePosition(*numbers))) == PagePosition(*numbers)


def tokens(raw: bytes) -> None:
    """Any text has terms: none empty, the same each time, with a memory as without one."""
    text = raw.decode("utf-8", "replace")
    terms = document_terms(text)
    assert all(terms)
    assert terms == document_terms(text)
    tokenizer = Tokenizer()
    assert tokenizer.document_terms(text) == terms == tokenizer.document_terms(text)
    assert all(query_terms(text))


def host_file(raw: bytes) -> None:
    """A host file holds, or one sentence on one line says why not."""
    path = _folder() / "engram.toml"
    path.write_bytes(raw)
    path.chmod(0o600)
    told = ""
    try:
        load_host_file(path)
    except HostFileError as error:
        told = str(error)
    assert len(told.splitlines()) <= 1, repr(told)
    told.encode()


def keyring(raw: bytes) -> None:
    """A keyring file opens or is refused, also where its check holds."""
    declared = (JournalCorrupt, RegistryVersionUnavailable, StoreUnavailable)
    versions = [raw]
    try:
        file = msgspec.msgpack.decode(raw, type=KeyringFile)
        blank = msgspec.structs.replace(file, check=b"")
        check = blake3(msgspec.msgpack.encode(blank)).digest(_CHECK_BYTES)
        versions.append(msgspec.msgpack.encode(msgspec.structs.replace(file, check=check)))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass
    for version in versions:
        for read in (
            lambda each: keyringfile.decode(_SCOPE, each, _KEY),
            lambda each: keyringfile.check_root(each, _KEY),
        ):
            try:
                read(version)
            except declared:
                continue


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="engram-fuzz-"))


def _sound_capture() -> dict[str, Any]:
    digest = "sha256:" + "a" * 64
    return {
        "idempotency_key": "key-of-at-least-16-bytes",
        "payload": {
            "schema_version": 2,
            "purpose_ref": "purpose:work",
            "valid_time": {"t": 1, "t_end": 2},
            "components": [{"component_id": "c", "kind": "decision", "text": "text", "citation_ids": ["s"]}],
            "primary_component_id": "c",
            "primary_event": {"at": 1, "type_ref": "event:decided", "citation_id": "s"},
            "citations": [{
                "citation_id": "s", "source_ref": "source:a", "locator": {"scheme": "line", "value": "1"},
                "content_digest": digest, "observed_at": "2026-08-16T12:34:56.789Z",
            }],
            "retention": {"derivative_rule": "retain", "expires_at": "2026-08-16T12:34:56.789Z"},
            "reconciliation": {"family_refs": ["a"]},
        },
        "evidence": {"evidence_ref": "e", "evidence_digest": digest, "citation_ids": ["s"], "attestation": "seen"},
    }  # fmt: skip


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return [found for step, inner in members for found in [(*path, step), *_places(inner, (*path, step))]]


TARGETS: Final[dict[str, Target]] = {
    "read_line": read_one_line,
    "frame": frame,
    "slot": slot,
    "capture": capture,
    "page_cursor": page_cursor,
    "tokens": tokens,
    "host_file": host_file,
    "keyring": keyring,
}

"""The recorded calls carried out on a simulated disk, one by one.

What is not understood is refused loudly, never passed over: a call that writes in a way that is not modelled, a shared
writable map of anything but LMDB's lock file, a second process. So a recorder that misses a write is found here or by
the comparison of all files at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.crash.disk import LOCK_FILE, Disk, File, Folder, Node
from tests.crash.trace import FLUSHES, SIZES, WRITES, Call

ACK = b"ack "
_UNKNOWN_WAYS = {"sendfile", "copy_file_range", "splice", "sync_file_range", "syncfs", "sync", "openat2"}
_FORBIDDEN = {"io_uring_setup", "io_submit", "open_by_handle_at", "fork", "vfork", "symlink", "symlinkat", "truncate"}
_OPENING = {"open": 1, "openat": 2, "creat": 1}


@dataclass(slots=True)
class Opened:
    """An open file description."""

    node: Node
    name: str
    flags: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One call as it concerns the files: a change or a flush, or an acknowledgement."""

    kind: str  # "change", "rename", "flush" or "ack"
    said: bytes = b""


class TracedDisk:
    """A disk, and the descriptors of the one process that writes to it."""

    def __init__(self, root: Path, *, deaf_to: str | None = None) -> None:
        """Follow what happens under a directory that was empty at first.

        ``deaf_to`` names the flushes that do nothing, for a control that must fail: "all", or by what is flushed
        "journal", "dsync", "slots", "folders".
        """
        self.disk = Disk()
        self._root = os.fsencode(root.resolve())
        self._deaf_to = deaf_to
        self._opened: dict[int, Opened] = {}

    def steps(self, calls: Iterable[Call]) -> Iterator[Step]:
        """Carry out calls; yield after each that changed or flushed something, or acknowledged."""
        for call in calls:
            step = self._step(call)
            if step is not None:
                yield step

    def _step(self, call: Call) -> Step | None:
        name = call.name
        if name in _FORBIDDEN or (name in ("clone", "clone3") and "CLONE_THREAD" not in call.arguments):
            raise AssertionError(f"{name} is not followed")
        if name in _OPENING:
            return self._open(call)
        if name in WRITES:
            return self._write(call)
        if name in FLUSHES or name in SIZES:
            return self._flush_or_resize(call)
        if name.startswith(("rename", "link", "unlink", "rmdir", "mkdir")):
            return self._rename(call)
        self._descriptor(call)
        return None

    # --- places ----------------------------------------------------------------------------------

    def _place(self, folder_word: str | None, raw: bytes) -> tuple[Folder, str] | None:
        """Return the directory and the name that a path means, None where it is not under the root."""
        at: Node = self.disk.root
        if not raw.startswith(b"/"):
            if folder_word is None or folder_word == "AT_FDCWD":
                return None
            opened = self._opened.get(int(folder_word))
            if opened is None:
                return None
            at, path = opened.node, raw
        elif raw.startswith(self._root + b"/"):
            path = raw[len(self._root) + 1 :]
        else:
            return None
        *above, last = [part for part in path.split(b"/") if part not in (b"", b".")]
        for part in above:
            assert isinstance(at, Folder)
            at = at.seen[os.fsdecode(part)]
        assert isinstance(at, Folder)
        return at, os.fsdecode(last)

    def _open(self, call: Call) -> Step | None:
        words = call.words()
        at_word = words[0] if call.name == "openat" else None
        flags = "O_CREAT|O_TRUNC|O_WRONLY" if call.name == "creat" else words[_OPENING[call.name]]
        self._opened.pop(call.result, None)
        if call.strings[0] == self._root:
            self._opened[call.result] = Opened(self.disk.root, ".", flags)
            return None
        place = self._place(at_word, call.strings[0])
        if place is None:
            return None
        folder, name = place
        node, step = folder.seen.get(name), None
        assert "O_TMPFILE" not in flags
        if node is None:
            assert "O_CREAT" in flags, f"{name} was made by a call that is not followed"
            node, step = File(), Step("change")
            self.disk.name(call.ended, (folder, name, node))
        elif "O_TRUNC" in flags and isinstance(node, File):
            node.resize(call.ended, 0)
            step = Step("change")
        self._opened[call.result] = Opened(node, name, flags)
        return step

    # --- bytes -----------------------------------------------------------------------------------

    def _write(self, call: Call) -> Step | None:
        words, raw = call.words(), b"".join(call.strings)
        fd = int(words[0])
        opened = self._opened.get(fd)
        if opened is None:
            return Step("ack", raw) if call.name == "write" and raw.startswith(ACK) else None
        assert call.name not in _UNKNOWN_WAYS, f"{call.name} is not followed"
        file = opened.node
        assert isinstance(file, File)
        raw = raw[: call.result]
        if call.name.startswith("pwrite"):
            *_, offset_word, last = words
            assert call.name != "pwritev2" or last == "0", "flags of a write are not followed"
            offset = int(offset_word if call.name == "pwritev2" else last)
        else:
            offset = file.size if "O_APPEND" in opened.flags else opened.position
            opened.position = offset + len(raw)
        touched = file.write(call.ended, offset, raw)
        if ("O_DSYNC" in opened.flags or "O_SYNC" in opened.flags) and self._hears("dsync"):
            file.flush_now(touched)
        return Step("change")

    def _flush_or_resize(self, call: Call) -> Step | None:
        words = call.words()
        if call.name == "msync":
            raise AssertionError("a map is flushed: files are written by way of memory, which is not recorded")
        opened = self._opened.get(int(words[0])) if words[0].isdigit() else None
        if opened is None:
            return None
        assert call.name not in _UNKNOWN_WAYS, f"{call.name} is not followed"
        node = opened.node
        if call.name in SIZES:
            assert isinstance(node, File)
            if call.name == "fallocate":
                assert words[1] == "0"
                node.resize(call.ended, max(node.size, int(words[2]) + int(words[3])))
            else:
                node.resize(call.ended, int(words[1]))
            return Step("change")
        if isinstance(node, Folder):
            if self._hears("folders"):
                self.disk.flush_folder(node, call.began)
        elif self._hears({"data.mdb": "journal"}.get(opened.name, "slots" if ".slots" in opened.name else "files")):
            node.flush(call.began)
        return Step("flush")

    def _hears(self, what: str) -> bool:
        return self._deaf_to not in ("all", what)

    # --- names -----------------------------------------------------------------------------------

    def _rename(self, call: Call) -> Step | None:
        words, when = call.words(), call.ended
        apart = call.name.endswith(("at", "at2"))
        first = self._place(words[0] if apart else None, call.strings[0])
        if call.name.startswith(("rename", "link")):
            second = self._place(words[2] if apart else None, call.strings[1])
            assert (first is None) == (second is None), "a file moves over the border of what is followed"
            if first is None or second is None:
                return None
            node = first[0].seen[first[1]]
            assert call.name != "renameat2" or words[-1] == "0"
            old = [(*first, None)] if call.name.startswith("rename") else []
            self.disk.name(when, *old, (*second, node))
            return Step("rename", os.fsencode(second[1]))
        if first is None:
            return None
        self.disk.name(when, (*first, Folder() if call.name.startswith("mkdir") else None))
        return Step("change")

    # --- descriptors -----------------------------------------------------------------------------

    def _descriptor(self, call: Call) -> None:
        words = call.words()
        if call.name == "mmap":
            self._check_map(words)
            return
        fd = int(words[0], 0) if re.fullmatch(r"\d+|0x[0-9a-f]+", words[0]) else -1
        assert call.name != "close_range" or not any(each >= fd for each in self._opened), "close_range is not followed"
        opened = self._opened.get(fd)
        if call.name in ("dup", "dup2", "dup3") or (call.name == "fcntl" and "F_DUPFD" in words[1]):
            self._opened.pop(call.result, None)
            if opened is not None:
                self._opened[call.result] = opened  # one description: they share the position
        elif opened is None:
            return
        elif call.name == "close":
            del self._opened[fd]
        elif call.name == "lseek":
            opened.position = call.result
        elif call.name in ("read", "readv"):
            opened.position += call.result
        else:
            assert call.name not in _UNKNOWN_WAYS, f"{call.name} is not followed"

    def _check_map(self, words: list[str]) -> None:
        opened = self._opened.get(int(words[4])) if words[4].isdigit() else None
        shared = opened is not None and "PROT_WRITE" in words[2] and "MAP_SHARED" in words[3]
        assert not shared or (opened is not None and opened.name == LOCK_FILE), "a file is written by way of memory"


def in_order(calls: Iterable[Call]) -> list[Call]:
    """Return calls by the time at which they count: an acknowledgement as it begins, anything else as it ends."""
    return sorted(calls, key=lambda call: call.began if is_ack(call) else call.ended)


def is_ack(call: Call) -> bool:
    """Whether a call writes an acknowledgement."""
    return call.name == "write" and call.strings[0].startswith(ACK)


def differences(folder: Folder, place: Path) -> list[str]:
    """Return what is seen on the simulated disk and not in the real directory, or the other way round."""
    real = {each.name: each for each in place.iterdir()}
    found = [f"{place / name}: on one side only" for name in real.keys() ^ folder.seen.keys()]
    for name in sorted(real.keys() & folder.seen.keys()):
        node = folder.seen[name]
        if isinstance(node, Folder):
            found += differences(node, real[name])
            continue
        raw = real[name].read_bytes()
        if len(raw) != node.size:
            found.append(f"{place / name}: {node.size} bytes recorded, {len(raw)} there")
        elif name != LOCK_FILE and raw[: len(node.seen)] != bytes(node.seen[: len(raw)]):
            found.append(f"{place / name}: other bytes")
        elif name != LOCK_FILE and any(raw[len(node.seen) :]):
            found.append(f"{place / name}: bytes that were not recorded")
    return found

"""The system calls of a process, recorded by strace: every one by which a file may change or be flushed.

Strings are recorded whole and in hexadecimal. A call that another thread's interrupts stands on two lines; it has then
the line on which it began and the one on which it ended.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

STRACE = shutil.which("strace")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_WHOLE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)(?: .*)?$")
_BEGUN = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_TOLD = re.compile(r"^\d+ +(?:\+\+\+|---) ")
_STRING_MAX_BYTES = 1 << 26

WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
FLUSHES = ("fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync")
SIZES = ("ftruncate", "truncate", "fallocate")
NAMES = (
    "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat",
    "symlink", "symlinkat",
)  # fmt: skip
DESCRIPTORS = ("open", "openat", "openat2", "creat", "close", "close_range", "dup", "dup2", "dup3", "fcntl", "lseek")
OTHERS = (
    "read", "readv", "mmap", "sendfile", "copy_file_range", "splice", "tee", "vmsplice", "io_uring_setup", "io_submit",
    "chdir", "fchdir", "fork", "vfork", "clone", "clone3", "open_by_handle_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One system call that succeeded: its lines in the record, its arguments as text, its strings, and its result."""

    began: int
    ended: int
    name: str
    arguments: str  # the strings cut out
    strings: tuple[bytes, ...]
    result: int

    def words(self) -> list[str]:
        """Return the arguments, apart from what is structured."""
        return [word.strip() for word in self.arguments.split(",")]


def record(command: Sequence[str], file: Path, environment: Mapping[str, str], cwd: Path) -> bytes:
    """Run a command to its end and record its calls in a file; return what it printed.

    Raises:
        AssertionError: it failed.
    """
    assert STRACE is not None
    names = ",".join(f"?{name}" for name in (*WRITES, *FLUSHES, *SIZES, *NAMES, *DESCRIPTORS, *OTHERS))
    options = ["-f", "--seccomp-bpf", "-qq", "-xx", "-s", str(_STRING_MAX_BYTES), "-e", "signal=none"]
    # What was read is of no interest, and would be most of the record.
    options += ["-e", f"trace={names}", "-e", "raw=read,readv", "-o", str(file)]
    done = subprocess.run(
        [STRACE, *options, *command], capture_output=True, check=False, env=environment, cwd=cwd, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4_000:].decode(errors="replace")
    return done.stdout


def calls(file: Path) -> Iterator[Call]:
    """Yield the calls of a record that succeeded, in the order in which they ended."""
    begun: dict[str, tuple[int, str]] = {}
    with file.open(encoding="ascii") as lines:
        for number, line in enumerate(lines):
            text, began = line.rstrip("\n"), number
            if (half := _BEGUN.match(text)) is not None:
                begun[half[1]] = (number, text.removesuffix(" <unfinished ...>"))
                continue
            if (rest := _RESUMED.match(text)) is not None:
                began, first = begun.pop(rest[1])
                text = first + rest[3]
            found = _WHOLE.match(text)
            if found is None:
                assert _TOLD.match(text), f"line {number} of the record cannot be read: {text[:200]}"
                continue
            if found[4] == "?" or (result := int(found[4], 0)) < 0:
                continue
            yield _call(began, number, found[2], found[3], result)


def kept(recorded: Sequence[Call], file: Path) -> None:
    """Write calls to a file, to be read faster than they are from a record."""
    file.write_bytes(msgspec.msgpack.encode(recorded))


def restored(file: Path) -> list[Call]:
    """Return the calls that ``kept`` wrote."""
    return msgspec.msgpack.decode(file.read_bytes(), type=list[Call])


def _call(began: int, ended: int, name: str, text: str, result: int) -> Call:
    strings = []
    for found in _STRING.finditer(text):
        assert not found[2], f"a string of {name} was recorded in part"
        strings.append(bytes.fromhex(found[1].replace("\\x", "")))
    return Call(began, ended, name, _STRING.sub('""', text), tuple(strings), result)

"""Being asked before each of another process's system calls, by the kernel's own means (seccomp's user notification).

A process that called ``watch`` has each of the calls that it named held until whoever has the listener answers:
let it happen, or have it fail with an error. Every thread and every child of it is held alike, in one order. Two C
structures cross, both of this machine's byte order:

    asked, 80 bytes                            answered, 24 bytes
      0  id u64                                  0  id u64
      8  thread u32                              8  value i64
     12  flags u32                              16  error i32, negative
     16  call number i32, architecture u32      20  flags u32: 1 lets it happen
     24  instruction pointer u64
     32  arguments u64 x 6
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

NUMBERS = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "mmap": 9,
    "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "msync": 26, "sendfile": 40, "fcntl": 72,
    "flock": 73, "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77, "getdents64": 217, "rename": 82,
    "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "chmod": 90, "fchmod": 91,
    "statfs": 137, "fstatfs": 138, "openat": 257, "mkdirat": 258, "newfstatat": 262, "unlinkat": 263, "renameat": 264,
    "linkat": 265, "faccessat": 269, "fallocate": 285, "preadv": 295, "pwritev": 296, "renameat2": 316,
    "copy_file_range": 326, "preadv2": 327, "pwritev2": 328, "statx": 332, "faccessat2": 439,
}  # fmt: skip
"""The calls by which a file is looked at, changed, flushed or named, and their numbers on x86-64."""

_NAMES = {number: name for name, number in NUMBERS.items()}
_ARCHITECTURE = 0xC000003E  # x86-64
_SECCOMP, _FILTER_MODE, _WITH_LISTENER, _NO_NEW_PRIVILEGES = 317, 1, 8, 38
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_RECEIVE, _ANSWER, _PUT = 0xC0502100, 0xC0182101, 0x40182103
_ASKED = struct.Struct("@QIIiIQ6Q")
_ANSWERED = struct.Struct("@QqiI")
_PLACED = struct.Struct("@QIIII")
_AT_THIS_NUMBER = 1
_GO_ON = 1


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _instruction(code: int, if_so: int, if_not: int, value: int) -> bytes:
    return struct.pack("@HBBI", code, if_so, if_not, value)


def _filter(numbers: Iterable[int], where: Mapping[int, tuple[int, int]]) -> bytes:
    program = [_instruction(_LOAD, 0, 0, _ARCHITECTURE_AT), _instruction(_JUMP_IF_EQUAL, 1, 0, _ARCHITECTURE)]
    program += [_instruction(_RETURN, 0, 0, _ALLOW), _instruction(_LOAD, 0, 0, _NUMBER_AT)]
    for number in sorted(numbers):
        argument = where.get(number)
        if argument is None:
            program += [_instruction(_JUMP_IF_EQUAL, 0, 1, number), _instruction(_RETURN, 0, 0, _ASK)]
            continue
        at, value = argument
        program += [
            _instruction(_JUMP_IF_EQUAL, 0, 4, number),
            _instruction(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * at),  # its lower half
            _instruction(_JUMP_IF_EQUAL, 0, 1, value),
            _instruction(_RETURN, 0, 0, _ASK),
            _instruction(_RETURN, 0, 0, _ALLOW),
        ]
    return b"".join([*program, _instruction(_RETURN, 0, 0, _ALLOW)])


def watch(names: Iterable[str] = NUMBERS, where: Mapping[str, tuple[int, int]] = MappingProxyType({})) -> int:
    """Have this process's calls of these names held from now on; return the listener, for another process to serve.

    ``where`` gives of a name the argument, counted from 0, that must have a value for such a call to be held.

    Raises:
        OSError: the system has no such means, or does not allow them.
    """
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, "the numbers of the calls are those of x86-64")
    system = ctypes.CDLL(None, use_errno=True)
    raw = _filter([NUMBERS[name] for name in names], {NUMBERS[name]: argument for name, argument in where.items()})
    program = _Program(len(raw) // 8, raw)
    if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    listener = system.syscall(_SECCOMP, _FILTER_MODE, _WITH_LISTENER, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(listener)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that is held: what is needed to answer, the thread's id, the call's name and its arguments."""

    id: int
    thread: int
    name: str
    arguments: tuple[int, ...]


def receive(listener: int) -> Asked | None:
    """Return the next call that is held; None where its thread died meanwhile."""
    raw = bytearray(_ASKED.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, raw)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    held, thread, _, number, _, _, *arguments = _ASKED.unpack(raw)
    return Asked(held, thread, _NAMES[number], tuple(arguments))


def answer(listener: int, asked: Asked, error: int = 0) -> None:
    """Let a call happen, or have it fail with an error number; harmless where its thread is dead."""
    raw = _ANSWERED.pack(asked.id, 0, -error, 0 if error else _GO_ON)
    try:
        fcntl.ioctl(listener, _ANSWER, raw)
    except OSError as failure:
        if failure.errno != errno.ENOENT:
            raise


def closed(listener: int, asked: Asked, descriptor: int) -> None:
    """Close what the process of a held call has open, as a close that fails does: nothing stands there but nothing."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        fcntl.ioctl(listener, _PUT, _PLACED.pack(asked.id, _AT_THIS_NUMBER, nothing, descriptor, os.O_CLOEXEC))
    finally:
        os.close(nothing)


def text_at(thread: int, address: int) -> bytes:
    """Return the text that a held call names by its address."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - one seek and one read
        memory.seek(address)
        found = memory.read(min(4096, 4096 - address % 4096))  # to the page's end: the next may not be there
        if b"\0" not in found:
            found += memory.read(4096)
    return os.fsencode(found.partition(b"\0")[0])

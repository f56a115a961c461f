"""The recorder sees every way of writing, and refuses loudly what it cannot follow."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.crash.trace import calls, record
from tests.crash.tracedisk import TracedDisk, differences, in_order

pytestmark = pytest.mark.usefixtures("traceable")

WAYS = """
import os, shutil, sys, threading
os.chdir(sys.argv[1])
root = sys.argv[1] + "/"
fd = os.open(root + "a", os.O_RDWR | os.O_CREAT)
os.write(fd, b"0123456789" * 300)
os.lseek(fd, 1000, os.SEEK_SET)
os.writev(fd, [b"one", b"two" * 500])
os.read(fd, 10)
twin = os.dup(fd)
os.write(twin, b"behind")
os.pwrite(fd, b"far", 9000)
os.pwritev(fd, [b"x" * 700, b"y"], 4000)
os.ftruncate(fd, 9001)
os.ftruncate(fd, 9100)
log = os.open(root + "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(log, b"first")
os.lseek(log, 0, os.SEEK_SET)
os.write(log, b"second")
os.mkdir(root + "deep")
os.mkdir(root + "deep/er")
inside = os.open(root + "deep", os.O_RDONLY | os.O_DIRECTORY)
part = os.open("er/part", os.O_WRONLY | os.O_CREAT | os.O_DSYNC, dir_fd=inside)
os.write(part, b"part")
os.rename("er/part", "whole", src_dir_fd=inside, dst_dir_fd=inside)
os.write(part, b" and more")
os.link(root + "deep/whole", root + "twin")
os.posix_fallocate(part, 0, 5000)
open(root + "a", "r+b").write(b"again")
open(root + "log", "w").write("anew")
os.mkdir(root + "doomed")
open(root + "doomed/file", "w").write("gone")
shutil.rmtree(root + "doomed")
os.unlink(root + "twin")
def one(n):
    with open(root + f"thread-{n}", "wb") as file:
        for _ in range(50):
            file.write(bytes([n]) * 700)
            file.flush()
            os.fsync(file.fileno())
threads = [threading.Thread(target=one, args=(n,)) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def recorded(memory: Path, name: str, program: str) -> tuple[Path, Path]:
    """Run a program over a directory of its own; return the directory and the record."""
    directory = memory / name
    directory.mkdir()
    file = memory / f"{name}.calls"
    record([sys.executable, "-c", program, str(directory)], file, os.environ, memory)
    return directory, file


def test_every_way_of_writing_is_followed(memory):
    directory, file = recorded(memory, "ways", WAYS)
    recorded_calls = in_order(calls(file))
    names = {call.name.removesuffix("2") for call in recorded_calls}  # pwritev may be made by way of pwritev2
    assert {"write", "writev", "pwrite64", "pwritev"} <= names
    disk = TracedDisk(directory)
    for _ in disk.steps(recorded_calls):
        pass
    assert differences(disk.disk.root, directory) == []
    assert sorted(disk.disk.root.seen) == ["a", "deep", "log", *(f"thread-{n}" for n in range(4))]


@pytest.mark.parametrize(
    "program",
    [
        "import mmap; file = open(sys.argv[1] + '/m', 'w+b'); file.truncate(4096); mmap.mmap(file.fileno(), 4096)",
        "a = open(sys.argv[1] + '/a', 'wb'); os.sendfile(a.fileno(), os.open(sys.executable, os.O_RDONLY), 0, 10)",
        "os.symlink('a', sys.argv[1] + '/b')",
        "os._exit(0) if os.fork() == 0 else os.wait()",
    ],
    ids=["map", "sendfile", "symlink", "fork"],
)
def test_what_cannot_be_followed_is_refused(memory, request, program):
    directory, file = recorded(memory, request.node.callspec.id, f"import os, sys; {program}")
    with pytest.raises(AssertionError):
        list(TracedDisk(directory).steps(in_order(calls(file))))

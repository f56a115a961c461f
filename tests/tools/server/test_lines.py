"""Lines over descriptors: whole, in order, within a bound."""

import fcntl
import os
import select
import socket
import threading
from functools import partial

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.server.lines import LineReader, LineWriter
from tools.server.outline import Outline


def read_all(data: bytes, max_bytes: int) -> list[bytes | int | str | None]:
    """Return every line of a closed pipe, and of those over the bound their ids."""
    read_fd, write_fd = os.pipe()
    os.write(write_fd, data)
    os.close(write_fd)
    lines: list[bytes | int | str | None] = []

    async def scenario():
        reader = LineReader(read_fd, max_bytes)
        while (line := await reader.receive()) is not None:
            lines.append(line.request_id if isinstance(line, Outline) else line)

    try:
        anyio.run(scenario)
    finally:
        os.close(read_fd)
    return lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"\n\r\na\n", [b"", b"\r", b"a"]),
        (b"12345678\n", [b"12345678"]),
        (b"123456789\n", [None]),
        (b'{"id":5 }\n', [5]),
        (b'{"id":5  }\nb\n', [5, b"b"]),
        (b'{"id":5, "half":', [5]),
        (b"123456789\n123456789\nc\n", [None, None, b"c"]),
    ],
)
def test_lines_come_whole_or_as_outlines(data, lines):
    assert read_all(data, max_bytes=8) == lines


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.integers(0, 30))
def test_a_line_within_the_bound_is_never_lost(sent, max_bytes):
    read = read_all(b"".join(line + b"\n" for line in sent), max_bytes)

    assert len(read) == len(sent)
    for line, got in zip(sent, read, strict=True):
        if len(line) <= max_bytes:
            assert got == line


def test_a_stopped_reader_ends_although_nobody_closed():
    read_fd, write_fd = os.pipe()

    async def scenario():
        reader = LineReader(read_fd)
        async with anyio.create_task_group() as group:

            async def receive():
                assert await reader.receive() is None

            group.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            reader.stop()
        os.write(write_fd, b"too late\n")
        assert await reader.receive() is None

    anyio.run(scenario)
    os.close(read_fd)
    os.close(write_fd)


@pytest.fixture(params=["pipe", "socket"])
def wire(request):
    """A descriptor to write to and one to read from."""
    if request.param == "pipe":
        read_fd, write_fd = os.pipe()
        yield write_fd, read_fd
        for fd in (read_fd, write_fd):
            try:
                os.close(fd)
            except OSError:
                assert fd == read_fd  # the test closed it
    else:
        ours, theirs = socket.socketpair()
        yield ours.fileno(), theirs.fileno()
        ours.close()
        theirs.detach()


def nobody_left():
    raise AssertionError("somebody reads")


def test_large_lines_are_written_whole_and_in_order(wire):
    write_fd, read_fd = wire
    lines = [bytes([65 + number]) * 300_000 + b"\n" for number in range(5)]
    received = bytearray()

    async def scenario():
        writer = LineWriter(write_fd, nobody_left)
        async with anyio.create_task_group() as group:
            for line in lines:
                group.start_soon(writer.write, partial(bytes, line))
            await anyio.wait_all_tasks_blocked()
            while len(received) < sum(map(len, lines)):
                received.extend(await anyio.to_thread.run_sync(os.read, read_fd, 100_000))

    anyio.run(scenario)
    assert bytes(received) == b"".join(lines)


def test_a_cancelled_writer_writes_its_line_to_the_end(wire):
    write_fd, read_fd = wire
    received = bytearray()

    async def scenario():
        writer = LineWriter(write_fd, nobody_left)
        async with anyio.create_task_group() as group:
            group.start_soon(writer.write, lambda: b"x" * 1_000_000 + b"\n")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                while len(received) < 1_000_001:
                    received.extend(await anyio.to_thread.run_sync(os.read, read_fd, 100_000))
        await writer.write(lambda: b"next\n")

    anyio.run(scenario)
    assert bytes(received) == b"x" * 1_000_000 + b"\n"
    assert os.read(read_fd, 100) == b"next\n"


def test_who_hung_up_is_noticed_once(wire):
    write_fd, read_fd = wire
    gone = []

    async def scenario():
        writer = LineWriter(write_fd, lambda: gone.append(1))
        assert not writer.hung_up()
        os.close(read_fd)
        assert writer.hung_up()
        for _ in range(2):
            with pytest.raises(anyio.BrokenResourceError):
                await writer.write(lambda: b"x\n")

    anyio.run(scenario)
    assert gone == [1]


def test_whoever_waits_for_a_reader_is_let_go(wire):
    write_fd, _read_fd = wire
    gone = []

    async def scenario():
        writer = LineWriter(write_fd, lambda: gone.append(1))

        async def write():
            with pytest.raises(anyio.BrokenResourceError):
                await writer.write(lambda: b"x" * 10_000_000)

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            group.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            writer.finish()

    anyio.run(scenario)
    assert gone == [1]


def test_what_the_pipe_takes_at_once_is_written_also_at_the_end(wire):
    write_fd, read_fd = wire

    async def scenario():
        writer = LineWriter(write_fd, nobody_left)
        writer.finish()
        await writer.write(lambda: b"goodbye\n")

    anyio.run(scenario)
    assert os.read(read_fd, 100) == b"goodbye\n"


def test_who_looks_whether_the_reader_is_gone_disturbs_no_writing_thread():
    """One poll object refuses two threads at once; the answer of the one that it refuses would be lost."""
    read_fd, write_fd = os.pipe()
    writer = LineWriter(write_fd, lambda: None)
    faults = []

    def write():
        for _ in range(3_000):
            try:
                if writer.write_at_once(b"x\n"):
                    os.read(read_fd, 2)
            except RuntimeError as error:
                faults.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        assert not writer.hung_up()
    thread.join()
    os.close(read_fd)
    assert writer.hung_up()
    os.close(write_fd)
    assert faults == []


def test_a_thread_writes_what_an_empty_pipe_holds_and_no_more():
    read_fd, write_fd = os.pipe()
    holds_bytes = fcntl.fcntl(write_fd, fcntl.F_GETPIPE_SZ)
    writer = LineWriter(write_fd, lambda: None)
    assert not writer.write_at_once(b"x" * (holds_bytes + 1))
    assert writer.write_at_once(b"x" * holds_bytes)
    assert len(os.read(read_fd, holds_bytes)) == holds_bytes
    assert writer.write_at_once(b"y")
    assert not writer.write_at_once(b"x" * (select.PIPE_BUF + 1))  # what stands in it may fill a page by itself
    assert writer.write_at_once(b"x" * select.PIPE_BUF)
    os.close(read_fd)
    os.close(write_fd)


def test_a_thread_writes_no_long_line_to_what_is_no_pipe():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = LineWriter(ours.fileno(), lambda: None)
        assert not writer.write_at_once(b"x" * (select.PIPE_BUF + 1))
        assert writer.write_at_once(b"x" * select.PIPE_BUF)

"""The server's log."""

import json
import logging
import os
import select

import pytest

from tools.server import logs


@pytest.fixture
def written(monkeypatch):
    """Let the log write into a pipe; return what stands in it."""
    read_fd, write_fd = os.pipe()
    pipe = logs.StderrPipe(write_fd)
    logs._logger.cache_clear()
    monkeypatch.setattr(logs, "StderrPipe", lambda: pipe)
    yield lambda: os.read(read_fd, 100_000)
    logs._logger.cache_clear()
    os.close(read_fd)
    os.close(write_fd)


def test_a_line_is_one_json_object(written):
    logs.warn("something", error="KeyError", count=3)

    line = written()
    assert line.endswith(b"}\n")
    told = json.loads(line)
    assert (told["event"], told["level"], told["error"], told["count"]) == ("something", "warning", "KeyError", 3)
    assert told["timestamp"].endswith("Z")


def test_a_library_is_not_quoted(written):
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.quieten_libraries()
        logs.quieten_libraries()
        logger = logging.getLogger("mcp.some.module")
        logger.info("handled %r", "a secret")
        logger.error("handler returned %r", "a secret", exc_info=ValueError("a secret"))
        assert len(root.handlers) == 1
    finally:
        root.handlers[:], root.level = handlers, level

    told = json.loads(written())
    assert (told["event"], told["logger"], told["error"]) == ("library", "mcp.some.module", "ValueError")
    assert "secret" not in json.dumps(told)


def test_a_full_pipe_loses_lines_and_stops_nothing():
    read_fd, write_fd = os.pipe()
    pipe = logs.StderrPipe(write_fd)

    for _ in range(1_000):
        pipe.write("x" * 200 + "\n")

    assert pipe.lost_lines > 0
    kept = os.read(read_fd, 1_000_000)
    assert kept.count(b"\n") == 1_000 - pipe.lost_lines
    assert kept.replace(b"x" * 200 + b"\n", b"") == b""
    os.close(read_fd)
    pipe.write("nobody reads\n")
    os.close(write_fd)


def test_a_line_too_long_for_one_piece_is_cut():
    read_fd, write_fd = os.pipe()

    logs.StderrPipe(write_fd).write("x" * 100_000 + "\n")

    kept = os.read(read_fd, 200_000)
    assert len(kept) == select.PIPE_BUF
    assert kept.endswith(b"x\n")
    os.close(read_fd)
    os.close(write_fd)

"""engram serve --transport http as an operator meets it; what a client meets is tested with the server."""

from __future__ import annotations

import socket

import pytest

TOKEN = """
[[http.tokens]]
name = "anna"
env = "ANNA"
[[http.principals]]
token = "anna"
principal = "Anna"
tools = ["engram_memory_search"]
purposes = ["purpose:work"]
"""


def with_section(desk, section):
    text = desk.host_file.read_text(encoding="utf-8")
    head, _, _ = text.partition("\n[http]\n")
    desk.host_file.write_text(f"{head}\n[http]\n{section}", encoding="utf-8")


@pytest.mark.parametrize(
    ("section", "words", "said"),
    [
        ("", ["--host", "0.0.0.0"], "http.allowed_hosts"),  # noqa: S104 - it is what a person would write
        (TOKEN, ["--host", "0.0.0.0"], "http.tokens"),  # noqa: S104 - as above
        (TOKEN, [], "names a variable that is not set"),
        ("port = 1.5\n", [], "http.port"),
        ('host = "nowhere.invalid"\nallowed_hosts = ["x"]\n', [], "cannot be listened at"),
    ],
)
def test_what_keeps_a_server_from_starting_is_one_sentence(desk, section, words, said):
    with_section(desk, section)
    ended = desk.process("serve", "--transport", "http", *words)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_a_port_that_is_taken(desk):
    with_section(desk, "")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = desk.process("serve", "--transport", "http", "--port", str(taken.getsockname()[1]))
    assert ended.code == 2
    assert "cannot be listened at" in ended.err


def test_a_store_that_is_not_there(desk):
    with_section(desk, "port = 0\n")
    desk.store.rename(desk.place / "elsewhere")
    ended = desk.process("serve", "--transport", "http")
    assert ended.code == 2
    assert "there is no store" in ended.err


def test_the_address_is_of_http_alone(desk):
    for words in (["--port", "1"], ["--host", "127.0.0.1"], ["--transport", "stdio", "--port", "0"]):
        ended = desk.process("serve", *words)
        assert (ended.code, ended.out) == (2, "")
        assert "are of --transport http" in ended.err

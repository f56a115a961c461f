"""What a locator selects: exact bytes, lines with their ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.host.verifiers.locators import Unselected, lines_of, selected

CONTENT = "하나\r\ntwo\n\nfour".encode()


@pytest.mark.parametrize(
    ("scheme", "value", "found"),
    [
        ("line", "1", "하나\r\n"),
        ("line", "2-3", "two\n\n"),
        ("line", "1-4", CONTENT.decode()),
        ("line", "4-4", "four"),
        ("line", "01-02", "하나\r\ntwo\n"),
        ("byte", "0-2", "하"),
        ("byte", "8-10", "two"),
        ("byte", f"0-{len(CONTENT) - 1}", CONTENT.decode()),
    ],
)
def test_what_is_selected(scheme, value, found):
    assert selected(CONTENT, scheme, value) == found.encode()


@pytest.mark.parametrize(("scheme", "value"), [("line", "5"), ("line", "4-5"), ("byte", f"0-{len(CONTENT)}")])
def test_a_content_that_ends_before(scheme, value):
    assert selected(CONTENT, scheme, value) is None


@pytest.mark.parametrize(
    ("scheme", "value"),
    [
        ("line", "0"), ("line", "2-1"), ("line", "1-"), ("line", "-1"), ("line", " 1"), ("line", "1,2"), ("line", ""),
        ("line", "1" * 13), ("line", "１"), ("byte", "1"), ("byte", "3-2"), ("document", "case#7"), ("Line", "1"),
    ],
)  # fmt: skip
def test_what_is_no_range(scheme, value):
    with pytest.raises(Unselected):
        selected(CONTENT, scheme, value)


@given(st.binary(max_size=60))
def test_lines_are_the_whole_content(content):
    lines = lines_of(content)
    assert b"".join(lines) == content
    assert all(line.count(b"\n") <= 1 and (line.endswith(b"\n") or line is lines[-1]) for line in lines)
    assert all(lines)

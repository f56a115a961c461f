"""What a locator selects: exact bytes, lines with their ends."""

import io
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import limits
from tools.host.verifiers import locators
from tools.host.verifiers.locators import OutOfTime, Unselected, line_count, lines, selected

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


@given(
    st.binary(max_size=60) | st.text("a\n", max_size=60).map(str.encode), st.integers(1, 9), st.sampled_from([1, 2, 7])
)
def test_lines_are_the_whole_content(content, first, block_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locators, "_BLOCK_BYTES", block_bytes)
        listed = io.BytesIO(content).readlines()
        assert line_count(content) == len(listed)
        for last in range(first, len(listed) + 3):
            found = lines(content, first, last)
            assert found == (b"".join(listed[first - 1 : last]) if last <= len(listed) else None)


@pytest.mark.parametrize("value", ["3-9", "16777200-16777216", "1-16777216", "16777217"])
def test_lines_of_a_large_file_of_short_ones_take_no_memory(value):
    content = b"\n" * (16 * limits.MIB)
    tracemalloc.start()
    try:
        found = selected(content, "line", value)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found is None) is (value == "16777217")
    assert peak_bytes < limits.MIB


@pytest.mark.parametrize("value", ["3-9", "1000"])
def test_no_line_is_looked_for_after_the_deadline(value):
    with pytest.raises(OutOfTime):
        selected(CONTENT, "line", value, time.monotonic())
    found = selected(CONTENT, "line", "4", time.monotonic() + 60)
    assert found is not None
    assert bytes(found) == b"four"

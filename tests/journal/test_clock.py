"""Instants: the one form, real calendar dates, and the way back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.clock import SystemClock, SystemRandomness, instant, parse_instant
from journal.scope import Scope

LAST = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("2026-08-16T12:34:56.789Z", 1_786_883_696_789),
        ("2024-02-29T00:00:00.000Z", 1_709_164_800_000),  # divisible by 4
        ("2000-02-29T23:59:59.999Z", 951_868_799_999),  # divisible by 400
        ("9999-12-31T23:59:59.999Z", LAST),
        ("1960-01-01T00:00:00.000Z", -315_619_200_000),
    ],
)
def test_both_ways(text, milliseconds):
    assert parse_instant(text) == milliseconds
    assert instant(milliseconds) == text


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29T00:00:00.000Z",  # no leap year
        "1900-02-29T00:00:00.000Z",  # divisible by 100, not by 400
        "2024-02-30T00:00:00.000Z",
        "2024-04-31T00:00:00.000Z",
        "2024-13-01T00:00:00.000Z",
        "2024-00-01T00:00:00.000Z",
        "2024-01-00T00:00:00.000Z",
        "2024-01-01T24:00:00.000Z",
        "2024-01-01T00:60:00.000Z",
        "2016-12-31T23:59:60.000Z",  # a leap second that happened has no epoch milliseconds
        "2024-01-01T00:00:61.000Z",
    ],
)
def test_no_such_moment(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are the calendar's
        parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00.0Z",
        "2024-01-01T00:00:00.00Z",
        "2024-01-01T00:00:00.0000Z",
        "2024-01-01T00:00:00.000000Z",
        "2024-01-01T00:00:00.000",
        "2024-01-01T00:00:00.000z",
        "2024-01-01t00:00:00.000Z",
        "2024-01-01 00:00:00.000Z",
        "2024-01-01T00:00:00,000Z",
        "2024-01-01T00:00:00.000+00:00",
        "2024-01-01T09:00:00.000+09:00",
        "2024-1-1T0:0:0.000Z",
        "24-01-01T00:00:00.000Z",
        "12024-01-01T00:00:00.000Z",
        "+2024-01-01T00:00:00.000Z",
        "20240101T000000.000Z",
        "2024-W01-1T00:00:00.000Z",
        " 2024-01-01T00:00:00.000Z",
        "2024-01-01T00:00:00.000Z ",
        "2024-01-01T00:00:00.000Z\n",
        "\uff12\uff10\uff12\uff14-01-01T00:00:00.000Z",  # full-width digits
        "\u0662\u0660\u0662\u0664-01-01T00:00:00.000Z",  # Arabic-Indic digits
    ],
    ids=repr,
)
def test_another_form_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are the calendar's
        parse_instant(text)


@given(st.integers(0, LAST))
def test_every_millisecond_comes_back(milliseconds):
    text = instant(milliseconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert parse_instant(text) == milliseconds
    # the calendar again, by another way than the product's
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@given(st.lists(st.integers(0, LAST), min_size=2, max_size=2, unique=True))
def test_text_order_is_time_order(pair):
    earlier, later = sorted(pair)
    assert instant(earlier) < instant(later)


def test_the_machine_has_a_clock_and_randomness():
    assert 1_577_836_800_000 < SystemClock().now() < LAST  # after 2020
    draws = {SystemRandomness().draw(Scope("t", "w"), 32) for _ in range(8)}
    assert len(draws) == 8
    assert {len(draw) for draw in draws} == {32}


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59.123Z", "1900-02-28T12:00:00.001Z"])
def test_before_1970_too(text):
    assert instant(parse_instant(text)) == text


def test_a_year_has_four_digits():
    assert instant(-62_135_596_800_000) == "0001-01-01T00:00:00.000Z"
    assert parse_instant("0999-12-31T00:00:00.000Z") == -30_610_310_400_000

"""Date ranges: every form, days across daylight-saving changes, and what is refused."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from journal.errors import InvalidSchema
from tools.conversation.dates import DateRange, parse_date_range

HOUR = 3_600_000
DAY = 24 * HOUR
SEOUL = ZoneInfo("Asia/Seoul")


def utc(text: str) -> int:
    """Epoch milliseconds of an instant written in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000


def in_seoul(text: str, now: str = "2026-08-16T12:34:56") -> DateRange:
    return parse_date_range(text, utc(now) + 789, SEOUL)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("today", "2026-08-15T15:00", "2026-08-16T15:00"),
        ("yesterday", "2026-08-14T15:00", "2026-08-15T15:00"),
        ("last_week", "2026-08-08T15:00", None),
        ("7_days_ago", "2026-08-08T15:00", None),
        ("last_month", "2026-07-15T15:00", None),
        ("1_days_ago", "2026-08-14T15:00", None),
        ("30_days_ago", "2026-07-16T15:00", None),
        ("739000_days_ago", "0003-04-23T15:32:08", None),
        ("2026-08-01", "2026-07-31T15:00", None),
        ("2024-02-29", "2024-02-28T15:00", None),
        ("2030-01-01", "2029-12-31T15:00", None),
        ("2026-08-01..2026-08-03", "2026-07-31T15:00", "2026-08-03T15:00"),
        ("2026-08-01..2026-08-01", "2026-07-31T15:00", "2026-08-01T15:00"),
        ("2025-12-31..2026-01-01", "2025-12-30T15:00", "2026-01-01T15:00"),
        ("2026-08-01..", "2026-07-31T15:00", None),
        ("..2026-08-01", None, "2026-08-01T15:00"),
        ("..9999-12-30", None, "9999-12-30T15:00"),
    ],
)
def test_every_form(text, since, until):
    assert in_seoul(text) == DateRange(since and utc(since), until and utc(until))


@pytest.mark.parametrize(
    ("now", "text", "since"),
    [
        ("2026-08-16T14:59:59", "today", "2026-08-15T15:00"),
        ("2026-08-16T15:00:00", "today", "2026-08-16T15:00"),
        ("1970-01-01T00:00:00", "today", "1969-12-31T15:00"),
        ("1969-12-31T14:59:59", "today", "1969-12-30T15:00"),
    ],
)
def test_a_day_begins_at_local_midnight(now, text, since):
    assert in_seoul(text, now).since == utc(since)


def test_the_last_millisecond_of_a_day_is_of_that_day():
    midnight = utc("2026-08-16T15:00")
    assert parse_date_range("today", midnight - 1, SEOUL) == DateRange(midnight - DAY, midnight)
    assert parse_date_range("today", midnight, SEOUL) == DateRange(midnight, midnight + DAY)
    assert parse_date_range("today", -1, UTC) == DateRange(-DAY, 0)


@pytest.mark.parametrize(
    ("today", "a_month_ago"),
    [
        ("2026-03-31", "2026-02-28"),
        ("2024-03-31", "2024-02-29"),
        ("2026-03-28", "2026-02-28"),
        ("2026-07-31", "2026-06-30"),
        ("2026-01-31", "2025-12-31"),
        ("2026-01-01", "2025-12-01"),
        ("2026-12-31", "2026-11-30"),
    ],
)
def test_a_month_ago_is_a_calendar_month_and_clamped(today, a_month_ago):
    expected = DateRange(utc(a_month_ago), None)
    assert parse_date_range("last_month", utc(today) + DAY - 1, UTC) == expected


# --- daylight saving ------------------------------------------------------------------------------

# zone, day, its first instant in UTC, its hours
CHANGES = [
    ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00", 23),
    ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00", 25),
    ("America/New_York", "2026-03-08", "2026-03-08T05:00", 23),
    ("America/New_York", "2026-11-01", "2026-11-01T04:00", 25),
    ("Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00", 24.5),
    ("Africa/Cairo", "2024-04-26", "2024-04-25T22:00", 23),  # no midnight: clocks leap from 0:00 to 1:00
    ("Africa/Cairo", "2024-10-31", "2024-10-30T21:00", 25),  # from 24:00 back to 23:00
    ("Africa/Cairo", "2024-11-01", "2024-10-31T22:00", 24),
    ("America/Santiago", "2024-09-08", "2024-09-08T04:00", 23),  # no midnight
    ("America/Havana", "2024-03-10", "2024-03-10T05:00", 23),  # no midnight
    ("America/Havana", "2024-11-03", "2024-11-03T04:00", 25),  # two midnights: from 1:00 back to 0:00
    ("America/Toronto", "1919-03-31", "1919-03-31T04:30", 23.5),  # clocks leap from 23:30 over midnight to 0:30
    ("America/Toronto", "1919-03-30", "1919-03-30T05:00", 23.5),
    ("Pacific/Apia", "2011-12-29", "2011-12-29T10:00", 24),
    ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00", 0),  # a day that never was
    ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00", 24),
    ("Asia/Seoul", "1988-05-08", "1988-05-07T15:00", 23),
    ("Asia/Seoul", "1988-10-09", "1988-10-08T14:00", 25),
]


@pytest.fixture(params=["named", "local"])
def in_zone(request, monkeypatch):
    """The zone of a name; or None, with the machine set to that zone."""

    def zone(name):
        if request.param == "named":
            return ZoneInfo(name)
        monkeypatch.setenv("TZ", name)
        time.tzset()
        return None

    yield zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("name", "day", "begins", "hours"), CHANGES)
def test_a_day_is_as_long_as_its_clocks_make_it(in_zone, name, day, begins, hours):
    zone = in_zone(name)
    start = utc(begins)
    end = start + int(hours * HOUR)
    whole = DateRange(start, end)
    assert parse_date_range(f"{day}..{day}", 0, zone) == whole
    assert parse_date_range(day, 0, zone) == DateRange(start, None)
    assert parse_date_range(f"..{day}", 0, zone) == DateRange(None, end)
    if hours:
        assert parse_date_range("today", start, zone) == whole
        assert parse_date_range("today", end - 1, zone) == whole
        after = (end, end) if day == "2011-12-29" else (start, end)  # the day after this one never was
        assert parse_date_range("yesterday", end, zone) == DateRange(*after)


@pytest.mark.parametrize("name", ["Asia/Seoul", "Europe/Berlin", "America/New_York", "America/Santiago"])
def test_days_follow_one_another_without_gap_or_overlap(in_zone, name):
    zone = in_zone(name)
    day, until = datetime(2026, 1, 1, tzinfo=UTC).date(), None
    for _ in range(366):
        today = parse_date_range(f"{day}..{day}", 0, zone)
        assert today.since is not None
        assert today.until is not None
        assert until is None or today.since == until
        assert today.until - today.since in {23 * HOUR, DAY, 25 * HOUR}
        for instant in (today.since, today.until - 1):
            assert datetime.fromtimestamp(instant // 1_000, ZoneInfo(name)).date() == day
        until, day = today.until, day + timedelta(days=1)


@pytest.mark.parametrize(
    ("name", "now", "begins"),
    [
        ("Europe/Berlin", "2026-03-30T12:00", "2026-03-22T23:00"),
        ("Europe/Berlin", "2026-10-28T12:00", "2026-10-20T22:00"),
        ("America/New_York", "2026-03-10T12:00", "2026-03-03T05:00"),
        ("America/New_York", "2026-11-04T12:00", "2026-10-28T04:00"),
        ("America/Santiago", "2026-09-09T12:00", "2026-09-02T04:00"),
    ],
)
def test_days_ago_are_counted_on_the_calendar(in_zone, name, now, begins):
    zone = in_zone(name)
    assert parse_date_range("last_week", utc(now), zone) == DateRange(utc(begins), None)
    assert parse_date_range("7_days_ago", utc(now), zone) == DateRange(utc(begins), None)


# --- what is refused ------------------------------------------------------------------------------

WRONG = """
    ..  ...  ....  -  0  1  now  tomorrow  last_year  last-week  lastweek  last_weeks  this_week  Today  TODAY
    YESTERDAY  Last_Week  last_MONTH  0_days_ago  00_days_ago  01_days_ago  007_days_ago  -1_days_ago  +1_days_ago
    1.5_days_ago  1e3_days_ago  1_day_ago  days_ago  _days_ago  N_days_ago  1_days  1_Days_Ago  1__days_ago
    1_000_days_ago  ７_days_ago  ٧_days_ago  9999999_days_ago  10000000_days_ago
    2026  2026-08  2026-8-1  2026-08-1  26-08-01  02026-08-01  20260801  2026/08/01  2026.08.01  2026-W33-1  2026-213
    2026-00-01  2026-13-01  2026-08-00  2026-08-32  2026-02-29  2026-04-31  1900-02-29  0000-01-01  10000-01-01
    -2026-08-01  2026-08-01T00:00:00  2026-08-01Z  ２０２６-08-01  2026-08-0１  ٢٠٢٦-08-01  2026–08–01
    2026-08-02..2026-08-01  2026-08-01..2025-08-02  2026-08-01.2026-08-02  2026-08-01...2026-08-02
    2026-08-01…2026-08-02  2026-08-01..2026-13-01  2026-02-30..2026-03-01  2026-13-01..  ..2026-02-29
    2026-08-01..today  yesterday..today  today..  ..today  2026-08-01..2026-08-02..2026-08-03  2026-08-01--2026-08-02
    ..9999-12-31  9999-12-31..9999-12-31  7_days_ago..  last_week..2026-08-01  *  오늘  null
""".split()
SPACED = [
    "", " ", "\n", "today\n", "today ", " today", "\ttoday", "today\x00", "to day", "2026-08-01\n", " 2026-08-01",
    "2026-08-01 ", "2026-08-01 .. 2026-08-02", "2026-08-01..2026-08-02\n", "2026-08-01..\n", "..2026-08-01\n",
    "7_days_ago\n", "7 days ago", "last week", "last_week\n", "\ud800", "today\ud800", "2026-08-01\ufeff",
    "9" * 100_000 + "_days_ago", "9" * 100_000, "." * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("zone", [None, SEOUL, ZoneInfo("America/New_York"), UTC], ids=str)
def test_anything_else_is_refused(zone):
    assert len({*WRONG, *SPACED}) >= 40
    for text in (*WRONG, *SPACED):
        with pytest.raises(InvalidSchema) as caught:
            parse_date_range(text, utc("2026-08-16"), zone)
        assert len(text) < 8 or text not in str(caught.value)


@pytest.mark.parametrize("zone", [None, SEOUL, ZoneInfo("America/New_York"), UTC], ids=str)
@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
@pytest.mark.parametrize("form", ["{}", "{}..", "..{}", "{0}..{0}"])
def test_the_ends_of_the_calendar_are_an_instant_or_refused(zone, day, form):
    try:
        got = parse_date_range(form.format(day), 0, zone)
    except InvalidSchema:
        return
    assert all(end is None or abs(end) < 2**53 for end in (got.since, got.until))


@pytest.mark.parametrize("now", [2**63, -(2**63), 10**30, 253_402_300_800_000, -62_135_596_800_001])
@pytest.mark.parametrize("zone", [None, SEOUL], ids=str)
def test_a_clock_beyond_the_calendar_is_refused(zone, now):
    with pytest.raises(InvalidSchema):
        parse_date_range("last_month", now, zone)

"""When: the forms of ``date_range`` and the instants that they mean in a time zone (CONVERSATION §3).

Every form counts whole local days. A since-form begins where its local day begins, not at this hour of that day: an
agent that asks for ``last_week`` means days, and gets the same answer all day. The days before today are counted on
the calendar, so a daylight-saving change moves no boundary away from midnight.
"""

from __future__ import annotations

import calendar
import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

from journal.errors import InvalidSchema

_MILLISECONDS: Final = 1_000
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"  # typed out: fromisoformat also takes week dates, \d any script's digits
_SINCE_DAY: Final = re.compile(_DAY)
_SPAN: Final = re.compile(f"(?P<first>{_DAY})?\\.\\.(?P<last>{_DAY})?")
# No zero, which is `today`, and no leading zeros: one spelling a day. Seven digits pass year 1 from any today.
_DAYS_AGO: Final = re.compile("(?P<days>[1-9][0-9]{0,6})_days_ago")
_ONE_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class DateRange:
    """Half-open in epoch milliseconds; None is without that end. ``since == until`` holds nothing."""

    since: int | None
    until: int | None


def parse_date_range(text: str, now: int, zone: tzinfo | None) -> DateRange:
    """Return the instants that a date range means.

    Args:
        text: ``today``, ``yesterday``, ``last_week``, ``last_month``, ``N_days_ago`` (N from 1), ``YYYY-MM-DD``,
            ``A..B``, ``A..`` or ``..B``; one spelling each, nothing around it.
        now: Epoch milliseconds.
        zone: Whose days are meant; None is the machine's local zone.

    Raises:
        InvalidSchema: Any other text, a day that no calendar has, or one too far away to be an instant.
    """
    try:
        first, last = _days(text, _day_of(now // _MILLISECONDS, zone))
        since = None if first is None else _start(first, zone)
        until = None if last is None else _start(last + _ONE_DAY, zone)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidSchema("date_range names a day that cannot be reckoned") from error
    return DateRange(since, until)


def _days(text: str, today: date) -> tuple[date | None, date | None]:
    """The first and the last day that a text means, both whole; None is without that end."""
    if text in {"today", "yesterday"}:
        day = today if text == "today" else today - _ONE_DAY
        return day, day
    if text == "last_month":
        return _month_before(today), None
    if ago := _DAYS_AGO.fullmatch("7_days_ago" if text == "last_week" else text):
        return today - timedelta(days=int(ago["days"])), None
    if _SINCE_DAY.fullmatch(text):
        return date.fromisoformat(text), None
    return _span(text)


def _span(text: str) -> tuple[date | None, date | None]:
    span = _SPAN.fullmatch(text)
    if span is None or (span["first"] is None and span["last"] is None):
        raise InvalidSchema("date_range has no known form")
    first = None if span["first"] is None else date.fromisoformat(span["first"])
    last = None if span["last"] is None else date.fromisoformat(span["last"])
    if first is not None and last is not None and last < first:
        raise InvalidSchema("date_range ends before it begins")
    return first, last


def _month_before(day: date) -> date:
    """The same day of the month before, or its last day where it is shorter."""
    year, month = (day.year, day.month - 1) if day.month > 1 else (day.year - 1, 12)
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def _day_of(instant_seconds: int, zone: tzinfo | None) -> date:
    return datetime.fromtimestamp(instant_seconds, zone).date()


def _start(day: date, zone: tzinfo | None) -> int:
    """The first instant, in epoch milliseconds, at which clocks of the zone show the day or a later one.

    Midnight may come twice: the first one counts. Or never, where clocks leap over it: then the day begins with the
    leap, which lies between midnight by the offset after it and midnight by the offset before it.
    """
    midnight = datetime.combine(day, time(), zone)
    by_offset_before = int(midnight.timestamp())
    by_offset_after = int(midnight.replace(fold=1).timestamp())
    if by_offset_before <= by_offset_after:  # once, or twice
        return by_offset_before * _MILLISECONDS
    skipped = range(by_offset_after, by_offset_before)
    leap = by_offset_after + bisect_left(skipped, day, key=lambda instant: _day_of(instant, zone))
    return leap * _MILLISECONDS

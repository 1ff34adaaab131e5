"""Freeze windows: times in which no optional moves are made. Pure.

| window | when |
|---|---|
| `22:00 to 06:00` | every day |
| `Fri 18:00 to Mon 06:00` | every week |
| `2026-12-20 18:00 to 2027-01-03 06:00` | once |

Times are local times in the IANA time zone given after the window, by default UTC. An hour that a clock
change repeats belongs to a window both times; an hour that it skips belongs to none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mirror.errors import InvalidRequest
from mirror.model.bounds import LONGEST_NAME, shown

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_MINUTES: Final = 24 * 60
_WEEK_MINUTES: Final = 7 * _DAY_MINUTES
_LONGEST_ONCE: Final = timedelta(days=366)
_MOMENT: Final = r"(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun) |(\d{4}-\d{2}-\d{2}) )?(\d{2}:\d{2})"
_ONCE: Final = "%Y-%m-%d %H:%M"
_WINDOW: Final = re.compile(rf"{_MOMENT} to {_MOMENT}(?: ([A-Za-z][A-Za-z0-9_+/-]*))?", re.ASCII)
_ADVICE: Final = "write it as Fri 18:00 to Mon 06:00 Europe/Berlin, 22:00 to 06:00, or with dates"


@dataclass(frozen=True, slots=True)
class RecurringWindow:
    """Daily or weekly freeze window.

    `begin`, `end`: minutes within the period. `end` is exclusive, and may be in the next period.
    """

    begin: int
    end: int
    period: int

    def contains(self, local: datetime) -> bool:
        """Return whether the window contains a local time."""
        minute = (local.weekday() * _DAY_MINUTES + local.hour * 60 + local.minute) % self.period
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


@dataclass(frozen=True, slots=True)
class OneTimeWindow:
    """Freeze window between two fixed times."""

    begin: datetime
    end: datetime

    def contains(self, local: datetime) -> bool:
        """Return whether the window contains a time with a time zone."""
        return self.begin <= local.astimezone(UTC) < self.end


@dataclass(frozen=True, slots=True)
class FreezeWindow:
    """A freeze window with its time zone. `text`: as configured."""

    text: str
    zone: tzinfo
    when: RecurringWindow | OneTimeWindow

    def contains(self, now_ms: int) -> bool:
        """Return whether the window contains the timestamp."""
        local = datetime.fromtimestamp(now_ms / 1000, self.zone)
        return self.when.contains(local)


def read_freeze(text: str) -> FreezeWindow:
    """Parse a freeze window. Raises InvalidRequest."""
    line = " ".join(text.split())
    found = _WINDOW.fullmatch(line) if len(line) <= LONGEST_NAME else None
    if found is None:
        raise InvalidRequest(f"{shown(text)} is not a valid freeze window", advice=_ADVICE)
    from_day, from_date, from_time, to_day, to_date, to_time, zone_name = found.groups()
    if bool(from_day) != bool(to_day) or bool(from_date) != bool(to_date):
        raise InvalidRequest(
            f"start and end of {shown(text)} must both have a weekday, both have a date, or both be times",
            advice=_ADVICE,
        )
    zone = _zone(zone_name or "UTC")
    if from_date:
        return FreezeWindow(line, zone, _once(line, zone, f"{from_date} {from_time}", f"{to_date} {to_time}"))
    period = _WEEK_MINUTES if from_day else _DAY_MINUTES
    begin, end = _minute(line, from_day, from_time), _minute(line, to_day, to_time)
    if begin == end:
        raise InvalidRequest(
            f"freeze window {shown(text)} starts and ends at the same time",
            advice="to never act, set monitor.act = false",
        )
    return FreezeWindow(line, zone, RecurringWindow(begin, end, period))


def frozen_by(windows: Sequence[FreezeWindow], now_ms: int) -> FreezeWindow | None:
    """Return the first freeze window that contains the timestamp, or None."""
    return next((window for window in windows if window.contains(now_ms)), None)


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidRequest(
            f"unknown time zone {shown(name)} on this host", advice="use a name such as Europe/Berlin or UTC"
        ) from error


def _minute(line: str, day: str | None, time: str) -> int:
    hours, minutes = (int(part) for part in time.split(":"))
    if hours > 23 or minutes > 59:
        raise InvalidRequest(f"{shown(line)}: invalid time {time}", advice="use 00:00 to 23:59")
    return (_DAYS.index(day) if day else 0) * _DAY_MINUTES + hours * 60 + minutes


def _once(line: str, zone: tzinfo, begin: str, end: str) -> OneTimeWindow:
    """Return a freeze window between two fixed local times.

    In an hour that a clock change repeats, the window starts at the first and ends at the second occurrence
    of a time. A time in a skipped hour counts as the time of the clock change.
    """
    try:
        first, last = (datetime.strptime(text, _ONCE).replace(tzinfo=zone) for text in (begin, end))
        since, until = _moment(first.replace(fold=0)), _moment(last.replace(fold=1))
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(f"{shown(line)} contains an invalid date", advice=_ADVICE) from error
    if not (first < last and until - since <= _LONGEST_ONCE):
        raise InvalidRequest(
            f"{shown(line)} is not a valid freeze window",
            advice="it must end after its start and last at most a year",
        )
    if since == until:
        raise InvalidRequest(
            f"freeze window {shown(line)} is empty: the clocks skip this time", advice="choose another end"
        )
    return OneTimeWindow(since, until)


def _moment(local: datetime) -> datetime:
    """Convert a local time to UTC. A local time that a clock change skips becomes the time of the change."""
    found, wanted = local.astimezone(UTC), local.replace(tzinfo=None)
    if found.astimezone(local.tzinfo).replace(tzinfo=None) == wanted:
        return found
    before, after = (local.replace(fold=fold).astimezone(UTC) for fold in (1, 0))
    while after - before > timedelta(seconds=1):  # the clock shows less than wanted at `before`, then more
        middle = before + (after - before) // 2
        if middle.astimezone(local.tzinfo).replace(tzinfo=None) < wanted:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)

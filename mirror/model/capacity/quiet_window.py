"""Quiet windows: the hours of each weekday in which the load of a datastream is lowest. Pure.

The loads of each day are divided by the mean of the day, so that busy and calm days count equally. The window
consists of the consecutive hours of the day with the lowest sum of medians. A weekday with two weeks of data
gets its own window if the load in the common window is clearly higher on this weekday.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Final

HOUR_MS: Final = 3_600_000
_DAY: Final = 24
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FIRST_WEEKDAY: Final = 3
"""Weekday of 1 January 1970, which was a Thursday."""
_FEWEST_DAYS: Final = 2
_CLEARLY: Final = 1.25
Day = Mapping[int, float]
"""Loads (bytes/s) of one day by hour."""


@dataclass(frozen=True, slots=True)
class QuietTerms:
    """Settings for detecting quiet windows: length and minimum contrast.

    `hours`: length of the window, below 24; 0 disables it. `contrast`: minimum ratio of the load in the other
    hours to the load in the window.
    """

    hours: int = 4
    contrast: float = 1.5


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """Window that starts at a full hour in UTC and lasts `hours`.

    `first_hours`: first hour of the window by weekday, starting with Monday.
    """

    first_hours: tuple[int, ...]
    hours: int

    def contains(self, now_ms: int) -> bool:
        """Return whether the timestamp (epoch ms) is in the window of its day or of the day before."""
        day, hour = divmod(now_ms // HOUR_MS, _DAY)
        today, yesterday = (self.first_hours[_weekday(weekday)] for weekday in (day, day - 1))
        return 0 <= hour - today < self.hours or 0 <= hour + _DAY - yesterday < self.hours

    @property
    def text(self) -> str:
        """Text for users: `22:00 to 02:00 UTC`, with weekdays if they differ."""
        runs = [
            (hour, [weekday for weekday, _ in days])
            for hour, days in groupby(enumerate(self.first_hours), key=lambda pair: pair[1])
        ]
        spans = [f"{first:02}:00 to {(first + self.hours) % _DAY:02}:00" for first, _ in runs]
        if len(runs) == 1:
            return f"{spans[0]} UTC"
        return (
            ", ".join(f"{_days(days)} {span}" for (_, days), span in zip(runs, spans, strict=True)) + " UTC"
        )


def quiet_window(totals: Mapping[int, float], terms: QuietTerms) -> QuietWindow | None:
    """Return the quiet window of a datastream, or None.

    `totals`: loads in bytes per second, by start of the hour (epoch ms).

    Returns None if windows are disabled, if an hour of the day has data from fewer than two days, if there is
    no traffic, or if the load is too even.
    """
    if not 0 < terms.hours < _DAY:
        return None
    days = _days_of(totals)
    common = _profile(days.values())
    if common is None or not _has_contrast(common, first := _lightest(common, terms.hours), terms):
        return None
    by_weekday = (
        _profile(loads for day, loads in days.items() if _weekday(day) == weekday)
        for weekday in range(len(_WEEKDAYS))
    )
    return QuietWindow(tuple(_own(profile, first, terms.hours) for profile in by_weekday), terms.hours)


def _weekday(day: int) -> int:
    """Return the weekday of a day since 1970; 0 for Monday."""
    return (day + _FIRST_WEEKDAY) % len(_WEEKDAYS)


def _days(weekdays: list[int]) -> str:
    first, last = (_WEEKDAYS[weekday] for weekday in (weekdays[0], weekdays[-1]))
    return first if first == last else f"{first} to {last}"


def _days_of(totals: Mapping[int, float]) -> dict[int, Day]:
    """Map each day (days since 1970) to the load of its hours, divided by the day's mean.

    Omits days without traffic, and days with fewer than half of the hours.
    """
    days: dict[int, dict[int, float]] = {}
    for hour_ms, total in totals.items():
        day, hour = divmod(hour_ms // HOUR_MS, _DAY)
        days.setdefault(day, {})[hour] = total
    found: dict[int, Day] = {}
    for day, loads in days.items():
        mean = fmean(loads.values())
        if mean and 2 * len(loads) >= _DAY:
            found[day] = {hour: total / mean for hour, total in loads.items()}
    return found


def _profile(days: Iterable[Day]) -> list[float] | None:
    """Return the median load of each hour of the day, or None unless every hour has data of two days."""
    shares: list[list[float]] = [[] for _ in range(_DAY)]
    for loads in days:
        for hour, share in loads.items():
            shares[hour].append(share)
    return (
        None
        if any(len(values) < _FEWEST_DAYS for values in shares)
        else [median(values) for values in shares]
    )


def _lightest(profile: list[float], hours: int) -> int:
    return min(range(_DAY), key=lambda first: (fmean(_run(profile, first, hours)), first))


def _own(profile: list[float] | None, common: int, hours: int) -> int:
    """Return the first hour of the quiet window of a weekday.

    Returns `common`, unless the load in another window is clearly lower.
    """
    if profile is None:
        return common
    own = _lightest(profile, hours)
    own_load, common_load = (fmean(_run(profile, first, hours)) for first in (own, common))
    return own if common_load > _CLEARLY * own_load else common


def _has_contrast(profile: list[float], first: int, terms: QuietTerms) -> bool:
    others = fmean(_run(profile, first + terms.hours, _DAY - terms.hours))
    return others > 0 and others >= terms.contrast * fmean(_run(profile, first, terms.hours))


def _run(profile: list[float], first: int, hours: int) -> list[float]:
    return [profile[(first + number) % _DAY] for number in range(hours)]

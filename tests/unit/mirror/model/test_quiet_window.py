"""Test the quiet hours of a datastream, learned from its hourly load."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.capacity.quiet_window import HOUR_MS, QuietTerms, QuietWindow, quiet_window

MIDNIGHT = 20_000 * 24 * HOUR_MS
TERMS = QuietTerms(hours=5, contrast=1.5)


def daily(first_hour: int, hours: int) -> QuietWindow:
    return QuietWindow((first_hour,) * 7, hours)


def days(count: int, *, low: int = 3, swing: float = 0.8) -> dict[int, float]:
    """Return hourly loads with the minimum around the hour `low`."""
    return {
        MIDNIGHT + hour * HOUR_MS: 100 * (1 - swing * math.cos((hour - low) / 24 * 2 * math.pi))
        for hour in range(24 * count)
    }


def test_the_least_hours_are_found_also_around_midnight() -> None:
    assert quiet_window(days(3, low=3), TERMS) == daily(1, 5)
    found = quiet_window(days(3, low=0), TERMS)
    assert found is not None
    assert found.text == "22:00 to 03:00 UTC"
    assert [found.contains(MIDNIGHT + hour * HOUR_MS) for hour in (21, 22, 26, 27)] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("totals", "terms"),
    [
        (days(3, swing=0.1), TERMS),
        (days(3), QuietTerms(hours=0)),
        (days(1), TERMS),
        ({}, TERMS),
        (dict.fromkeys(days(3), 0.0), TERMS),
        ({hour: load for hour, load in days(4).items() if hour // HOUR_MS % 24 != 12}, TERMS),
    ],
    ids=["even", "not looked for", "one day", "no history", "silent", "an hour of the day is missing"],
)
def test_without_contrast_or_history_there_is_no_window(totals: dict[int, float], terms: QuietTerms) -> None:
    assert quiet_window(totals, terms) is None


def test_a_burst_in_one_night_changes_nothing() -> None:
    totals = days(7)
    totals[MIDNIGHT + 26 * HOUR_MS] = 1_000.0
    assert quiet_window(totals, TERMS) == daily(1, 5)


MONDAY = 20_003 * 24 * HOUR_MS
"""7 October 2024."""


def weeks(count: int) -> dict[int, float]:
    """Return hourly loads with the minimum at 3:00, on Saturdays and Sundays at 15:00."""
    return {
        MONDAY + hour * HOUR_MS: 100 * (1 - 0.8 * math.cos((hour - low) / 24 * 2 * math.pi))
        for hour in range(24 * 7 * count)
        for low in [15 if hour // 24 % 7 >= 5 else 3]
    }


def test_a_weekday_that_differs_has_a_window_of_its_own() -> None:
    found = quiet_window(weeks(2), TERMS)
    assert found == QuietWindow((1, 1, 1, 1, 1, 13, 13), 5)
    assert re.findall(r"[A-Z]\w+|\d\d:\d\d", found.text) == [
        *("Mon", "Fri", "01:00", "06:00"),
        *("Sat", "Sun", "13:00", "18:00"),
        "UTC",
    ]
    hours = [hour for hour in range(24 * 7) if found.contains(MONDAY + hour * HOUR_MS)]
    assert hours == [
        24 * day + first + hour for day, first in enumerate(found.first_hours) for hour in range(5)
    ]


def test_after_one_week_all_days_have_one_window() -> None:
    assert quiet_window(weeks(1), TERMS) == daily(1, 5)


def test_a_window_of_a_sunday_reaches_into_monday() -> None:
    window = QuietWindow((1, 1, 1, 1, 1, 1, 22), 4)
    before_monday, on_monday = MONDAY - HOUR_MS, MONDAY + HOUR_MS
    assert window.contains(before_monday)
    assert window.contains(on_monday)
    assert window.contains(on_monday + 3 * HOUR_MS)
    assert not window.contains(on_monday + 4 * HOUR_MS)


@given(st.integers(0, 23), st.integers(1, 12), st.floats(0.5, 100))
def test_moving_the_day_moves_the_window(low: int, hours: int, factor: float) -> None:
    terms = QuietTerms(hours, 1.2)
    shifted = {at: factor * load for at, load in days(3, low=low).items()}
    window, original = quiet_window(shifted, terms), quiet_window(days(3, low=0), terms)
    assert window is not None
    assert original is not None
    middle = (window.first_hours[0] + window.hours / 2 - low) % 24
    assert min(middle, 24 - middle) <= 1
    assert window.hours == original.hours == hours

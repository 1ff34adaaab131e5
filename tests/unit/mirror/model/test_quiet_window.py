"""The quiet hours of a datastream, learned from its hourly load."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.sizing.quiet_window import HOUR_MS, QuietTerms, QuietWindow, quiet_window

MIDNIGHT = 20_000 * 24 * HOUR_MS
TERMS = QuietTerms(hours=5, contrast=1.5)


def days(count: int, *, low: int = 3, swing: float = 0.8) -> dict[int, float]:
    """Loads with the least around the hour `low`."""
    return {
        MIDNIGHT + hour * HOUR_MS: 100 * (1 - swing * math.cos((hour - low) / 24 * 2 * math.pi))
        for hour in range(24 * count)
    }


def test_the_least_hours_are_found_also_around_midnight() -> None:
    assert quiet_window(days(3, low=3), TERMS) == QuietWindow(1, 5)
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
    assert quiet_window(totals, TERMS) == QuietWindow(1, 5)


@given(st.integers(0, 23), st.integers(1, 12), st.floats(0.5, 100))
def test_moving_the_day_moves_the_window(low: int, hours: int, factor: float) -> None:
    terms = QuietTerms(hours, 1.2)
    shifted = {at: factor * load for at, load in days(3, low=low).items()}
    window, original = quiet_window(shifted, terms), quiet_window(days(3, low=0), terms)
    assert window is not None
    assert original is not None
    middle = (window.first_hour + window.hours / 2 - low) % 24
    assert min(middle, 24 - middle) <= 1
    assert window.hours == original.hours == hours

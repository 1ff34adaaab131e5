"""Forecasts of weekly series with steps, trends, holidays, gaps and daylight saving time."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from assigner.forecast.rules import DAY, WEEK, SeasonalRules, Values
from bench.placement.forecast import KINDS, Outcome, outcomes, simple_outcomes, weekly_series
from tests.examples import examples

SERIES = max(2 * len(KINDS), examples(60))


@pytest.fixture(scope="module")
def found() -> list[list[Outcome]]:
    return [outcomes(weekly_series(seed)) for seed in range(SERIES)]


@pytest.mark.parametrize("weekday", range(7))
def test_every_weekday_is_forecast_within_a_tenth(weekday: int, found: list[list[Outcome]]) -> None:
    errors = [days[weekday].error for days in found]
    assert np.median(errors) <= 0.05
    assert np.mean(np.array(errors) <= 0.1) >= 0.9


def test_the_tasks_at_the_peak_are_right_within_one(found: list[list[Outcome]]) -> None:
    assert np.mean([day.tasks_off <= 1 for day in chain(*found)]) >= 0.95


def test_saturdays_are_no_fridays(found: list[list[Outcome]]) -> None:
    """A simpler rule fails on the same series."""
    simple = [simple_outcomes(weekly_series(seed)) for seed in range(SERIES)]
    assert np.median([days[5].error for days in simple]) > 0.1
    assert np.median([days[5].error for days in found]) < 0.05


def with_outage(begins: int, hours: int, rest: float) -> tuple[Values, Values]:
    """Return eight weeks with an outage in the seventh, and without."""
    rng, hour = np.random.default_rng(begins), np.arange(8 * WEEK)
    weekend = np.where(hour // DAY % 7 >= 5, 0.6, 1.0)
    whole = (1 + 0.6 * np.sin(2 * np.pi * hour / DAY)) * weekend * np.exp(rng.normal(0, 0.04, len(hour)))
    series = whole.copy()
    series[begins : begins + hours] *= rest
    return series, whole


@pytest.mark.parametrize("hours", [1, 2, 3, 6, 12, 24])
@pytest.mark.parametrize("after", [0, 10, 15, 20])
@pytest.mark.parametrize("rest", [0.0, 0.02])
def test_a_week_after_an_outage_is_no_multiple_of_it(hours: int, after: int, rest: float) -> None:
    """The level was the ratio to the outage: up to eight times too high."""
    begins = 6 * WEEK + 2 * DAY + after
    series, whole = with_outage(begins, hours, rest)
    found = SeasonalRules(series).forecasts(DAY)
    for origin in range(begins + WEEK - 30, begins + WEEK + hours + 30):
        ahead = whole[origin + 1 : origin + 1 + DAY]
        assert np.max(found[: len(ahead), origin] / ahead) < 1.5


def test_a_step_up_is_no_end_of_an_outage() -> None:
    """The level of what is new within a week: all earlier weeks were low."""
    hour = np.arange(6 * WEEK)
    series = np.where(hour < 5 * WEEK, 1.0, 10.0) * (2 + np.sin(2 * np.pi * hour / DAY))
    found = SeasonalRules(series).forecasts(DAY)
    for origin in range(5 * WEEK + DAY, 6 * WEEK - DAY):
        truth = series[origin + 1 : origin + 1 + DAY]
        assert np.all(found[:, origin] > 0.7 * truth)

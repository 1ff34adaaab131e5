"""Forecasts of weekly series with steps, trends, holidays, gaps and daylight saving time."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

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

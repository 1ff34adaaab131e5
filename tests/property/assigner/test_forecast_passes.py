"""Forecasts computed for many hours at once against the same computed one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from assigner.forecast.rules import SeasonalRules, Values
from assigner.forecast.seasonal import LONGEST_AHEAD, SeasonalForecast

SERIES = st.integers(48, 400).flatmap(
    lambda hours: arrays(
        np.float64, hours, elements=st.one_of(st.just(float("nan")), st.just(0.0), st.floats(1.0, 1e12))
    )
)


@given(SERIES, st.integers(1, LONGEST_AHEAD))
def test_a_forecast_of_an_hour_does_not_depend_on_the_hours_after_it(series: Values, ahead: int) -> None:
    whole = SeasonalRules(series).forecasts(LONGEST_AHEAD)
    np.testing.assert_array_equal(SeasonalRules(series).forecasts(ahead), whole[:ahead])


@given(SERIES)
def test_the_high_end_is_at_least_the_middle_and_the_low_end_at_most(series: Values) -> None:
    low, middle, high = SeasonalForecast(series, 24, 0.97).interval()
    known = np.isfinite(middle)
    assert (low[known] <= middle[known]).all()
    assert (middle[known] <= high[known]).all()

"""Forecasts a series of hourly values with lower and upper bounds.

The prediction of the best of several rules is multiplied by past ratios of actual to predicted values. The
errors are computed from the series itself: for each past hour, the forecast that would have been made over
the same distance is compared with the actual value. Quantiles of the ratios between forecast and actual value
give the interval.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from assigner.forecast.rules import DAY, WEEK, SeasonalRules, Values
from mirror.errors import InvalidRequest
from mirror.wording import counted

Places = npt.NDArray[np.int64]

FEWEST_HOURS: Final = 2 * DAY
"""Minimum number of hours: one day to forecast from, and one day to measure errors."""
LONGEST_AHEAD: Final = WEEK
_GRADED: Final = 4 * WEEK
_ALIKE: Final = 3
"""Maximum difference in hours between two times of the week that count as the same time."""


class ForecastInterval(NamedTuple):
    """Forecast with bounds, each float64[hours ahead]; NaN if there is no forecast. Half of the actual values
    are below `middle`. With the requested certainty, an actual value is at least `low` and at most `high`."""

    low: Values
    middle: Values
    high: Values


class ForecastGrade(NamedTuple):
    """Accuracy of past forecasts, compared with the actual values.

    `tried`: number of forecast hours. `covered`: share of the forecasts whose upper bound was not exceeded.
    `error`: median error of the median forecast, as a share of the actual value.
    """

    tried: int
    covered: float
    error: float


class SeasonalForecast:
    """Forecast of `ahead` hours after a series: float64[hours], oldest first, NaN if an hour is unknown.

    Raises InvalidRequest for less than two days, more than a week ahead, or a certainty that is not between
    0.5 and 1.
    """

    def __init__(self, series: Values, ahead: int, certainty: float) -> None:
        _refuse_impossible(series, ahead, certainty)
        self._series = series
        self._shares = (1 - certainty, 0.5, certainty)
        self._bases = SeasonalRules(series).forecasts(ahead)
        self._ratios = [self._ratios_over(distance) for distance in range(1, ahead + 1)]

    def interval(self) -> ForecastInterval:
        """Return the forecast of each hour ahead, with its bounds."""
        hours = []
        for bases, (ratios, _) in zip(self._bases, self._ratios, strict=True):
            # Without past errors, e.g. if nothing was carried then, the rule's forecast is used.
            places = np.array(self._shares) * (len(ratios) - 1)
            factors = np.interp(places, np.arange(len(ratios)), ratios) if len(ratios) else np.ones(3)
            hours.append(factors * bases[-1])
        return ForecastInterval(*np.array(hours).T)

    def grade(self) -> ForecastGrade:
        """Compare forecasts made in the last four weeks with the actual values.

        Only forecasts made at this time of the week count, because they cover the same weekdays; without any,
        all forecasts count. A forecast uses only data known at its time.
        """
        hours = len(self._series)
        origins = np.arange(max(FEWEST_HOURS - 1, hours - _GRADED), hours - 1)
        alike = (hours - 1 - origins + _ALIKE) % WEEK <= 2 * _ALIKE
        same_days = self._grade(origins[alike & (origins < hours - 1 - _ALIKE)])
        return same_days if same_days.tried else self._grade(origins)

    def _grade(self, origins: Places) -> ForecastGrade:
        came, forecast = [np.empty(0)], [np.empty((0, 3))]
        for distance in range(1, len(self._bases) + 1):
            past = origins[origins + distance < len(self._series)]
            forecast.append(self._candidates(past, distance))
            came.append(self._series[past + distance])
        actual, (_, middle, high) = np.concatenate(came), np.concatenate(forecast).T
        known = np.isfinite(actual) & np.isfinite(high)
        if not known.any():
            return ForecastGrade(0, float("nan"), float("nan"))
        actual, high, middle = actual[known], high[known], middle[known]
        errors = np.abs(middle - actual)[actual > 0] / actual[actual > 0]
        error = float(np.median(errors)) if len(errors) else float("nan")
        return ForecastGrade(len(actual), float((actual <= high).mean()), error)

    def _ratios_over(self, distance: int) -> tuple[Values, Places]:
        """Return, in ascending order, actual values divided by their forecasts from `distance` hours before.

        Also return the hour of the actual value of each ratio.
        """
        bases = self._bases[distance - 1]
        past = np.arange(DAY - 1, len(self._series) - distance)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(bases[past] > 0, self._series[past + distance] / bases[past], np.nan)
        is_known = np.isfinite(ratios)
        past, ratios = past[is_known], ratios[is_known]
        order = np.argsort(ratios)
        return ratios[order], past[order] + distance

    def _candidates(self, origins: Places, distance: int) -> Values:
        """Return low, middle and high forecast for `distance` hours after each origin: float64[origins, 3].

        Only data known at the origin is used.
        """
        bases, (ratios, ends) = self._bases[distance - 1], self._ratios[distance - 1]
        found = np.full((len(origins), 3), np.nan)
        if not len(ratios):
            return found
        is_known = ends <= origins[:, None]
        known = np.flatnonzero(is_known)  # of one origin after the other, ascending ratios
        counts = np.count_nonzero(is_known, axis=1)
        rows = np.flatnonzero(counts)
        starts, lasts = (np.cumsum(counts) - counts)[rows], counts[rows] - 1
        place = np.array(self._shares)[:, None] * lasts
        below = place.astype(np.int64)
        above = np.minimum(below + 1, lasts)
        lower, upper = ratios[known[np.array([below, above]) + starts] - rows * len(ratios)]
        found[rows] = (lower + (place - below) * (upper - lower)).T
        return np.asarray(found * bases[origins][:, None])


def _refuse_impossible(series: Values, ahead: int, certainty: float) -> None:
    if len(series) < FEWEST_HOURS:
        raise InvalidRequest(
            f"{counted(len(series), 'hour is', 'hours are')} not enough history for a forecast",
            advice="provide at least two days, ideally two weeks",
        )
    if not 1 <= ahead <= LONGEST_AHEAD:
        raise InvalidRequest(f"a forecast can reach 1 to {LONGEST_AHEAD} hours ahead, not {ahead}")
    if not 0.5 < certainty < 1:
        raise InvalidRequest(f"the certainty is {certainty}; it must be above 0.5 and below 1")

"""Forecast of one hour by the rule that did best for similar hours. Pure arithmetic on arrays.

Rules for the hour `distance` hours after an origin:

- day: the value of the same hour of the previous day;
- week: the value of the same hour of the previous week, times the level: the ratio between the latest hours
  and the same hours of that week;
- weeks: the median of this over the last four weeks, which one holiday or outage does not spoil;
- higher: the larger of day and week;
- present: the value of the present hour, for the next one.

No rule is right everywhere: Saturdays differ from Fridays, a step makes all earlier weeks wrong, and some
series have no weekly pattern. For each hour the rule is chosen that came closest in the same hours of its
weekday in past weeks and in the last day, by forecasts over the same distance.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Values = npt.NDArray[np.float64]

DAY: Final = 24
WEEK: Final = 7 * DAY
_WEEKS: Final = 4
_PRESENT: Final = 1
"""Horizon in hours for which the rule `present` applies."""
_NEWEST: Final = 3
"""Number of hours that show a step, or the end of a holiday, before a day has passed."""
_STEP: Final = 1.25
"""Ratio between the latest hours and the last day above which the hours alone determine the level."""
_AROUND: Final = 2
"""Number of hours before and after one whose errors are included in its score."""
_HIGHEST_LEVEL: Final = 8.0
_UNTRIED: Final = np.finfo(np.float64).max


class SeasonalRules:
    """The rules applied to a series: float64[hours], oldest first, NaN if an hour is unknown."""

    def __init__(self, series: Values) -> None:
        self._series = series
        self._levels = [_level(series, WEEK * number) for number in range(1, _WEEKS + 1)]

    def forecasts(self, distance: int) -> Values:
        """Return the forecast of the best rule for `distance` hours after each hour of the series.

        float64[hours], from the data known at each hour; NaN if no rule applies.
        """
        forecast = self._candidates(distance)
        scores = _scores(np.abs(forecast - _moved(self._series, -distance)), distance)
        scores[np.isnan(scores)] = _UNTRIED
        scores[np.isnan(forecast)] = np.inf
        best = np.argmin(scores, axis=0)
        return np.asarray(forecast[best, np.arange(len(self._series))])

    def _candidates(self, distance: int) -> Values:
        """Return the forecast of each rule: float64[rules, hours]. The first rule is used while none has been
        scored."""
        series = self._series
        day = _moved(series, DAY * -(-distance // DAY) - distance)
        weeks = np.array([
            _moved(series, WEEK * number - distance) * level for number, level in enumerate(self._levels, 1)
        ])  # fmt: skip
        rules = [np.fmax(day, weeks[0]), day, weeks[0], _median(weeks)]
        return np.array([*rules, series] if distance <= _PRESENT else rules)


def _moved(values: Values, hours: int) -> Values:
    """Return for each hour (the last axis) the value `hours` before it; after it if negative."""
    found = np.full(values.shape, np.nan)
    if hours >= values.shape[-1]:
        return found
    if hours >= 0:
        found[..., hours:] = values[..., : values.shape[-1] - hours]
    else:
        found[..., :hours] = values[..., -hours:]
    return found


def _level(series: Values, lag: int) -> Values:
    """Return the ratio between the hours up to each and those `lag` hours before; 1 if unknown."""
    day, newest = _ratio(series, lag, DAY), _ratio(series, lag, _NEWEST)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_step = np.abs(np.log(newest / day)) > np.log(_STEP)
    found = np.where(is_step, newest, day)
    return np.clip(np.where(np.isnan(found), 1.0, found), 1 / _HIGHEST_LEVEL, _HIGHEST_LEVEL)


def _ratio(series: Values, lag: int, hours: int) -> Values:
    """Return the sum of the last `hours` divided by that of the hours `lag` before; NaN if that sum is 0."""
    before = _moved(series, lag)
    both = np.isfinite(series) & np.isfinite(before)
    new, old = (_sums(np.where(both, values, 0.0), hours) for values in (series, before))
    return np.asarray(np.divide(new, old, out=np.full(len(series), np.nan), where=old > 0))


def _sums(values: Values, hours: int) -> Values:
    """Return the sum of each hour (the last axis) and those before it, `hours` in total. Exact, unlike a
    running sum, so that zero stays zero."""
    padding = np.zeros((*values.shape[:-1], hours - 1))
    windows = sliding_window_view(np.concatenate([padding, values], axis=-1), hours, axis=-1)
    return np.asarray(windows.sum(axis=-1))


def _median(rows: Values) -> Values:
    """Return the median of the known values in each column."""
    ordered = np.sort(rows, axis=0)
    counts, columns = np.isfinite(ordered).sum(axis=0), np.arange(rows.shape[1])
    below, above = np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, len(rows) - 1)
    return np.asarray((ordered[below, columns] + ordered[above, columns]) / 2)


def _scores(errors: Values, distance: int) -> Values:
    """Return the mean error of each rule: float64[rules, hours], NaN if it was never tried.

    `errors`: errors of its forecasts by hour. Only errors known at the time of the forecast count.
    """
    is_known = np.isfinite(errors)
    known = np.where(is_known, errors, 0.0)

    def mean(hours: int, ends: list[int]) -> Values:
        """Return, for each hour, the mean over periods of `hours` hours that end `ends` hours before it."""
        total, count = _sums(known, hours), _sums(is_known.astype(np.float64), hours)
        sums, counts = (np.nansum([_moved(values, end) for end in ends], axis=0) for values in (total, count))
        return np.asarray(np.divide(sums, counts, out=np.full(errors.shape, np.nan), where=counts > 0))

    weekdays = [max(WEEK * week - _AROUND, distance) for week in range(1, _WEEKS + 1)]
    of_weekday, of_newest_day = mean(2 * _AROUND + 1, weekdays), mean(DAY, [distance])
    return np.where(np.isnan(of_weekday), of_newest_day, of_weekday + np.nan_to_num(of_newest_day))

"""Forecast of one hour by the rule that was best for similar hours. Pure arithmetic on arrays.

Rules for the hour `distance` hours after an origin:

- day: the value of the same hour of the previous day;
- week: the value of the same hour of the previous week, times the level: the ratio between the latest hours
  and the same hours of that week, without hours that were an outage then;
- weeks: the median of this over the last four weeks, which one holiday or outage does not spoil;
- trend: the same with the level of a whole week instead of the latest hours, which weather or an event on the
  last day does not spoil;
- usual: the median of the last four weeks without a level;
- higher: the larger of day and week;
- present: the value of the present hour, for the next one.

No rule is always right: Saturdays differ from Fridays, after a step all earlier weeks are wrong, and some
series have no weekly pattern. For each hour the rule with the smallest error is chosen, judged by forecasts
over the same distance for the same hours of its weekday in past weeks and for the last day.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Distances = npt.NDArray[np.int64]
Numbers = TypeVar("Numbers", npt.NDArray[np.float64], npt.NDArray[np.int16])

DAY: Final = 24
WEEK: Final = 7 * DAY
_WEEKS: Final = 4
_PRESENT: Final = 1
"""Horizon in hours for which the rule `present` applies."""
_NEWEST: Final = 3
"""Number of latest hours that reveal a step, or the end of a holiday, within a day."""
_STEP: Final = 1.25
"""Ratio between the levels of the latest hours and of the last day above which only the latest hours
count."""
_AROUND: Final = 2
"""Number of hours before and after an hour whose errors are included in its score."""
_TOGETHER: Final = 24
"""Distances computed in one pass."""
_HIGHEST_LEVEL: Final = 8.0
_OUTAGE: Final = 1 / 3
"""An hour counts as an outage if its load is below this share of the load in the same hour a week before and
a week after."""
_UNTRIED: Final = np.finfo(np.float64).max


class SeasonalRules:
    """The rules applied to a series: float64[hours], oldest first, NaN if an hour is unknown."""

    def __init__(self, series: Values) -> None:
        self._series = series
        lags = [WEEK * number for number in range(1, _WEEKS + 1)]
        usual = np.where(_is_outage(series), np.nan, series)
        self._levels = [_level(series, usual, lag) for lag in lags]
        self._trends = [_clipped(_ratio(series, usual, lag, WEEK)) for lag in lags]

    def forecasts(self, ahead: int) -> Values:
        """Return the forecast of the best rule for 1 to `ahead` hours after each hour of the series.

        float64[ahead, hours], from the data known at each hour; NaN if no rule applies.
        """
        return np.concatenate([self._best(distances) for distances in _passes(ahead)])

    def _best(self, distances: Distances) -> Values:
        candidates = self._candidates(distances)
        errors = candidates - _each_moved(self._series, -distances)
        scores = _scores(np.abs(errors, out=errors), distances)
        scores[np.isnan(scores)] = _UNTRIED
        scores[np.isnan(candidates)] = np.inf
        best = np.argmin(scores, axis=0)
        return np.asarray(np.take_along_axis(candidates, best[None], axis=0)[0])

    def _candidates(self, distances: Distances) -> Values:
        """Return the forecast of each rule: float64[rules, distances, hours]. The first rule is used until
        rules have scores."""
        series = self._series
        day = _each_moved(series, DAY * -(-distances // DAY) - distances)
        usual = [_each_moved(series, WEEK * number - distances) for number in range(1, _WEEKS + 1)]
        weeks, trend = (
            [values * level for values, level in zip(usual, levels, strict=True)]
            for levels in (self._levels, self._trends)
        )
        rules = [np.fmax(day, weeks[0]), day, weeks[0], _median(weeks), _median(trend), _median(usual)]
        if distances[-1] <= _PRESENT:
            rules.append(np.broadcast_to(series, day.shape))
        return np.array(rules)


def _passes(ahead: int) -> list[Distances]:
    """Return the distances up to `ahead`, divided into runs with the same rules and the same ends of
    weekdays."""
    limits = [0, _PRESENT, *range(_TOGETHER, WEEK - _AROUND, _TOGETHER), WEEK - _AROUND, WEEK - 1, WEEK]
    runs = (np.arange(low + 1, min(high, ahead) + 1) for low, high in pairwise(limits))
    return [run for run in runs if len(run)]


def _moved(values: Values, hours: int) -> Values:
    """Return for each hour (the last axis) the value `hours` before it, or after it if negative."""
    found = np.full(values.shape, np.nan)
    if abs(hours) >= values.shape[-1]:
        return found
    if hours >= 0:
        found[..., hours:] = values[..., : values.shape[-1] - hours]
    else:
        found[..., :hours] = values[..., -hours:]
    return found


def _each_moved(series: Values, hours: Distances) -> Values:
    """Return the series moved by each of some numbers of hours: float64[len(hours), len(series)]."""
    return np.array([_moved(series, hour) for hour in hours.tolist()])


def _is_outage(series: Values) -> npt.NDArray[np.bool_]:
    """Return the hours that were an outage. This is known a week later, when the value of such an hour is
    first used as that of an earlier week."""
    before, after = _moved(series, WEEK), _moved(series, -WEEK)
    return np.asarray((series < _OUTAGE * before) & (series < _OUTAGE * after))


def _level(series: Values, usual: Values, lag: int) -> Values:
    """Return, for each hour, the ratio between the load in the hours up to it and the load `lag` hours
    earlier; 1 if unknown. `usual`: the series without outages, for the hours before."""
    day, newest = _ratio(series, usual, lag, DAY), _ratio(series, usual, lag, _NEWEST)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_step = np.abs(np.log(newest / day)) > np.log(_STEP)
    return _clipped(np.where(is_step, newest, day))


def _clipped(levels: Values) -> Values:
    """Return the levels, 1 if unknown."""
    return np.clip(np.where(np.isnan(levels), 1.0, levels), 1 / _HIGHEST_LEVEL, _HIGHEST_LEVEL)


def _ratio(series: Values, usual: Values, lag: int, hours: int) -> Values:
    """Return the sum of the last `hours` divided by that of the usual hours `lag` before; NaN if that sum is
    0."""
    before = _moved(usual, lag)
    both = np.isfinite(series) & np.isfinite(before)
    new, old = (_sums(np.where(both, values, 0.0), hours) for values in (series, before))
    return np.asarray(np.divide(new, old, out=np.full(len(series), np.nan), where=old > 0))


def _sums(values: Numbers, hours: int) -> Numbers:
    """Return, for each hour (last axis), the sum over the `hours` hours that end with it. Adds windows of
    doubled length; unlike a running sum, zero stays zero."""
    found: Numbers | None = None
    window, length, covered = values, 1, 0
    while covered < hours:
        if hours & length:
            found = window if found is None else _plus_moved(found, window, covered)
            covered += length
        if covered < hours:
            window = _plus_moved(window, window, length)
            length *= 2
    return values if found is None else found


def _plus_moved(values: Numbers, others: Numbers, hours: int) -> Numbers:
    """Return the sum of the values and of the others, with the others moved `hours` later."""
    found = np.empty_like(values)
    found[..., :hours] = values[..., :hours]
    np.add(values[..., hours:], others[..., : max(values.shape[-1] - hours, 0)], out=found[..., hours:])
    return found


def _median(rows: Sequence[Values]) -> Values:
    """Return the element-wise median of the known values of four arrays."""
    known = np.sum([np.isfinite(row) for row in rows], axis=0)
    one, two, three, four = (np.where(np.isfinite(row), row, np.inf) for row in rows)
    one, two = np.minimum(one, two), np.maximum(one, two)
    three, four = np.minimum(three, four), np.maximum(three, four)
    first, second = np.minimum(one, three), np.maximum(one, three)
    third = np.minimum(two, four)
    second, third = np.minimum(second, third), np.maximum(second, third)
    below = np.where(known >= 3, second, first)
    above = np.where(known >= 4, third, np.where(known >= 2, second, first))
    return np.where(known > 0, (below + above) / 2, np.nan)


def _scores(errors: Values, distances: Distances) -> Values:
    """Return the mean error of each rule: float64[rules, distances, hours], NaN if it was never tried.

    `errors`: errors of its forecasts by hour. Only errors known at the time of the forecast count.
    """
    is_known = np.isfinite(errors)
    sums, counts = (
        _of_ends(values, distances) for values in (np.where(is_known, errors, 0.0), is_known.astype(np.int16))
    )
    weekly, newest = (
        np.divide(total, count, out=np.full(errors.shape, np.nan), where=count > 0)
        for total, count in zip(sums, counts, strict=True)
    )
    return np.asarray(np.where(np.isnan(weekly), newest, weekly + np.nan_to_num(newest)))


def _of_ends(values: Numbers, distances: Distances) -> tuple[Numbers, Numbers]:
    """Return the sums of the values around the same hour of the weekday in past weeks, and over the last day
    whose values are known."""
    hours = values.shape[-1]
    weekly, newest = np.zeros_like(values), np.zeros_like(values)
    windows = _sums(values, 2 * _AROUND + 1)
    for week in range(1, _WEEKS + 1):
        end = max(WEEK * week - _AROUND, int(distances[-1]))
        weekly[..., end:] += windows[..., : max(hours - end, 0)]
    windows = _sums(values, DAY)
    for place, end in enumerate(distances.tolist()):
        newest[..., place, end:] = windows[..., place, : max(hours - end, 0)]
    return weekly, newest

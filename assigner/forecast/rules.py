"""Forecasts each hour with the rule that was the most accurate for similar past hours. Pure array arithmetic.

Rules for the hour `distance` hours after an origin:

- day: the value of the same hour of the previous day;
- week: the value of the same hour of the previous week, times the level: the ratio between the latest hours
  and the same hours of that week, without hours that were an outage then;
- weeks: the median of this over the last four weeks, which one holiday or outage does not spoil;
- trend: the same with the level of a whole week instead of the latest hours, which weather or an event on the
  last day does not spoil;
- usual: the median of the last four weeks without a level;
- higher: the larger of day and week;
- present: the value of the current hour, for the next one.

No rule is always right: Saturdays differ from Fridays, after a step all earlier weeks are wrong, and some
series have no weekly pattern. For each hour, the rule with the smallest error is chosen. The errors are those
of forecasts over the same distance, for the same hours of the weekday in past weeks and for the last day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided, sliding_window_view

Values = npt.NDArray[np.float64]
Distances = npt.NDArray[np.int64]
Errors = npt.NDArray[np.float32]
Numbers = TypeVar("Numbers", Values, Errors, npt.NDArray[np.int8])

DAY: Final = 24
WEEK: Final = 7 * DAY
_WEEKS: Final = 4
_PRESENT: Final = 1
"""Horizon in hours for which the rule `present` applies."""
_NEWEST: Final = 3
"""Number of latest hours that reveal a step, or the end of a holiday, within a day."""
_STEP: Final = 1.25
"""Ratio of the load of the latest hours to that of the last day, above which only the latest hours count.
Above this ratio, only the latest hours determine the level."""
_AROUND: Final = 2
"""Number of hours before and after an hour whose errors count in its score."""
_TOGETHER: Final = 24
"""Number of distances (hours ahead) computed in one pass."""
_HIGHEST_LEVEL: Final = 8.0
_OUTAGE: Final = 1 / 3
"""An hour was an outage if its load is below this share of the same hour a week before and after."""
_UNTRIED: Final = np.finfo(np.float32).max


class SeasonalRules:
    """Forecasts of a series by several seasonal rules. The series is float64[hours], oldest first, NaN if an
    hour is unknown."""

    def __init__(self, series: Values) -> None:
        self._series = series
        usual = np.where(_is_outage(series), np.nan, series)
        before = np.array([_moved(usual, WEEK * number) for number in range(1, _WEEKS + 1)])
        self._levels, self._trends = _levels(series, before)
        longer = np.concatenate([series, np.full(WEEK, np.nan)])
        self._usual = _median([_moved(longer, WEEK * number) for number in range(1, _WEEKS + 1)])

    def forecasts(self, ahead: int) -> Values:
        """Return the best rule's forecast for each hour of the series and for 1 to `ahead` hours after it.

        float64[ahead, hours], from the data known at each hour; NaN if no rule applies.
        """
        return np.concatenate([self._best(distances) for distances in _passes(ahead)])

    def _best(self, distances: Distances) -> Values:
        came = _each_moved(self._series, -distances)
        best = np.full(came.shape, np.nan)
        lowest = np.full(came.shape, np.inf, np.float32)
        off = np.empty_like(best)
        # One rule at a time, in single precision: its arrays fit into the cache of the processor.
        for forecast in self._candidates(distances):
            np.abs(np.subtract(forecast, came, out=off), out=off)
            scores = _scores(off.astype(np.float32), distances)
            is_better = (scores < lowest) & np.isfinite(forecast)
            np.copyto(lowest, scores, where=is_better)
            np.copyto(best, forecast, where=is_better)
        return best

    def _candidates(self, distances: Distances) -> Iterator[Values]:
        """Yield each rule's forecasts: float64[distances, hours]. The first rule applies until rules have
        scores."""
        series = self._series
        day = _each_moved(series, DAY * -(-distances // DAY) - distances)
        past = [_each_moved(series, WEEK * number - distances) for number in range(1, _WEEKS + 1)]
        week = past[0] * self._levels[0]
        yield np.fmax(day, week)
        yield day
        yield week
        for levels in (self._levels, self._trends):
            yield _median([values * level for values, level in zip(past, levels, strict=True)])
        yield sliding_window_view(self._usual, len(series))[distances[0] : distances[-1] + 1]
        if distances[0] <= _PRESENT:
            yield np.where((distances <= _PRESENT)[:, None], series, np.nan)


def _passes(ahead: int) -> list[Distances]:
    """Split the forecast distances 1 to `ahead` into runs that use the same past weeks."""
    limits = [*range(0, WEEK - _AROUND, _TOGETHER), WEEK - _AROUND, WEEK - 1, WEEK]
    runs = (np.arange(low + 1, min(high, ahead) + 1) for low, high in pairwise(limits))
    return [run for run in runs if len(run)]


def _moved(values: Values, hours: int) -> Values:
    """Shift the series by `hours` towards later hours, or towards earlier hours if negative."""
    found = np.full(values.shape, np.nan)
    if abs(hours) >= values.shape[-1]:
        return found
    if hours >= 0:
        found[..., hours:] = values[..., : values.shape[-1] - hours]
    else:
        found[..., :hours] = values[..., -hours:]
    return found


def _each_moved(series: Values, hours: Distances) -> Values:
    """Return a view with one row for each shift of the series in `hours`, which must decrease in steps of
    one: float64[len(hours), len(series)]."""
    unknown = np.full(int(np.abs(hours).max()), np.nan)
    first = len(unknown) - int(hours[0])
    padded = np.concatenate([unknown, series, unknown])
    return np.asarray(sliding_window_view(padded, len(series))[first : first + len(hours)])


def _is_outage(series: Values) -> npt.NDArray[np.bool_]:
    """Return which hours had an outage, as a mask. An outage is recognized a week later, when a rule would
    first use the hour."""
    before, after = _moved(series, WEEK), _moved(series, -WEEK)
    return np.asarray((series < _OUTAGE * before) & (series < _OUTAGE * after))


def _levels(series: Values, before: Values) -> tuple[Values, Values]:
    """Return the ratio of recent loads to the loads of each earlier week, for each hour: daily levels and
    weekly trends.

    An unknown ratio is 1. `before`: float64[weeks, hours], the same hour in these weeks, without outages.
    """
    both = np.isfinite(series) & np.isfinite(before)
    new, old = (_sums(np.where(both, values, 0.0), _NEWEST, DAY, WEEK) for values in (series, before))
    newest, day, week = (
        np.divide(newer, older, out=np.full(before.shape, np.nan), where=older > 0)
        for newer, older in zip(new, old, strict=True)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        is_step = np.abs(np.log(newest / day)) > np.log(_STEP)
    return _clipped(np.where(is_step, newest, day)), _clipped(week)


def _clipped(levels: Values) -> Values:
    """Limit load ratios to a plausible range. An unknown ratio becomes 1."""
    return np.clip(np.where(np.isnan(levels), 1.0, levels), 1 / _HIGHEST_LEVEL, _HIGHEST_LEVEL)


def _sums(values: Numbers, *lengths: int) -> list[Numbers]:
    """Return, for each length, the sums of that many consecutive values.

    Each sum ends at an hour (the last axis). Windows of doubled length are added; unlike with a running sum,
    zero stays zero.
    """
    found = [values] * len(lengths)
    window = values
    for power in range(max(lengths).bit_length()):
        length = 1 << power
        if power:
            window = _plus_moved(window, window, length // 2)
        for place, wanted in enumerate(lengths):
            if wanted & length:
                covered = wanted % length
                found[place] = _plus_moved(found[place], window, covered) if covered else window
    return found


def _plus_moved(values: Numbers, others: Numbers, hours: int) -> Numbers:
    """Return `values` plus `others` shifted by `hours` towards later hours."""
    found = np.empty_like(values)
    found[..., :hours] = values[..., :hours]
    np.add(values[..., hours:], others[..., : max(values.shape[-1] - hours, 0)], out=found[..., hours:])
    return found


def _median(rows: Sequence[Values]) -> Values:
    """Return the element-wise median of the known values of four arrays, which are overwritten."""
    first, second, third, fourth = rows
    for lower, upper in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
        # Sorts unknown values last: `fmin` ignores NaN, `maximum` returns it.
        low = np.fmin(rows[lower], rows[upper])
        np.maximum(rows[lower], rows[upper], out=rows[upper])
        rows[lower][...] = low
    below = np.where(np.isnan(third), first, second)
    above = np.where(np.isnan(fourth), np.where(np.isnan(second), first, second), third)
    below += above
    below /= 2
    return below


def _scores(errors: Errors, distances: Distances) -> Errors:
    """Return the mean past error of a forecast rule for each distance and hour: float32[distances, hours].

    A rule that was never tried has the largest number. `errors`: errors of the rule's forecasts by hour. Only
    errors known at the time of the forecast count.
    """
    is_known = np.isfinite(errors)
    (weekly, newest), counts = (
        _of_ends(values, distances) for values in (np.where(is_known, errors, 0), is_known.astype(np.int8))
    )
    weeks, days = (np.maximum(count, 1).astype(np.float32) for count in counts)
    scores = weekly / weeks + newest / days
    return np.where(counts[0] | counts[1], scores, _UNTRIED)


def _of_ends(values: Numbers, distances: Distances) -> tuple[Numbers, Numbers]:
    """Return two sums of past values for each hour: around the same hour in past weeks, and over the last
    day.

    The first sum contains values around the same hour of the same weekday. The second sum contains the last
    day with known values.
    """
    hours, last = values.shape[-1], int(distances[-1])
    weekly = np.zeros_like(values)
    around, days = _sums(values, 2 * _AROUND + 1, DAY)
    for week in range(1, _WEEKS + 1):
        end = max(WEEK * week - _AROUND, last)
        weekly[:, end:] += around[:, : max(hours - end, 0)]
    padded = np.zeros((len(values), last + hours), values.dtype)
    padded[:, last:] = days
    # Each row is moved by one hour more than the row before it.
    rows, columns = padded.strides
    moved = padded[:, last - int(distances[0]) :]
    return weekly, as_strided(moved, values.shape, (rows - columns, columns), writeable=False)

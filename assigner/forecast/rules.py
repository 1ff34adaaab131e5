"""What an hour will carry, by the rule that did best for such hours. Pure arithmetic on arrays.

Rules for the hour that comes `distance` hours after an origin:

- day: as much as the same hour of the day before;
- week: as much as the same hour of the week before, times the level: how the newest hours compare with the
  same hours of that week;
- weeks: the median of what each of the last four weeks says so, which a holiday or an outage in one of them
  does not spoil;
- higher: the larger of day and week;
- present: as much as the present hour, for the next one.

None of them is right everywhere: Saturdays are no Fridays, a step makes all weeks before it wrong, and some
series have no week. For each hour that rule is taken which came closest in the same hours of its weekday in
past weeks and in the newest day, by forecasts over the same distance.
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
"""Hours ahead for which the present hour says something."""
_NEWEST: Final = 3
"""Hours that show a step, or the end of a holiday, before a day has passed."""
_STEP: Final = 1.25
"""Factor between the newest hours and the newest day from which on the hours alone make the level."""
_AROUND: Final = 2
"""Hours before and after one whose errors count with its own."""
_HIGHEST_LEVEL: Final = 8.0
_UNTRIED: Final = np.finfo(np.float64).max


class SeasonalRules:
    """The rules on a series: float64[hours], oldest first, NaN where an hour is not known."""

    def __init__(self, series: Values) -> None:
        self._series = series
        self._levels = [_level(series, WEEK * number) for number in range(1, _WEEKS + 1)]

    def forecasts(self, distance: int) -> Values:
        """Return what the best rule says of the hour that comes `distance` hours after each of the series.

        float64[hours], by what was known at each of them; NaN where no rule says anything.
        """
        said = self._said(distance)
        scores = _scores(np.abs(said - _moved(self._series, -distance)), distance)
        scores[np.isnan(scores)] = _UNTRIED
        scores[np.isnan(said)] = np.inf
        best = np.argmin(scores, axis=0)
        return np.asarray(said[best, np.arange(len(self._series))])

    def _said(self, distance: int) -> Values:
        """Return what each rule says: float64[rules, hours]. The first is taken while none was tried."""
        series = self._series
        day = _moved(series, DAY * -(-distance // DAY) - distance)
        weeks = np.array([
            _moved(series, WEEK * number - distance) * level for number, level in enumerate(self._levels, 1)
        ])  # fmt: skip
        rules = [np.fmax(day, weeks[0]), day, weeks[0], _median(weeks)]
        return np.array([*rules, series] if distance <= _PRESENT else rules)


def _moved(values: Values, hours: int) -> Values:
    """Return for each hour (the last axis) the value `hours` before it, after it where that is negative."""
    found = np.full(values.shape, np.nan)
    if hours >= values.shape[-1]:
        return found
    if hours >= 0:
        found[..., hours:] = values[..., : values.shape[-1] - hours]
    else:
        found[..., :hours] = values[..., -hours:]
    return found


def _level(series: Values, lag: int) -> Values:
    """Return how the hours up to each compare with those `lag` hours before; 1 where that is not known."""
    day, newest = _ratio(series, lag, DAY), _ratio(series, lag, _NEWEST)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_step = np.abs(np.log(newest / day)) > np.log(_STEP)
    found = np.where(is_step, newest, day)
    return np.clip(np.where(np.isnan(found), 1.0, found), 1 / _HIGHEST_LEVEL, _HIGHEST_LEVEL)


def _ratio(series: Values, lag: int, hours: int) -> Values:
    """Return the sum of the newest `hours` by that of the same ones before; NaN where nothing was carried."""
    before = _moved(series, lag)
    both = np.isfinite(series) & np.isfinite(before)
    new, old = (_sums(np.where(both, values, 0.0), hours) for values in (series, before))
    return np.asarray(np.divide(new, old, out=np.full(len(series), np.nan), where=old > 0))


def _sums(values: Values, hours: int) -> Values:
    """Return the sum of each hour (the last axis) and those before it, `hours` in all; exact, as no running
    sum is, so that nothing stays nothing."""
    padding = np.zeros((*values.shape[:-1], hours - 1))
    windows = sliding_window_view(np.concatenate([padding, values], axis=-1), hours, axis=-1)
    return np.asarray(windows.sum(axis=-1))


def _median(rows: Values) -> Values:
    """Return the median of what is known in each column."""
    ordered = np.sort(rows, axis=0)
    counts, columns = np.isfinite(ordered).sum(axis=0), np.arange(rows.shape[1])
    below, above = np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, len(rows) - 1)
    return np.asarray((ordered[below, columns] + ordered[above, columns]) / 2)


def _scores(errors: Values, distance: int) -> Values:
    """Return how far off each rule was: float64[rules, hours], NaN where it was not tried.

    `errors`: of what it said in each hour. Those count that were known at the hour of the forecast.
    """
    is_known = np.isfinite(errors)
    known = np.where(is_known, errors, 0.0)

    def mean(hours: int, ends: list[int]) -> Values:
        """Return the mean of `hours` forecasts up to each of `ends` hours before."""
        total, count = _sums(known, hours), _sums(is_known.astype(np.float64), hours)
        sums, counts = (np.nansum([_moved(values, end) for end in ends], axis=0) for values in (total, count))
        return np.asarray(np.divide(sums, counts, out=np.full(errors.shape, np.nan), where=counts > 0))

    weekdays = [max(WEEK * week - _AROUND, distance) for week in range(1, _WEEKS + 1)]
    of_weekday, of_newest_day = mean(2 * _AROUND + 1, weekdays), mean(DAY, [distance])
    return np.where(np.isnan(of_weekday), of_newest_day, of_weekday + np.nan_to_num(of_newest_day))

"""One series of hourly values continued: the larger of the same hour a day and a week before, times what such
a forecast was wrong by in the past.

The next hour counts the present one, too. What a forecast was wrong by is looked up in the series itself:
for each hour of the past with enough hours before it, the forecast that would have been made is compared
with what came, for the same distance. The quantiles of these ratios make the interval.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mirror.errors import InvalidRequest
from mirror.wording import counted

Values = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

DAY: Final = 24
WEEK: Final = 7 * DAY
_PRESENT: Final = 1
"""Hours ahead for which the present hour says something."""
FEWEST_HOURS: Final = 2 * DAY
"""A day to forecast from, and a day to be wrong about."""
LONGEST_AHEAD: Final = WEEK
_GRADED: Final = 4 * WEEK


class Interval(NamedTuple):
    """float64[hours ahead] each: half of the time less than `middle` comes, and as often as was asked for no
    more than `high` and no less than `low`. NaN where the past says nothing."""

    low: Values
    middle: Values
    high: Values


class Grade(NamedTuple):
    """How forecasts of the past came out. `tried`: forecasts of an hour. `covered`: share of these that lay
    at or above what came; `error`: the median of how far the middle was off, as a share of what came."""

    tried: int
    covered: float
    error: float


def continued(series: Values, ahead: int, certainty: float) -> Interval:
    """The next `ahead` hours of float64[hours], oldest first, NaN where an hour is not known.

    Raises InvalidRequest for less than two days, more than a week ahead, or a certainty that is not between
    a half and 1.
    """
    _refuse_impossible(series, ahead, certainty)
    now = np.array([len(series) - 1])
    hours = []
    for distance in range(1, ahead + 1):
        forecast = _forecasts(series, now, distance, certainty)[0]
        # Without an error of the past, as where nothing was carried then, it is what was.
        hours.append(np.where(np.isnan(forecast), _bases(series, now, distance), forecast))
    return Interval(*np.array(hours).T)


def graded(series: Values, ahead: int, certainty: float) -> Grade:
    """What `continued` would have said in every hour of the last four weeks, against what came; each time by
    what was known then. Raises InvalidRequest as it does."""
    _refuse_impossible(series, ahead, certainty)
    came, said = [], []
    for distance in range(1, ahead + 1):
        origins = np.arange(max(FEWEST_HOURS - 1, len(series) - _GRADED), len(series) - distance)
        said.append(_forecasts(series, origins, distance, certainty))
        came.append(series[origins + distance])
    actual, (_, middle, high) = np.concatenate(came), np.concatenate(said).T
    known = np.isfinite(actual) & np.isfinite(high)
    if not known.any():
        return Grade(0, float("nan"), float("nan"))
    actual, high, middle = actual[known], high[known], middle[known]
    errors = np.abs(middle - actual)[actual > 0] / actual[actual > 0]
    error = float(np.median(errors)) if len(errors) else float("nan")
    return Grade(len(actual), float((actual <= high).mean()), error)


def _forecasts(series: Values, origins: Places, distance: int, certainty: float) -> Values:
    """float64[origins, 3]: low, middle and high of `distance` hours after each origin, by what was known at
    the origin."""
    past = np.arange(DAY - 1, len(series) - distance)
    bases = _bases(series, past, distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(bases > 0, series[past + distance] / bases, np.nan)
    is_known = np.isfinite(ratios)
    past, ratios = past[is_known], ratios[is_known]
    # Row by row the ratios whose end had come at the origin, the others behind them.
    ordered = np.sort(np.where(past[None, :] + distance <= origins[:, None], ratios, np.inf), axis=1)
    counts = np.isfinite(ordered).sum(axis=1)
    found = np.full((len(origins), 3), np.nan)
    rows = np.flatnonzero(counts)
    for column, share in enumerate((1 - certainty, 0.5, certainty)):
        place = share * (counts[rows] - 1)
        below = place.astype(np.int64)
        above = np.minimum(below + 1, counts[rows] - 1)
        lower, upper = ordered[rows, below], ordered[rows, above]
        found[rows, column] = lower + (place - below) * (upper - lower)
    return found * _bases(series, origins, distance)[:, None]


def _bases(series: Values, origins: Places, distance: int) -> Values:
    """The larger of what is known of the same hour a day and a week before `origins` + `distance`; NaN where
    nothing is."""
    target = origins + distance
    found = np.full(len(origins), np.nan)
    steps = [DAY * -(-distance // DAY), WEEK * -(-distance // WEEK)]
    for step in [*steps, distance] if distance <= _PRESENT else steps:
        places = target - step
        there = places >= 0
        found[there] = np.fmax(found[there], series[places[there]])
    return found


def _refuse_impossible(series: Values, ahead: int, certainty: float) -> None:
    if len(series) < FEWEST_HOURS:
        raise InvalidRequest(
            f"{counted(len(series), 'hour is', 'hours are')} too few for a forecast",
            advice="two days are the least, two weeks better",
        )
    if not 1 <= ahead <= LONGEST_AHEAD:
        raise InvalidRequest(f"a forecast reaches 1 to {LONGEST_AHEAD} hours ahead, not {ahead}")
    if not 0.5 < certainty < 1:
        raise InvalidRequest(f"the certainty is {certainty}; it must be above 0.5 and below 1")

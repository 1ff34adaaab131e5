"""Errors of load forecasts for 60 seeded weekly series, compared with the larger of yesterday and a week ago.

Five weeks are known; each day of the next week is then forecast at its midnight. A series is plain, or has a
step up or down, a trend, a public holiday, gaps in the measurements, or hours shifted by daylight saving
time. Weekends carry 0.3 to 1.5 of a weekday, and each hour has 4 % noise, by which a perfect forecast is off
by 2.7 % (median). `SERIES=n` sets the number of series.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np

from assigner.forecast.rules import DAY, WEEK, Values
from assigner.forecast.seasonal import SeasonalForecast

WEEKS: Final = 5
"""Weeks known at the first forecast."""
KINDS: Final = ("plain", "step up", "step down", "trend", "holiday", "gaps", "daylight saving")
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CERTAINTY: Final = 0.9
_NOISE: Final = 0.04
_TASKS: Final = 7
"""Tasks filled by the largest hour of the known weeks."""


class Week(NamedTuple):
    """One load series. `seen`: with NaN where a measurement is missing. `came`: complete, including the week
    to forecast."""

    kind: str
    seen: Values
    came: Values


class Outcome(NamedTuple):
    """Forecast of one day. `error`: median relative error of its hours.

    `tasks_off`: error of its peak in tasks.
    """

    weekday: int
    error: float
    tasks_off: int


def weekly_series(seed: int) -> Week:
    """Return the load series of a seed; hour 0 is the midnight before a Monday."""
    random = np.random.default_rng(seed)
    hours = np.arange((WEEKS + 1) * WEEK)
    kind = KINDS[seed % len(KINDS)]
    last = WEEKS * WEEK
    change = int(random.integers(last - 2 * WEEK, last - DAY))
    shift = np.where(hours >= change // DAY * DAY, 1, 0) if kind == "daylight saving" else 0
    angle = (hours + shift - random.uniform(0, DAY)) / DAY * 2 * np.pi
    day = 1 + random.uniform(0.2, 0.7) * np.cos(angle) + 0.15 * np.cos(2 * angle)
    loads = 1e8 * day * np.where(hours // DAY % 7 >= 5, random.uniform(0.3, 1.5), 1.0)
    match kind:
        case "step up":
            loads[change:] *= random.uniform(1.2, 2.0)
        case "step down":
            loads[change:] *= random.uniform(0.4, 0.8)
        case "trend":
            loads *= (1 + random.uniform(-0.08, 0.15)) ** (hours / WEEK)
        case "holiday":
            holiday = change // DAY * DAY
            loads[holiday : holiday + DAY] *= random.uniform(0.3, 0.6)
    came = loads * np.exp(random.normal(0, _NOISE, len(hours)))
    seen = came.copy()
    if kind == "gaps":
        for begin in random.integers(0, last - DAY, 6):
            seen[begin : begin + int(random.integers(1, 30))] = np.nan
    return Week(kind, seen, came)


def outcomes(week: Week) -> list[Outcome]:
    """Forecast each day of the last week at its midnight, from the measurements until then."""
    return [_outcome(week, weekday, _forecast(week.seen[: _begin(weekday)])) for weekday in range(7)]


def simple_outcomes(week: Week) -> list[Outcome]:
    """Forecast each day of the last week as the larger of the day before and the week before."""
    forecast = [np.fmax(*(week.seen[_begin(day) - step :][:DAY] for step in (DAY, WEEK))) for day in range(7)]
    return [_outcome(week, weekday, one) for weekday, one in enumerate(forecast)]


def _begin(weekday: int) -> int:
    return WEEKS * WEEK + weekday * DAY


def _forecast(known: Values) -> Values:
    return SeasonalForecast(known, DAY, _CERTAINTY).interval().middle


def _outcome(week: Week, weekday: int, forecast: Values) -> Outcome:
    came = week.came[_begin(weekday) :][:DAY]
    task = np.nanmax(week.came[: WEEKS * WEEK]) / _TASKS
    needed, expected = (int(np.ceil(np.nanmax(values) / task)) for values in (came, forecast))
    return Outcome(weekday, float(np.nanmedian(np.abs(forecast - came) / came)), abs(needed - expected))


def main() -> None:
    """Print the errors of both methods by weekday and by kind of series."""
    weeks = [weekly_series(seed) for seed in range(int(os.environ.get("SERIES", "60")))]
    began = time.perf_counter()
    ours = [outcomes(week) for week in weeks]
    seconds = time.perf_counter() - began
    simple = [simple_outcomes(week) for week in weeks]
    print(f"\n{len(weeks)} series, {7 * len(weeks)} days, {seconds / len(weeks) / 7:.3f} s a forecast\n")
    print("| weekday | error, median | the larger of yesterday and last week | days within 10 % | simple |")
    print("|---|---|---|---|---|")
    for number, name in enumerate(WEEKDAYS):
        errors, others = ([days[number].error for days in way] for way in (ours, simple))
        print(
            f"| {name} | {np.median(errors):.1%} | {np.median(others):.1%} "
            f"| {np.mean(np.array(errors) <= 0.1):.0%} | {np.mean(np.array(others) <= 0.1):.0%} |"
        )
    peaks = [np.mean([day.tasks_off <= 1 for days in way for day in days]) for way in (ours, simple)]
    print(f"\npeak within one task: {peaks[0]:.1%} of the days, {peaks[1]:.1%} by the simple method")
    worst: dict[str, list[float]] = defaultdict(list)
    for week, days in zip(weeks, ours, strict=True):
        worst[week.kind] += [day.error for day in days if day.error > 0.1]
    print("days with an error above 10 %:", {kind: len(errors) for kind, errors in worst.items()})

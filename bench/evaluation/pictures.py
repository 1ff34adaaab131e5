"""Plots of a run: load of each task, deviation, latency, number of tasks, and records by the tasks of an
instance."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.evaluation.deviation import (
    by_task,
    deviation,
    latency_line,
    line_through,
    mean_rate_by_tasks,
    rate_by_tasks,
    tasks_at,
)
from bench.evaluation.rates import TASK_BYTES_PER_SECOND
from bench.evaluation.records import WINDOW_SECONDS, Recording

_COLOURS: Final = {"candidate": "#2b6cb0", "control": "#c53030"}
_GREY: Final = "#718096"
_DPI: Final = 150
"""Resolution of plots with thousands of points for tasks."""


def draw(recording: Recording, folder: Path) -> list[Path]:
    """Write `loads.svg`, `deviation.svg`, `latency.svg`, `tasks.svg` and `hosts.svg`, and return their
    paths."""
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "evaluation"
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "loads": loads_figure(recording),
        "deviation": deviation_figure(recording),
        "latency": latency_figure(recording),
        "tasks": tasks_figure(recording),
        "hosts": hosts_figure(recording),
    }
    files = []
    for name, figure in figures.items():
        files.append(folder / f"{name}.svg")
        figure.savefig(files[-1], metadata={"Date": None}, dpi=_DPI)
    return files


def loads_figure(recording: Recording) -> Figure:
    """Plot the load of each task in each window, one panel per fleet."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, len(recording.fleets), sharey=True, squeeze=False)[0]
    for axis, fleet in zip(axes, recording.fleets, strict=True):
        for second, loads in by_task(recording, fleet, attrgetter("bytes")).items():
            rates = [load / WINDOW_SECONDS / 1000 for load in loads]
            colour = _COLOURS.get(fleet, _GREY)
            axis.plot([second] * len(rates), rates, ".", markersize=4, color=colour, rasterized=True)
        axis.axhline(TASK_BYTES_PER_SECOND / 1000, color=_GREY, linewidth=0.8, label="quota of a task")
        axis.set_title(fleet, fontsize=10)
        axis.set_xlabel("seconds")
    axes[0].set_ylabel("KB/s of each task")
    axes[-1].legend(fontsize=8)
    return figure


def deviation_figure(recording: Recording) -> Figure:
    """Plot, for each window, the standard deviation over the mean of the tasks' bytes."""
    figure, axis = _one("deviation / mean of the tasks' bytes")
    for fleet in recording.fleets:
        windows = by_task(recording, fleet, attrgetter("bytes"))
        found = {second: deviation(loads) for second, loads in windows.items()}
        known = {second: one.coefficient for second, one in found.items() if one is not None}
        axis.plot(list(known), list(known.values()), color=_COLOURS.get(fleet, _GREY), label=fleet)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    return figure


def latency_figure(recording: Recording) -> Figure:
    """Plot the p50 and p99 latency of each window."""
    figure, axis = _one("latency, ms")
    for fleet in recording.fleets:
        for percent, style in ((50, ":"), (99, "-")):
            line = latency_line(recording, fleet, percent)
            colour, label = _COLOURS.get(fleet, _GREY), f"{fleet} p{percent}"
            axis.semilogy(
                list(line), [max(one, 1) for one in line.values()], style, color=colour, label=label
            )
    axis.legend(fontsize=8)
    return figure


def tasks_figure(recording: Recording) -> Figure:
    """Plot the number of tasks in the plan over time."""
    figure, axis = _one("tasks")
    seconds = list(range(recording.seconds))
    for fleet in recording.fleets:
        counts = [tasks_at(recording.plans, fleet, second) for second in seconds]
        axis.step(seconds, counts, color=_COLOURS.get(fleet, _GREY), label=fleet)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    return figure


def hosts_figure(recording: Recording) -> Figure:
    """Plot records per second against tasks of each instance and window, with the line of the means."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, len(recording.fleets), sharey=True, sharex=True, squeeze=False)[0]
    for axis, fleet in zip(axes, recording.fleets, strict=True):
        points, means = rate_by_tasks(recording, fleet), mean_rate_by_tasks(recording, fleet)
        colour = _COLOURS.get(fleet, _GREY)
        axis.plot([x for x, _ in points], [y for _, y in points], ".", markersize=3, color=colour, alpha=0.4)
        axis.plot([x for x, _ in means], [y for _, y in means], "D", markersize=6, color=colour, label="mean")
        found = line_through(means)
        if found is not None:
            ends = [0.0, max(x for x, _ in points)]
            heights = [found.intercept + found.slope * x for x in ends]
            label = f"regression of the means, R² {found.r_squared:.2f}"
            axis.plot(ends, heights, color=_GREY, linewidth=0.8, label=label)
        axis.set_title(fleet, fontsize=10)
        axis.set_xlabel("tasks of the instance")
        axis.legend(fontsize=8)
    axes[0].set_ylabel("records/s of each instance")
    return figure


def _one(label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 3), layout="constrained")
    axis = figure.subplots()
    axis.set_xlabel("seconds")
    axis.set_ylabel(label)
    return figure, axis

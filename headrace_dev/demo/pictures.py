"""Draws the charts of the demonstration's report as SVG text."""

from __future__ import annotations

import io

import matplotlib as mpl
from matplotlib.figure import Figure

from headrace_dev.demo.claims import DemoFindings
from headrace_dev.demo.scenario import OBJECTIVE_MS, TASK_CAPACITY, USABLE

mpl.rcParams["svg.fonttype"] = "none"
_BLUE, _RED, _GREY = "#2b6cb0", "#c53030", "#718096"


def load_picture(findings: DemoFindings) -> str:
    """Return an SVG chart of the load of each task, before and after the rebalance side by side."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, max(len(findings.task_loads), 1), sharey=True, squeeze=False)[0]
    for axis, found in zip(axes, findings.task_loads, strict=False):
        names = sorted(found.loads)
        colours = [_RED if found.loads[name] > USABLE else _BLUE for name in names]
        axis.bar(names, [found.loads[name] / 1000 for name in names], color=colours)
        axis.axhline(USABLE / 1000, color=_GREY, linestyle="--", label="usable capacity")
        axis.axhline(TASK_CAPACITY / 1000, color=_GREY, label="capacity")
        axis.set_title(f"{found.title}\nmax/mean {found.largest_over_mean:.2f}", fontsize=10)
        axis.tick_params(axis="x", labelrotation=30)
    axes[0].set_ylabel("KB/s")
    if findings.task_loads:  # empty if the demonstration stopped before the first plan
        axes[-1].legend(fontsize=8)
    return _svg(figure)


def latency_picture(findings: DemoFindings) -> str:
    """Return an SVG chart of p50 and p99 latency over time, with the events."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axis = figure.subplots()
    times = [at for at, _, _ in findings.latency_line]
    axis.semilogy(times, [max(p50, 1) for _, p50, _ in findings.latency_line], color=_BLUE, label="p50")
    axis.semilogy(times, [max(p99, 1) for _, _, p99 in findings.latency_line], color=_RED, label="p99")
    axis.axhline(OBJECTIVE_MS, color=_GREY, linestyle="--", label="objective")
    for number, (at, _) in enumerate(findings.marks, start=1):
        axis.axvline(at, color=_GREY, linewidth=0.6)
        axis.annotate(str(number), (at, 1.0), xycoords=("data", "axes fraction"), fontsize=8, va="bottom")
    axis.set_xlabel("seconds since the start")
    axis.set_ylabel("latency, ms")
    axis.legend(fontsize=8, loc="lower left")
    return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]

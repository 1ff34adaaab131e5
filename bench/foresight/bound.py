"""Compares the quick task counts of the sizing advice with the planner's search, on a simulated month.

The bound by sums is that of past hours; the simple packing is that of forecast hours. Both are compared with
a plan from scratch by the service's default policy, for every `EVERY`th (7) hour of 28 days.
"""

from __future__ import annotations

import os
import time
from typing import Final, NamedTuple

import numpy as np

from assigner.advice.past import LeastTerms, least_tasks, sums_of
from assigner.forecast.rules import DAY
from assigner.planner import plan
from assigner.problem.limits import Limits
from assigner.problem.loads import UNKNOWN_LOAD
from assigner.problem.policy import PlanMode
from assigner.problem.problem import in_units, usable_units
from assigner.settings import AssignerSettings
from assigner.what_if.ahead import quick_tasks
from bench.placement.loads import CAPACITY, loads_of
from bench.placement.month import Shape, month
from mirror.model.load import PartitionLoad, TaskLimits

SHAPES: Final = {
    "days ±25 %": Shape(swing=0.25),
    "days ±50 %": Shape(swing=0.5),
    "no days, bursts": Shape(swing=0.0, bursts=0.2),
    "24 large partitions, days ±50 %": Shape(partitions=24, tasks=8, swing=0.5),
    "24 small partitions, days ±50 %": Shape(partitions=24, tasks=2, swing=0.5),
}


class Hour(NamedTuple):
    """Task counts of one hour, and the seconds to compute them: bound, packing, search."""

    tasks: tuple[int, int, int]
    seconds: tuple[float, float, float]


def hour_of(rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Hour:
    """Compute the tasks of an hour by all three methods."""
    demand = loads_of(rates)
    policy, usable = AssignerSettings().policy(), usable_units(CAPACITY)
    loads = [PartitionLoad(rate) for rate in rates.tolist()]
    sums = sums_of(loads, CAPACITY)
    times = [time.perf_counter()]
    least = least_tasks(sums, LeastTerms(len(loads), CAPACITY, UNKNOWN_LOAD))
    times.append(time.perf_counter())
    quick = quick_tasks(in_units(demand.rates[None, :, : len(usable)]), usable, Limits())[0]
    times.append(time.perf_counter())
    assert policy.mode is PlanMode.FULL
    found = plan(demand, CAPACITY, TaskLimits(), policy).required_tasks
    times.append(time.perf_counter())
    bound, packing, search = np.diff(times).tolist()
    return Hour((least, quick, found), (bound, packing, search))


def main() -> None:
    """Columns: task-hours of the search; task-hours of the bound and of the packing, as a difference to
    the search, with the share of hours that are equal; the largest difference of an hour; milliseconds per
    hour."""
    print((main.__doc__ or "") + "\n")
    every = int(os.environ.get("EVERY", "7"))
    print(
        "| load | hours | search | bound | equal | maximum | packing | equal | maximum "
        "| ms: bound, packing, search |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, shape in SHAPES.items():
        rates = month(shape)[shape.learned * DAY :: every]
        hours = [hour_of(rate) for rate in rates]
        least, quick, found = np.array([hour.tasks for hour in hours]).T
        cells = [f"{name} | {len(hours)} | {found.sum()}"]
        for one in (least, quick):
            off = one - found
            cells.append(
                f"{off.sum() / found.sum():+.2%} | {np.mean(off == 0):.1%} | {off[np.abs(off).argmax()]:+}"
            )
        mean = 1000 * np.array([hour.seconds for hour in hours]).mean(axis=0)
        cells.append(f"{mean[0]:.3f}, {mean[1]:.2f}, {mean[2]:.0f}")
        print(f"| {' | '.join(cells)} |", flush=True)

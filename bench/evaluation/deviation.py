"""Computes imbalance, latency and task time of a fleet. Pure arithmetic."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, fmean, linear_regression, pstdev

from bench.evaluation.records import WINDOW_SECONDS, HostLoad, PlanInForce, Recording, TaskLoad
from mirror.model.latency import percentile_ms


@dataclass(frozen=True, slots=True)
class Deviation:
    """Imbalance of task or instance loads. `coefficient`: standard deviation over mean, 0 at best.

    `largest`: maximum over mean, 1 at best.
    """

    coefficient: float
    largest: float


def deviation(loads: Sequence[float]) -> Deviation | None:
    """Return the imbalance of loads, or None without load. Uses the population standard deviation."""
    mean = fmean(loads) if loads else 0.0
    return Deviation(pstdev(loads) / mean, max(loads) / mean) if mean > 0 else None


def mean_deviation(windows: Iterable[Sequence[float]]) -> Deviation | None:
    """Return the mean imbalance over the windows that had load, or None if none had."""
    found = [one for one in map(deviation, windows) if one is not None]
    if not found:
        return None
    return Deviation(fmean(one.coefficient for one in found), fmean(one.largest for one in found))


def by_task(recording: Recording, fleet: str, value: Callable[[TaskLoad], int]) -> dict[int, list[float]]:
    """Return, for each window, the loads of the tasks.

    A task counts in the windows during which it was in every plan, even if it copied nothing.
    """
    sums: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for load in recording.loads:
        if load.fleet == fleet:
            sums[load.second][load.task] += value(load)
    found = {}
    for second in range(0, recording.seconds, WINDOW_SECONDS):
        tasks = _throughout(recording.plans, fleet, second)
        found[second] = [sums[second].get(task, 0.0) for task in tasks]
    return found


def by_host(recording: Recording, fleet: str, value: Callable[[HostLoad], float]) -> dict[int, list[float]]:
    """Return, for each window, the loads of all instances, each divided by the weight of the instance."""
    found: dict[int, list[float]] = defaultdict(list)
    for host in recording.hosts:
        if host.fleet == fleet:
            found[host.second].append(value(host) / host.weight)
    return dict(found)


@dataclass(frozen=True, slots=True)
class Line:
    """Least-squares line through points, and the share of the variance that it explains."""

    slope: float
    intercept: float
    r_squared: float


def line_through(points: Sequence[tuple[float, float]]) -> Line | None:
    """Return the least-squares line, or None if all points have the same x."""
    if len({x for x, _ in points}) < 2:
        return None
    xs, ys = zip(*points, strict=True)
    slope, intercept = linear_regression(xs, ys)
    return Line(slope, intercept, correlation(xs, ys) ** 2 if len(set(ys)) > 1 else 1.0)


def rate_by_tasks(recording: Recording, fleet: str) -> list[tuple[float, float]]:
    """Return the number of tasks and the records per second of each instance in each window."""
    own = [host for host in recording.hosts if host.fleet == fleet]
    return [(one.tasks, one.records / WINDOW_SECONDS) for one in own]


def mean_rate_by_tasks(recording: Recording, fleet: str) -> list[tuple[float, float]]:
    """Return the means of `rate_by_tasks` over the run, one point for each instance."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    own = [host for host in recording.hosts if host.fleet == fleet]
    for one, point in zip(own, rate_by_tasks(recording, fleet), strict=True):
        points[one.instance].append(point)
    return [(fmean(x for x, _ in some), fmean(y for _, y in some)) for _, some in sorted(points.items())]


def _throughout(plans: Sequence[PlanInForce], fleet: str, second: int) -> list[str]:
    """Return the tasks that are in every plan during the window."""
    own = [plan for plan in plans if plan.fleet == fleet]
    at_first = [one for one in own if one.second <= second][-1:]
    later = [one for one in own if second < one.second < second + WINDOW_SECONDS]
    sets = [set(one.tasks) for one in (*at_first, *later)]
    return sorted(set.intersection(*sets)) if sets else []


def task_seconds(recording: Recording, fleet: str) -> float:
    """Return the task seconds: the number of tasks of each plan times the seconds for which it applied."""
    own = [plan for plan in recording.plans if plan.fleet == fleet]
    ends = [*(one.second for one in own[1:]), float(recording.seconds)]
    return sum(len(one.tasks) * (end - one.second) for one, end in zip(own, ends, strict=True))


def tasks_at(plans: Sequence[PlanInForce], fleet: str, second: float) -> int:
    """Return the number of tasks in the plan at a time, or 0 before the first plan."""
    counts = [len(plan.tasks) for plan in plans if plan.fleet == fleet and plan.second <= second]
    return counts[-1] if counts else 0


def latency_counts(recording: Recording, fleet: str) -> list[int]:
    """Return the latency histogram of the whole run."""
    rows = [latency.counts for latency in recording.latencies if latency.fleet == fleet]
    return [sum(column) for column in zip(*rows, strict=True)]


def latency_line(recording: Recording, fleet: str, percent: float) -> Mapping[int, float]:
    """Return, for each window in which records arrived, the latency percentile in ms."""
    own = {
        latency.second: percentile_ms(latency.counts, percent)
        for latency in recording.latencies
        if latency.fleet == fleet
    }
    return {second: value for second, value in own.items() if value is not None and math.isfinite(value)}

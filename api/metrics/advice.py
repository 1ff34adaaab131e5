"""The leader's advice as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror.model.sizing.advice import Advice, PastNeed

_HOUR_SECONDS: Final = 3_600


class AdviceCollector(Collector):
    """Series only where something is advised: what is not known is no 0. `current`: the advice of this
    instance, None where it does not lead."""

    def __init__(self, current: Callable[[], Advice | None]) -> None:
        self._current = current

    def describe(self) -> Iterator[Metric]:
        """Nothing is registered ahead of a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        found = self._current()
        for name, (text, value) in _values(found).items():
            family = GaugeMetricFamily(f"headrace_{name}", f"{text}, as the leader has computed it")
            if value is not None:
                family.add_metric([], float(value))
            yield family


def _values(found: Advice | None) -> dict[str, tuple[str, float | None]]:
    """By name, what it means and what it is now."""
    peak = found.peak if found is not None else None
    return {
        "required_tasks": ("tasks that the service needs now", found.required_tasks if found else None),
        "required_instances": (
            "instances that the service needs now",
            found.required_instances if found else None,
        ),
        "required_tasks_at_least": (
            "tasks that the datastreams need now whose need is known",
            found.tasks_at_least if found else None,
        ),
        "required_instances_at_least": (
            "instances that the datastreams need now whose need is known",
            found.instances_at_least if found else None,
        ),
        "peak_required_tasks": (
            "tasks that the forecast hour of most need takes, at its high end",
            peak.most_tasks if peak else None,
        ),
        "peak_required_instances": (
            "instances that the forecast hour of most need takes",
            found.peak_instances if found else None,
        ),
        "staying_instances": (
            "instances that are here and have not been asked to go",
            found.instances if found else None,
        ),
        **_past("day", found.past_day if found else None),
        **_past("week", found.past_week if found else None),
        "advice_timestamp_seconds": (
            "when the leader computed its advice",
            found.computed_ms / 1000 if found else None,
        ),
    }


def _past(span: str, need: PastNeed | None) -> dict[str, tuple[str, float | None]]:
    """What was needed in a past time, named `span`."""
    return {
        f"past_{span}_known_seconds": (
            f"seconds of the last {span} in which the load of every datastream is known",
            need.hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_task_seconds": (
            "task-seconds that the tasks in force now take in that time",
            need.task_hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_peak_task_seconds": (
            "task-seconds that the need of its busiest hour takes in all of that time",
            need.peak_task_hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_needed_task_seconds": (
            "task-seconds that the hours of that time needed, each by its mean load",
            need.needed_task_hours * _HOUR_SECONDS if need else None,
        ),
    }

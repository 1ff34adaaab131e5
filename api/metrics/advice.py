"""Sizing advice of the leader as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror.model.sizing.advice import Advice, PastNeed

_HOUR_SECONDS: Final = 3_600


class AdviceCollector(Collector):
    """Series of the current advice, omitted if unknown rather than 0. `current`: advice of this instance,
    None if it does not lead."""

    def __init__(self, current: Callable[[], Advice | None]) -> None:
        self._current = current

    def describe(self) -> Iterator[Metric]:
        """Describe no metrics before a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one scrape."""
        found = self._current()
        for name, (text, value) in _values(found).items():
            family = GaugeMetricFamily(f"headrace_{name}", f"{text}; reported by the leader")
            if value is not None:
                family.add_metric([], float(value))
            yield family


def _values(found: Advice | None) -> dict[str, tuple[str, float | None]]:
    """Return help text and value by name."""
    peak = found.peak if found is not None else None
    return {
        "required_tasks": ("tasks needed by the service now", found.required_tasks if found else None),
        "required_instances": (
            "instances needed by the service now",
            found.required_instances if found else None,
        ),
        "required_tasks_at_least": (
            "tasks needed now by the datastreams with a known need",
            found.tasks_at_least if found else None,
        ),
        "required_instances_at_least": (
            "instances needed now by the datastreams with a known need",
            found.instances_at_least if found else None,
        ),
        "peak_required_tasks": (
            "tasks needed in the peak hour of the forecast, at its upper bound",
            peak.most_tasks if peak else None,
        ),
        "peak_required_instances": (
            "instances needed in the peak hour of the forecast",
            found.peak_instances if found else None,
        ),
        "staying_instances": (
            "live instances that are not leaving",
            found.instances if found else None,
        ),
        **_past("day", found.past_day if found else None),
        **_past("week", found.past_week if found else None),
        "advice_timestamp_seconds": (
            "time at which the advice was computed",
            found.computed_ms / 1000 if found else None,
        ),
    }


def _past(span: str, need: PastNeed | None) -> dict[str, tuple[str, float | None]]:
    """Return help text and value of the need in a past period, named `span`."""
    return {
        f"past_{span}_known_seconds": (
            f"seconds of the last {span} with known loads of all datastreams",
            need.hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_task_seconds": (
            "task-seconds of the current number of tasks over that time",
            need.task_hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_peak_task_seconds": (
            "task-seconds of the need of the busiest hour over that time",
            need.peak_task_hours * _HOUR_SECONDS if need else None,
        ),
        f"past_{span}_needed_task_seconds": (
            "task-seconds needed over that time, for each hour by its mean load",
            need.needed_task_hours * _HOUR_SECONDS if need else None,
        ),
    }

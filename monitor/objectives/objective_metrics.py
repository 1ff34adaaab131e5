"""Prometheus metrics of objectives and their error budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror.model.identifiers import DatastreamName
from monitor.burn.rates import length_text
from monitor.latency import LatencyVerdict, ObjectiveStatus

_BY_OBJECTIVE: Final = ("datastream", "objective")


class ObjectiveMetrics(Collector):
    """Prometheus collector of the verdicts of the last evaluation. Unknown budgets and rates are not
    exported. `show` replaces all verdicts and is thread-safe."""

    def __init__(self) -> None:
        self._verdicts: Mapping[DatastreamName, LatencyVerdict] = {}

    def show(self, verdicts: Mapping[DatastreamName, LatencyVerdict]) -> None:
        """Replace all verdicts by the latest ones. Pass an empty mapping if this monitor is not active."""
        self._verdicts = verdicts

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of objectives for a scrape."""
        verdicts = self._verdicts
        yield _standings(verdicts)
        left = GaugeMetricFamily(
            "headrace_error_budget_left_ratio",
            "remaining share of an objective's error budget; below 0 if overspent",
            labels=_BY_OBJECTIVE,
        )
        burns = GaugeMetricFamily(
            "headrace_error_budget_burn_rate",
            "burn rate of an objective's error budget; 1 uses it up in exactly its period",
            labels=(*_BY_OBJECTIVE, "window"),
        )
        for name, verdict in verdicts.items():
            for budget in verdict.budgets:
                place = [name, budget.objective.text]
                if budget.left is not None:
                    left.add_metric(place, budget.left)
                sides = {
                    seconds: rate
                    for burn in budget.burns
                    for seconds, rate in (
                        (burn.rule.long_seconds, burn.long_rate),
                        (burn.rule.short_seconds, burn.short_rate),
                    )
                }
                for seconds, rate in sorted(sides.items()):
                    if rate is not None:
                        burns.add_metric([*place, length_text(seconds)], rate)
        yield from (left, burns)


def _standings(verdicts: Mapping[DatastreamName, LatencyVerdict]) -> Metric:
    family = GaugeMetricFamily(
        "headrace_objective_standing",
        "1 for the current status of a datastream's objective, 0 for every other status",
        labels=("datastream", "standing"),
    )
    for name, verdict in verdicts.items():
        for status in ObjectiveStatus:
            family.add_metric([name, status.value], float(verdict.standing is status))
    return family

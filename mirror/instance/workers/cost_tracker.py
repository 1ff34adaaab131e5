"""Collects the costs of copying that the workers of this instance measure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mirror.model.capacity.costs import HOUR_MS, KEPT_HOURS, CostSums, GroupCosts, merged_hours
from mirror.model.identifiers import GroupName
from mirror.worker.protocol import LaneRates, TaskSums

LEAST_BUSY: Final = 0.02
"""Minimum CPU use of a worker in cores. Below it, the cost of polling dominates."""
_SHORTEST_SECONDS: Final = 0.1
_MOST_THROTTLED: Final = 0.05
"""Maximum share of an interval in which brokers may have throttled a worker.

With more throttling, rate and batch size depend on the brokers, so the interval is ignored.
"""


class CostTracker:
    """Collects the copying costs that workers report, for each group and hour."""

    def __init__(self) -> None:
        self._hours: dict[GroupName, dict[int, CostSums]] = {}

    @property
    def hours(self) -> GroupCosts:
        """Copying costs of the last day, for each group and hour."""
        return self._hours

    def restore(self, costs: GroupCosts) -> None:
        """Add the costs that this instance had recorded before a restart."""
        for group, hours in costs.items():
            self._hours[group] = merged_hours([hours, self._hours.get(group, {})])

    def note(self, rates: LaneRates, held_back: Collection[GroupName], now_ms: int) -> None:
        """Add the copying costs of one measurement interval of a worker. Groups that a quota throttled are
        ignored. The whole interval is ignored if the worker was idle, or throttled by a broker."""
        hour = now_ms // HOUR_MS
        for group, sums in interval_costs(rates).items():
            if group not in held_back:
                hours = self._hours.setdefault(group, {})
                hours[hour] = hours[hour].plus(sums) if hour in hours else sums

    def trim(self, now_ms: int) -> None:
        """Drop sums that are older than a day, or in the future because of a wrong clock."""
        last = now_ms // HOUR_MS
        for group, hours in list(self._hours.items()):
            kept = {hour: sums for hour, sums in hours.items() if last - KEPT_HOURS < hour <= last}
            if kept:
                self._hours[group] = kept
            else:
                del self._hours[group]


def interval_costs(rates: LaneRates) -> Mapping[GroupName, CostSums]:
    """Map each group to its copying cost in one interval. Empty if the worker was not busy. Pure."""
    busy = next((rate.core.busy for rate in rates.rates if rate.core.busy), None)
    if busy is None or not math.isfinite(busy) or busy < LEAST_BUSY:
        return {}
    by_group: dict[GroupName, list[TaskSums]] = {}
    for total in rates.sums:
        by_group.setdefault(total.group, []).append(total)
    totals = {group: _totals(some) for group, some in by_group.items()}
    seconds = sum(total["cpu_ms"] for total in totals.values()) / 1000 / busy
    if not _SHORTEST_SECONDS <= seconds < math.inf:
        return {}
    if any(throttled.seconds > _MOST_THROTTLED * seconds for throttled in rates.throttled):
        return {}
    return {group: _cost(total, seconds) for group, total in totals.items() if _has_values(total)}


def _totals(some: Sequence[TaskSums]) -> dict[str, float]:
    rows = [sums.by_name() for sums in some]
    return {name: sum(row[name] for row in rows) for name in rows[0]}


def _has_values(totals: Mapping[str, float]) -> bool:
    numbers = [totals["cpu_ms"], totals["bytes_copied"]]
    is_something = all(number > 0 and math.isfinite(number) for number in numbers)
    return is_something and 0 <= totals["spare_cpu_ms"] <= totals["cpu_ms"]


def _cost(totals: Mapping[str, float], seconds: float) -> CostSums:
    return CostSums.of(
        seconds,
        totals["cpu_ms"] / 1000,
        totals["bytes_copied"],
        totals["records_copied"],
        totals["batches"],
        totals["passthrough_batches"],
        totals["spare_cpu_ms"] / 1000,
    )

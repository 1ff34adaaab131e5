"""Test the cost tracker of an instance, which sums the costs that its workers report."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mirror.instance.workers.cost_tracker import CostTracker, interval_costs
from mirror.model.capacity.costs import HOUR_MS, KEPT_HOURS
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.metrics import SUMMED
from mirror.model.topics import TopicPartition
from mirror.worker.protocol import CoreUse, LaneRate, LaneRates, TaskSums, ThrottledTime

ORDERS, LOGS = GroupName("orders"), GroupName("logs")
SOURCE = ClusterRef("source")
NOW_MS = 100 * HOUR_MS


def sums(group: GroupName, task: str = "0", **values: float) -> TaskSums:
    given = {"cpu_ms": 500.0, "bytes_copied": 1e6, "records_copied": 1000, "batches": 10} | values
    return TaskSums(group, TaskName(f"{group}-{task}"), tuple(given.get(name, 0.0) for name in SUMMED), ())


def interval_report(*tasks: TaskSums, busy: float | None = 0.1, throttled: float = 0.0) -> LaneRates:
    """Return the report of a five-second interval in which tasks used half a second of CPU time."""
    rate = LaneRate(LaneKey(ORDERS, TopicPartition("t", 0)), SOURCE, 1.0, 1.0, 0, 0, core=CoreUse(busy))
    return LaneRates((rate,), tasks, (ThrottledTime(SOURCE, throttled),) if throttled else ())


def test_the_tasks_of_a_group_are_one_interval() -> None:
    tasks = sums(ORDERS, spare_cpu_ms=100.0), sums(ORDERS, "1", spare_cpu_ms=200.0), sums(LOGS)
    found = interval_costs(interval_report(*tasks, busy=0.3))
    assert found.keys() == {ORDERS, LOGS}
    assert found[ORDERS].seconds == pytest.approx(5)
    assert found[ORDERS].cpu_seconds == pytest.approx(1)
    assert (found[ORDERS].bytes, found[ORDERS].records, found[ORDERS].batches) == (2e6, 2000, 20)
    assert found[ORDERS].observations == 1
    assert found[ORDERS].spare_cpu_seconds == pytest.approx(0.3)


@pytest.mark.parametrize(
    "report",
    [
        interval_report(sums(ORDERS), busy=None),
        interval_report(sums(ORDERS), busy=0.01),
        interval_report(sums(ORDERS), busy=math.nan),
        interval_report(sums(ORDERS), busy=1e9),
        interval_report(sums(ORDERS), throttled=2.0),
        interval_report(sums(ORDERS, bytes_copied=0.0)),
        interval_report(sums(ORDERS, cpu_ms=math.inf)),
        interval_report(sums(ORDERS, spare_cpu_ms=501.0)),
        interval_report(sums(ORDERS, spare_cpu_ms=-1.0)),
        interval_report(sums(ORDERS, spare_cpu_ms=math.nan)),
        interval_report(),
        LaneRates(()),
    ],
)
def test_what_says_nothing_of_a_busy_worker_is_left_out(report: LaneRates) -> None:
    assert interval_costs(report) == {}


def test_a_group_that_a_quota_holds_back_is_left_out() -> None:
    tracker = CostTracker()
    tracker.note(interval_report(sums(ORDERS), sums(LOGS), busy=0.2), {ORDERS}, NOW_MS)
    assert tracker.hours.keys() == {LOGS}


def test_intervals_add_up_by_hour_and_old_hours_are_forgotten() -> None:
    tracker = CostTracker()
    for number in (0, 0, KEPT_HOURS):
        tracker.note(interval_report(sums(ORDERS)), (), NOW_MS + number * HOUR_MS)
    assert [one.observations for one in tracker.hours[ORDERS].values()] == [2, 1]
    tracker.trim(NOW_MS + KEPT_HOURS * HOUR_MS)
    assert list(tracker.hours[ORDERS]) == [100 + KEPT_HOURS]
    tracker.trim(NOW_MS)
    assert tracker.hours == {}


def test_what_was_noted_before_a_restart_is_added() -> None:
    before, after = CostTracker(), CostTracker()
    before.note(interval_report(sums(ORDERS)), (), NOW_MS)
    after.note(interval_report(sums(ORDERS)), (), NOW_MS)
    after.restore(before.hours)
    assert after.hours[ORDERS][100].observations == 2
    assert replace(after.hours[ORDERS][100], observations=1).bytes == 2e6

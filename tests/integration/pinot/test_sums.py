"""Sums of the partitions of some topics by hour, of rows whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from assigner.advice.past import half_of, sums_of
from mirror.model.load import LoadSums, PartitionLoad, TaskCapacity
from pinot.partitions.rollups import HOUR_MS
from pinot.partitions.sums import TaskRoom, hourly_sums
from pinot.tables import PARTITION_METRICS, PARTITION_METRICS_HOURLY
from pinot.time_range import TimeRange
from tests.metrics_data import MetricsWorld, a_metric, a_rollup, fresh_name

pytestmark = [pytest.mark.servers, pytest.mark.deep]

HOUR = 1_795_000_000_000 // HOUR_MS * HOUR_MS
CAPACITY = TaskCapacity(100, 1_000, 100)
ROOM = TaskRoom(100, 1_000, half_of(100))
WEEK = TimeRange(HOUR - 168 * HOUR_MS, HOUR)


def test_sums_of_rollups_are_those_of_the_loads(metrics_world: MetricsWorld) -> None:
    """Partitions of all kinds: above a task's bytes, above its messages, heavy, light, without messages."""
    cluster = fresh_name("sums'")
    loads = {
        0: (150.0, 10.0),
        1: (20.0, 2_000.0),
        2: (60.0, 10.0),
        3: (50.0, 10.0),
        4: (1.5, None),
        5: (0.0, 0.0),
    }
    rows = [
        replace(
            a_rollup(cluster, number, HOUR - back * HOUR_MS, size, topic),
            mean_messages_per_second=-1.0 if messages is None else messages,
        )
        for (topic, back), (number, (size, messages)) in product(
            (("t", 1), ("t", 30), ("t", 167), ("it's ü", 30), ("other", 30)), loads.items()
        )
    ]
    metrics_world.put(PARTITION_METRICS_HOURLY, rows)
    found = hourly_sums(metrics_world.client, cluster, WEEK, {"t", "it's ü", "none"}, ROOM)
    one = sums_of([PartitionLoad(size, messages) for size, messages in loads.values()], CAPACITY)
    assert one == LoadSums(6, 281.5, 2, 111.5, 20.0, 1)
    assert found[HOUR - HOUR_MS] == one
    assert found[HOUR - 167 * HOUR_MS] == one
    assert found[HOUR - 30 * HOUR_MS] == LoadSums(12, 563.0, 4, 223.0, 40.0, 2)
    assert len(found) == 3
    unlimited = hourly_sums(metrics_world.client, cluster, WEEK, {"t"}, TaskRoom(100, None, 50.0))
    assert unlimited[HOUR - HOUR_MS].alone == 1
    assert hourly_sums(metrics_world.client, cluster, WEEK, set(), ROOM) == {}


def test_hours_without_a_rollup_come_from_samples(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("sampled")
    rolled = [a_rollup(cluster, number, HOUR - back * HOUR_MS, 10.0) for number in (0, 1) for back in (3, 60)]
    samples = [
        a_metric(
            cluster,
            "t",
            number,
            HOUR - back * HOUR_MS + minute * 60_000,
            inflow_bytes_per_second=rate + minute,
        )
        for number, rate in ((0, 30.0), (1, 110.0))
        for back in (1, 2, 3, 50)
        for minute in (0, 10)
    ]
    metrics_world.put(PARTITION_METRICS_HOURLY, rolled)
    metrics_world.put(PARTITION_METRICS, samples)
    found = hourly_sums(metrics_world.client, cluster, WEEK, {"t"}, ROOM)
    assert {(HOUR - hour) // HOUR_MS: one.bytes for hour, one in found.items()} == {
        1: 150.0, 2: 150.0, 3: 20.0, 60: 20.0
    }  # fmt: skip
    assert (found[HOUR - HOUR_MS].partitions, found[HOUR - HOUR_MS].alone) == (2, 1)


def test_without_any_rollup_the_days_come_from_samples(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("unrolled")
    samples = [
        a_metric(cluster, "t", number, HOUR - back * HOUR_MS, inflow_bytes_per_second=10.0)
        for number in range(3)
        for back in (1, 30, 130)
    ]
    metrics_world.put(PARTITION_METRICS, samples)
    found = hourly_sums(metrics_world.client, cluster, WEEK, {"t"}, ROOM)
    assert {(HOUR - hour) // HOUR_MS: one.bytes for hour, one in found.items()} == {1: 30.0, 30: 30.0}

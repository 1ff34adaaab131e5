"""Hourly loads and latency per step, for rows with known results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from pinot.history.hourly_loads import partition_hours, topics_hours
from pinot.history.latency import latency_steps
from pinot.history.points import HOUR_MS, HighLoad, LoadHour, UsageSum, high_since
from pinot.history.usage_sums import usage_sums
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS, PARTITION_METRICS_HOURLY
from pinot.time_range import TimeRange
from tests.metrics_data import MetricsWorld, a_measurement, a_metric, a_rollup, fresh_name

pytestmark = [pytest.mark.servers, pytest.mark.deep]

HOUR = 1_795_000_000_000 // HOUR_MS * HOUR_MS
NOW = HOUR + 1_200_000
TODAY = TimeRange(HOUR - 5 * HOUR_MS, NOW + 1)


def test_hours_come_from_rollups_and_the_newest_from_samples(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("history's")
    rollups = [
        a_rollup(cluster, number, HOUR - back * HOUR_MS, load)
        for number in (0, 1)
        for back, load in ((9, 1.0), (4, 10.0), (3, 60.0), (2, 70.0), (1, 80.0))
    ]
    samples = [
        a_metric(cluster, "t", 0, HOUR - 600_000 + minute * 60_000, inflow_bytes_per_second=100.0 + minute)
        for minute in range(20)
    ]
    metrics_world.put(PARTITION_METRICS_HOURLY, rollups)
    metrics_world.put(PARTITION_METRICS, samples)
    client = metrics_world.client
    places = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("it's", 0)]
    found = partition_hours(client, cluster, TODAY, places)
    assert found.keys() == {places[0], places[1]}
    assert found[places[0]] == [
        LoadHour(HOUR - 4 * HOUR_MS, HOUR - 4 * HOUR_MS, 10.0, 10.0, 10.0),
        LoadHour(HOUR - 3 * HOUR_MS, HOUR - 3 * HOUR_MS, 60.0, 60.0, 60.0),
        LoadHour(HOUR - 2 * HOUR_MS, HOUR - 2 * HOUR_MS, 70.0, 70.0, 70.0),
        LoadHour(HOUR - HOUR_MS, HOUR - 600_000, 104.5, 109.0, 109.0),
        LoadHour(HOUR, HOUR, 114.5, 119.0, 119.0),
    ]
    assert [one.mean for one in found[places[1]]] == [10.0, 60.0, 70.0, 80.0]
    assert high_since(found[places[0]], 50.0) == HighLoad(HOUR - 3 * HOUR_MS, False)
    assert partition_hours(client, cluster, TODAY, []) == {}
    total = topics_hours(client, cluster, TODAY, {"t", "it's"})
    assert [(one.hour_ms, one.mean) for one in total] == [
        (HOUR - back * HOUR_MS, 2 * load) for back, load in ((4, 10.0), (3, 60.0), (2, 70.0), (1, 80.0))
    ]
    assert topics_hours(client, cluster, TODAY, set()) == []
    assert topics_hours(client, "another cluster", TODAY, {"t"}) == []


def test_latency_is_summed_by_step(metrics_world: MetricsWorld) -> None:
    group, cluster = GroupName(fresh_name("latency")), fresh_name("cluster")
    rows = [
        replace(
            a_measurement(group, cluster, partition, HOUR + minute * 60_000, latency, lag=minute),
            topic=topic,
            wait_ms=4.0,
            fetch_ms=3.0,
            queue_ms=2.0,
            produce_ms=1.0,
            lag_ms=None if topic == "u" else minute,
        )
        for minute, latency in ((0, 100), (1, 100), (10, 5_000))
        for partition in (0, 1)
        for topic in ("t", "u")
    ]
    metrics_world.put(MIRROR_METRICS, rows)
    client, when = metrics_world.client, TimeRange(HOUR, HOUR + 1_200_000)
    history = latency_steps(client, group, when, 5)
    assert history.step_ms == 300_000
    first, last = history.steps
    assert (first.begin_ms, last.begin_ms) == (HOUR, HOUR + 600_000)
    assert (first.records, first.batches, first.oldest_ms) == (80, 8, 1)
    assert first.size_bytes == sum(one.bytes_copied for one in rows[:8])
    assert first.waiting_record_ms == sum(one.lag_records * one.interval_ms for one in rows[:8]) > 0
    assert first.mean_stages_ms == (4.0, 3.0, 2.0, 1.0)
    assert first.p99_ms is not None
    assert last.p50_ms is not None
    assert 64 < first.p99_ms <= 128
    assert 4_096 < last.p50_ms <= 8_192
    (only, _) = latency_steps(client, group, when, 5, {"u"}).steps
    assert (only.records, only.oldest_ms) == (40, None)
    assert latency_steps(client, group, when, 5, set()).steps == ()
    assert latency_steps(client, GroupName("nobody"), when, 5).steps == []


def test_usage_is_summed_by_topic_and_day(metrics_world: MetricsWorld) -> None:
    group, cluster, day_ms = fresh_name("usage"), fresh_name("cluster"), 86_400_000
    today = HOUR // day_ms * day_ms
    base = a_measurement(group, cluster, 0, today + HOUR_MS, 100, lag=0)
    base = replace(base, records_copied=10, bytes_copied=1_000, batches=2, cpu_ms=500.0, topic="t")
    rows = [
        base,
        replace(base, kafka_partition=1),
        replace(base, time_ms=today - 1),
        replace(base, topic="it's"),
        replace(base, topic="idle", records_copied=0, bytes_copied=0, batches=0, cpu_ms=0.0),
        replace(base, time_ms=today - day_ms - 1),
    ]
    metrics_world.put(MIRROR_METRICS, rows)
    found = usage_sums(metrics_world.client, TimeRange(today - day_ms, today + day_ms))
    assert sorted(one for one in found if one.group == group) == [
        UsageSum(today - day_ms, group, cluster, "t", 10, 1_000, 2, 500.0),
        UsageSum(today, group, cluster, "it's", 10, 1_000, 2, 500.0),
        UsageSum(today, group, cluster, "t", 20, 2_000, 4, 1_000.0),
    ]

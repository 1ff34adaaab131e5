"""Every typed query on rows with known results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirror.model.latency import latency_bucket
from mirror.model.metrics import ChangeKind, PlacementEvent
from mirror.settings import KafkaCluster
from monitor.adapters.incident_topic import IncidentTopic
from monitor.records.record import BudgetCost, DeliveryCost, IncidentRecord, Phase
from pinot.partitions.load_queries import (
    freshness,
    partition_rates,
    partition_rates_pages,
    top_movers,
    topic_rates,
)
from pinot.partitions.offending_partitions import Remedy, offending_partitions
from pinot.partitions.pages import Grain
from pinot.partitions.rollups import HOUR_MS, Hour, hour_pages, rolled_up_hours, sampled_hours
from pinot.queries import (
    MirrorRateRow,
    incidents,
    lag_by_partition,
    latency_by_datastream,
    latency_by_partition,
    latency_by_task,
    mirror_rates,
    placement_events,
)
from pinot.tables import (
    INCIDENTS,
    MIRROR_METRICS,
    PARTITION_METRICS,
    PARTITION_METRICS_HOURLY,
    PLACEMENT_EVENTS,
    IncidentRow,
    LogGrowth,
    Statistic,
)
from pinot.time_range import TimeRange
from pinot.topic_latency import arrived
from tests.metrics_data import MetricsWorld, a_measurement, a_metric, a_rollup, fresh_name
from tests.patience import wait_until

pytestmark = pytest.mark.servers

HOUR = 1_795_000_000_000 // HOUR_MS * HOUR_MS
ALL = TimeRange(HOUR, HOUR + HOUR_MS)


def test_rates_of_partitions(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("rates")
    rows = [
        a_metric(
            cluster,
            f"t{p % 2}",
            p,
            HOUR + r * 10_000,
            inflow_bytes_per_second=float(r),
            bytes_in_per_second=50.0,
            size_bytes=1000.0 * r,
            shrunk=int(r == 3),
            messages_in_per_second=-1 if p == 3 else 10.0,
        )
        for r in range(20)
        for p in range(5)
    ]
    metrics_world.put(PARTITION_METRICS, [*rows, *rows], distinct=len(rows))
    client = metrics_world.client
    for statistic, inflow in ((Statistic.MEAN, 9.5), (Statistic.P95, 19.0), (Statistic.MAX, 19.0)):
        found = partition_rates(client, cluster, ALL, statistic=statistic)
        assert sorted((one.topic, one.kafka_partition) for one in found) == [
            ("t0", 0),
            ("t0", 2),
            ("t0", 4),
            ("t1", 1),
            ("t1", 3),
        ]
        for one in found:
            assert (one.samples, one.inflow, one.sampled, one.shrunk) == (20, inflow, 50.0, 1)
            assert (one.growth_bytes, one.growth_ms) == (19_000.0, 190_000)  # one growth was before the range
            assert (one.newest_ms, one.size_bytes) == (HOUR + 190_000, 19_000.0)
            assert one.messages == (None if one.kafka_partition == 3 else 10.0)
    assert [one.topic for one in partition_rates(client, cluster, ALL, topics=["t1"])] == ["t1", "t1"]
    assert partition_rates(client, cluster, ALL, topics=[]) == []
    assert partition_rates(client, "another cluster", ALL) == []
    pages = list(partition_rates_pages(client, cluster, ALL, page_partitions=2))
    assert sorted((one.topic, one.kafka_partition) for page in pages for one in page) == [
        ("t0", 0),
        ("t0", 2),
        ("t0", 4),
        ("t1", 1),
        ("t1", 3),
    ]
    assert max(map(len, pages)) <= 2


def test_a_quote_in_a_name_is_a_name(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("it's 100% ; drop table %(x)s --")
    metrics_world.put(PARTITION_METRICS, [a_metric(cluster, "t", 0, HOUR)])
    assert len(partition_rates(metrics_world.client, cluster, ALL)) == 1


def test_an_hour_knows_the_bytes_out_only_if_all_its_samples_do(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("out")
    outs = {0: (1000.0, 3000.0), 1: (1000.0, -1.0), 2: (-1.0, -1.0)}
    metrics_world.put(
        PARTITION_METRICS,
        [
            a_metric(cluster, "t", partition, HOUR + round_ * 120_000, bytes_out_per_second=rate)
            for partition, rates in outs.items()
            for round_, rate in enumerate(rates)
        ],
    )
    (rows,) = hour_pages(metrics_world.client, Hour(cluster, HOUR))
    found = {row.partition.kafka_partition: row.mean_bytes_out_per_second for row in rows}
    assert found == {0: 2000.0, 1: -1, 2: -1}


def test_hours_are_what_the_samples_say(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("hours")
    rows = [
        a_metric(cluster, "t", p, HOUR + r * 120_000, inflow_bytes_per_second=float(p * 100 + r))
        for r in range(31)
        for p in range(3)
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    client, two = metrics_world.client, TimeRange(HOUR, HOUR + 2 * HOUR_MS)
    hours = {hour: n for hour, n in sampled_hours(client, two).items() if hour.cluster == cluster}
    assert hours == {Hour(cluster, HOUR): 90, Hour(cluster, HOUR + HOUR_MS): 3}
    rolled = [row for page in hour_pages(client, Hour(cluster, HOUR), page_partitions=1) for row in page]
    assert sorted(row.partition.kafka_partition for row in rolled) == [0, 1, 2]
    for row in rolled:
        base = row.partition.kafka_partition * 100
        assert (row.samples, row.hour_ms) == (30, HOUR)
        assert (row.partition.datacenter, row.partition.broker) == ("dc", 1)
        assert (row.mean_bytes_per_second, row.max_bytes_per_second) == (base + 14.5, base + 29.0)
        assert row.p95_bytes_per_second == base + 28.0
        assert (row.mean_messages_per_second, row.growth) == (10.0, LogGrowth(30_000.0, 300_000))
        assert row.mean_bytes_out_per_second == 0.0
    metrics_world.put(PARTITION_METRICS_HOURLY, rolled)
    assert rolled_up_hours(client, two)[Hour(cluster, HOUR)] == 90
    assert {
        r.inflow for r in partition_rates(client, cluster, two, grain=Grain.HOURS, statistic=Statistic.MAX)
    } == {
        29.0,
        129.0,
        229.0,
    }
    (topic,) = topic_rates(client, cluster, two, topics=["t"])
    assert (topic.partitions, topic.mean_bytes_per_second) == (3, 114.5)
    (half,) = topic_rates(client, cluster, TimeRange(HOUR, HOUR + 1), topics=["t"])
    assert half == topic


def test_movers_are_ordered_by_how_much_the_day_changed(metrics_world: MetricsWorld) -> None:
    cluster, day = fresh_name("movers"), 24 * HOUR_MS
    hours = [
        a_rollup(cluster, partition, HOUR - back * HOUR_MS, rate)
        for partition, (now, before) in enumerate([(100.0, 100.0), (10.0, 500.0), (900.0, 100.0)])
        for back, rate in [(b, now if b < 24 else before) for b in range(48)]
    ]
    metrics_world.put(PARTITION_METRICS_HOURLY, hours)
    found = top_movers(metrics_world.client, cluster, TimeRange(HOUR - day, HOUR + HOUR_MS))
    assert [(row.kafka_partition, round(row.change_bytes_per_second)) for row in found] == [
        (2, 800),
        (1, -490),
    ]
    assert [round(row.day_before_bytes_per_second) for row in found] == [100, 500]
    assert {(row.day_hours, row.day_before_hours) for row in found} == {(24, 24)}
    assert len(top_movers(metrics_world.client, cluster, TimeRange(HOUR, HOUR + HOUR_MS), limit=1)) == 1


def test_hours_without_samples_move_nothing(metrics_world: MetricsWorld) -> None:
    """One partition was sampled for three hours of the day before, another not at all on that day."""
    cluster = fresh_name("gaps")
    hours = [a_rollup(cluster, 0, HOUR - back * HOUR_MS, 100.0) for back in range(27)]
    hours += [a_rollup(cluster, 1, HOUR - back * HOUR_MS, 100.0) for back in range(24)]
    hours += [a_rollup(cluster, 2, HOUR - back * HOUR_MS, 100.0 if back < 24 else 40.0) for back in range(27)]
    metrics_world.put(PARTITION_METRICS_HOURLY, hours)
    (found,) = top_movers(metrics_world.client, cluster, TimeRange(HOUR, HOUR + HOUR_MS))
    assert (found.kafka_partition, found.change_bytes_per_second) == (2, 60.0)
    assert (found.day_hours, found.day_before_hours) == (24, 3)


def test_offending_partitions_since_when_and_what_to_do(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("offending")
    loads = {("skewed", 0): [900.0] * 6, ("skewed", 1): [10.0] * 6, ("even", 0): [10.0] * 3 + [800.0] * 3}
    loads |= {
        ("even", 1): [10.0] * 3 + [800.0] * 3,
        ("over", 0): [900.0] * 5 + [10.0],
        ("quiet", 0): [5.0] * 6,
    }
    rows = [
        a_metric(cluster, topic, number, HOUR + r * 10_000, inflow_bytes_per_second=rate)
        for (topic, number), rates in loads.items()
        for r, rate in enumerate(rates)
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    found = offending_partitions(
        metrics_world.client, cluster, ALL, 700.0, least_share=0.6, statistic=Statistic.MAX
    )
    by_name = {(row.topic, row.kafka_partition): row for row in found}
    assert set(by_name) == {("skewed", 0), ("even", 0), ("even", 1), ("over", 0)}
    skewed, even = by_name["skewed", 0], by_name["even", 0]
    assert (skewed.since_ms, skewed.advice) == (HOUR, Remedy.FIX_KEY)
    assert skewed.skew == pytest.approx(900 / 455)
    assert skewed.share == pytest.approx(900 / 700)
    assert (even.since_ms, even.advice) == (HOUR + 20_000, Remedy.ADD_PARTITIONS)
    assert by_name["over", 0].since_ms is None
    assert offending_partitions(metrics_world.client, cluster, ALL, 1e9) == []


def test_freshness_and_coverage(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("fresh")
    rows = [
        a_metric(cluster, "t", p, HOUR + 77 * r, growth_ms=10_000 * r) for p in range(3) for r in range(2)
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    (found,) = [row for row in freshness(metrics_world.client, ALL) if row.cluster == cluster]
    assert (found.newest_ms, found.samples, found.partitions, found.topics) == (HOUR + 77, 6, 3, 1)
    assert (found.source, found.grown) == ("cruise-control", 0.5)


def test_latency_at_every_depth_and_lag(metrics_world: MetricsWorld) -> None:
    datastream, cluster = fresh_name("latency"), fresh_name("source")
    rows = [
        a_measurement(datastream, cluster, p, HOUR + r * 5000, latency_ms=100 if p else 3, lag=p * 10 + r)
        for r in range(4)
        for p in range(3)
    ]
    metrics_world.put(MIRROR_METRICS, rows)
    client = metrics_world.client
    (whole,) = [row for row in latency_by_datastream(client, ALL) if row.datastream == datastream]
    assert (whole.records, whole.bytes, whole.lag_records) == (120, 12_000, 23)
    assert whole.counts[latency_bucket(100)] == 80
    assert whole.p50_ms is not None
    assert 64 < whole.p50_ms <= 128
    tasks = latency_by_task(client, ALL, datastream)
    assert [(row.task, row.records) for row in tasks] == [("task-0", 80), ("task-1", 40)]
    partitions = latency_by_partition(client, ALL, datastream)
    assert {row.kafka_partition: row.records for row in partitions} == {0: 40, 1: 40, 2: 40}
    lags = lag_by_partition(client, ALL, datastream)
    assert [(row.kafka_partition, row.lag_records) for row in lags] == [(2, 23), (1, 13), (0, 3)]
    assert {(row.time_ms, row.source_cluster, row.records_copied) for row in lags} == {
        (HOUR + 15_000, cluster, 40)
    }
    (row,) = [one for one in arrived(client, ALL) if one[0] == datastream]
    assert row == [datastream, cluster, "t", 120, *whole.counts]
    kept_up = mirror_rates(client, cluster, ALL, ["t"], 14.0)
    assert kept_up == [MirrorRateRow("t", n, 200.0, 2.0, 20_000, HOUR + 15_000) for n in (0, 1)]
    assert mirror_rates(client, cluster, ALL, [], 14.0) == []


def test_events_count_once_and_come_newest_first(metrics_world: MetricsWorld) -> None:
    datastream, kinds = fresh_name("events"), (ChangeKind.PLAN, ChangeKind.MOVE)
    events = [an_event(datastream, f"{datastream}-{n}", HOUR + n, kinds[n % 2]) for n in range(4)]
    metrics_world.put(PLACEMENT_EVENTS, [*events, *events], distinct=4)
    found = placement_events(metrics_world.client, ALL, datastream=datastream)
    assert [event.time_ms for event in found] == [HOUR + 3, HOUR + 2, HOUR + 1, HOUR]
    assert found[0].sentence == "because"
    moves = placement_events(metrics_world.client, ALL, datastream=datastream, kind=ChangeKind.MOVE, limit=1)
    assert [event.event_key for event in moves] == [f"{datastream}-3"]


def an_event(datastream: str, key: str, time_ms: int, kind: ChangeKind) -> PlacementEvent:
    return PlacementEvent(
        time_ms=time_ms,
        event_key=key,
        kind=kind,
        plan_epoch=1,
        instance="i",
        datastream=datastream,
        topic="t",
        kafka_partition=0,
        from_task="a",
        to_task="b",
        from_instance="i",
        to_instance="j",
        bytes_per_second=1.0,
        sentence="because",
    )


def test_an_incident_is_there_once_in_its_newest_state(metrics_world: MetricsWorld) -> None:
    name = fresh_name("incidents")
    topic = IncidentTopic(KafkaCluster(bootstrap_servers=metrics_world.address), name, 90, INCIDENTS.topic)
    sentence = "a record has waited for 99999 ms, " * 30
    late = IncidentRecord(f"{name}-1", name, "east", HOUR, judged_ms=HOUR).noted(
        HOUR, Phase.DETECTED, sentence
    )
    topic.write([late], {"alerts/x": b"{}"})
    cost = BudgetCost("99 % within 1 ms over 30 d", 0.75, 0.5)
    known = replace(late, judged_ms=HOUR + 60_000, bad_seconds=60.0, cause="source-bound", costs=(cost,))
    counts = (DeliveryCost("p99 within 1 ms", 40, 2.5), DeliveryCost("p99 within 9 ms", 40, 0.5))
    known = replace(known, deliveries=counts)
    over = replace(
        known.noted(HOUR + 60_000, Phase.CLOSED, "well"), closed_ms=HOUR + 60_000, evidence={"a": 1.5}
    )
    topic.write([over, replace(late, id=f"{name}-2", opened_ms=HOUR + 1)], {})

    def found() -> list[IncidentRow]:
        return incidents(metrics_world.client, ALL, datastream=name)

    wait_until(lambda: [one.cause for one in found()] == ["", "source-bound"], "both incidents, newest first")
    lasts, ended = found()
    assert (lasts.closed_ms, lasts.budget_spent, lasts.worst_ms) == (None, None, None)
    assert (lasts.records_delivered, lasts.records_late) == (None, None)
    assert (ended.records_delivered, ended.records_late) == (40, 2.5)
    assert (ended.closed_ms, ended.budget_spent, ended.bad_seconds) == (HOUR + 60_000, 0.25, 60.0)
    assert json.loads(ended.evidence) == {"a": 1.5}
    assert len(ended.timeline) > 512, "Pinot truncated a text"
    assert [one["text"] for one in json.loads(ended.timeline)] == [one.text for one in over.timeline]

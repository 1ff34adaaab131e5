"""Loads for the assigner: fresh, stale, incomplete, misnamed, and while Pinot is down."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.__main__ import main
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import LoadUnavailable
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadLevel, LoadReport, RateSource
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.settings import KafkaCluster
from pinot.client import PinotClient
from pinot.partitions.load_queries import partition_rates
from pinot.partitions.offending_partitions import offending_partitions
from pinot.partitions.rollups import HOUR_MS, Hour, hour_pages
from pinot.settings import PinotSettings
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS, PARTITION_METRICS_HOURLY, LogGrowth, Statistic
from pinot.time_range import TimeRange
from pmp.adapters.compacted_topics import CompactedTopics
from pmp.loads.provider import PinotLoadProvider, ProviderInputs
from pmp.settings import PmpSettings, ProviderSettings
from stack.pinot import PinotServer
from stack.ports import free_ports
from tests.metrics_data import MetricsWorld, a_measurement, a_metric, a_rollup, fresh_name
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers

NOW = 1_795_000_000_000 // HOUR_MS * HOUR_MS + 1_800_000
ORDERS = [TopicPartition("orders", number) for number in range(3)]


class StoppedClock:
    """Clock that the test sets."""

    def __init__(self, now_ms: int = NOW) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


@pytest.fixture(scope="module")
def metrics_world(pinot_client: PinotClient, kafka_pair: KafkaPair) -> MetricsWorld:
    return MetricsWorld(pinot_client, kafka_pair.destination.address)


@pytest.fixture
def nowhere() -> Iterator[PinotClient]:
    """Return a client of an unreachable Pinot."""
    with closing(PinotClient(PinotSettings(broker=f"127.0.0.1:{free_ports(1)[0]}", attempts=1))) as client:
        yield client


def settings(**provider: Any) -> PmpSettings:
    chosen = {"window_seconds": 600, "statistic": Statistic.MEAN, "default_bytes_per_second": 7.0}
    return PmpSettings(provider=ProviderSettings.model_validate(chosen | provider))


def put_orders(world: MetricsWorld, cluster: str, *numbers: int, newest_ms: int = NOW) -> None:
    rows = [
        a_metric(
            cluster,
            "orders",
            number,
            newest_ms - back * 10_000,
            growth_bytes=10_000.0 * (number + 1),
            inflow_bytes_per_second=1000.0 * (number + 1),
            bytes_in_per_second=2000.0,
        )
        for number in numbers
        for back in range(6)
    ]
    world.put(PARTITION_METRICS, rows)


def rates(report: LoadReport) -> list[float]:
    return [load.bytes_per_second for _, load in sorted(report.loads.items())]


def test_each_partition_has_its_own_rate(metrics_world: MetricsWorld) -> None:
    cluster = ClusterRef(fresh_name("own"))
    put_orders(metrics_world, cluster, 0, 1, 2)
    report = PinotLoadProvider(metrics_world.client, settings(), StoppedClock()).loads(cluster, ORDERS)
    assert rates(report) == [1000, 2000, 3000]
    assert {load.rate_source for load in report.loads.values()} == {RateSource.SLOPE}
    assert (report.measured, report.measured_at_ms, report.notes) == (3, NOW, ())


def test_gaps_are_filled_from_the_topic_then_its_history_then_the_default(
    metrics_world: MetricsWorld,
) -> None:
    cluster = ClusterRef(fresh_name("gaps"))
    put_orders(metrics_world, cluster, 0, 1)
    hour = NOW // HOUR_MS * HOUR_MS
    history = [a_rollup(cluster, 0, hour - hours * HOUR_MS, 40.0, "silent") for hours in (2, 3)]
    metrics_world.put(PARTITION_METRICS_HOURLY, history)
    asked = [*ORDERS, TopicPartition("silent", 5), TopicPartition("unreported", 0)]
    report = PinotLoadProvider(metrics_world.client, settings(), StoppedClock()).loads(cluster, asked)
    assert [report.loads[p].bytes_per_second for p in asked] == [1000, 2000, 1500, 40, 7]
    assert [report.loads[p].level for p in asked] == [
        LoadLevel.PARTITION,
        LoadLevel.PARTITION,
        LoadLevel.TOPIC,
        LoadLevel.TOPIC,
        LoadLevel.DEFAULT,
    ]
    assert any(note.startswith("2 of 5 partitions") for note in report.notes)
    for left_out in (None, 0.0):
        provider = PinotLoadProvider(
            metrics_world.client,
            settings(default_bytes_per_second=left_out),
            StoppedClock(),
            ProviderInputs(unknown_bytes_per_second=9.0),
        )
        assert provider.loads(cluster, asked).loads[asked[-1]].bytes_per_second == 9


def test_a_provider_that_starts_while_samples_are_away_uses_the_same_hour_of_earlier_weeks(
    metrics_world: MetricsWorld,
) -> None:
    """A new leader starts like this: without earlier results, long after the sampler failed."""
    cluster, hour, week = fresh_name("seasonal"), NOW // HOUR_MS * HOUR_MS, 7 * 24 * HOUR_MS
    weeks = [a_rollup(cluster, 0, hour - back * week, 100.0 * back) for back in (1, 2, 3)]
    yesterday = [a_rollup(cluster, 1, hour - 24 * HOUR_MS, 70.0)]
    rows = [replace(row, growth=LogGrowth(0.0, 0)) for row in (*weeks, *yesterday)]
    metrics_world.put(PARTITION_METRICS_HOURLY, rows)
    provider = PinotLoadProvider(metrics_world.client, settings(), StoppedClock())
    t0, t1, t2, other = (*(TopicPartition("t", number) for number in range(3)), ORDERS[0])
    report = provider.loads(ClusterRef(cluster), [t0, t1, t2, other])
    loads = [report.loads[one] for one in (t0, t1, t2, other)]
    assert [round(one.bytes_per_second) for one in loads[:2]] == [200, 70]
    assert [one.rate_source for one in loads[:2]] == [RateSource.SEASONAL] * 2
    assert [one.level for one in loads[2:]] == [LoadLevel.TOPIC, LoadLevel.DEFAULT]
    assert any(note.startswith("seasonal: 2 of 4") for note in report.notes)


def test_averages_are_corrected_by_what_the_mirror_copied(metrics_world: MetricsWorld) -> None:
    cluster = ClusterRef(fresh_name("corrected"))
    rows = [
        a_metric(cluster, "t", number, NOW - 1000, growth_bytes=0.0, growth_ms=0, bytes_in_per_second=500.0)
        for number in range(4)
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    copied = [  # 0: in the whole window; 1: far behind; 2: unknown lag; 3: in one report only
        a_measurement("d", cluster, n, NOW - 5000 * report, latency_ms=1, lag=lag)
        for n, lag, reports in ((0, 5, 119), (1, 99_000, 119), (2, -1, 119), (3, 5, 1))
        for report in range(1, reports + 1)
    ]
    metrics_world.put(MIRROR_METRICS, copied)
    asked = [TopicPartition("t", number) for number in range(4)]
    report = PinotLoadProvider(metrics_world.client, settings(), StoppedClock()).loads(cluster, asked)
    assert [report.loads[p].rate_source for p in asked] == [
        RateSource.MIRROR,
        RateSource.MEAN,
        RateSource.MEAN,
        RateSource.PARTIAL,
    ]
    assert rates(report) == [200, 500, 500, 200]
    assert [report.loads[p].age_ms(NOW) for p in asked] == [5000, 1000, 1000, 5000]


def test_growths_of_compacted_topics_are_not_used(metrics_world: MetricsWorld, kafka_pair: KafkaPair) -> None:
    cluster, source = (
        ClusterRef(fresh_name("compacted")),
        KafkaCluster(bootstrap_servers=kafka_pair.source.address),
    )
    kept, compacted = fresh_name("kept"), fresh_name("table")
    for topic, policy in ((kept, "delete"), (compacted, "compact,delete")):
        KafkaAdmin(source).create(TopicDescription(topic, 1, settings={"cleanup.policy": policy}))
    rows = [
        a_metric(cluster, topic, 0, NOW - 1000, growth_bytes=9e9, bytes_in_per_second=500.0)
        for topic in (kept, compacted)
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    clock = StoppedClock()
    inputs = ProviderInputs(compacted=CompactedTopics(lambda _: source, clock))
    asked = [TopicPartition(kept, 0), TopicPartition(compacted, 0)]
    report = PinotLoadProvider(metrics_world.client, settings(), clock, inputs).loads(cluster, asked)
    assert [report.loads[p].rate_source for p in asked] == [RateSource.SLOPE, RateSource.MEAN]
    assert report.loads[asked[1]].bytes_per_second == 500.0


def test_a_long_window_is_answered_from_the_rollups(metrics_world: MetricsWorld) -> None:
    cluster = ClusterRef(fresh_name("long"))
    hour = NOW // HOUR_MS * HOUR_MS
    rows = [a_rollup(cluster, 0, hour - back * HOUR_MS, float(back)) for back in range(30)]
    metrics_world.put(PARTITION_METRICS_HOURLY, [replace(row, growth=LogGrowth(0.0, 0)) for row in rows])
    provider = PinotLoadProvider(metrics_world.client, settings(), StoppedClock())
    report = provider.measured(cluster, NOW, 24 * HOUR_MS, Statistic.MAX)
    (load,) = report.loads.values()
    assert load.bytes_per_second == pytest.approx(24.0)


def test_of_the_hour_in_which_a_long_window_begins_its_share_counts(metrics_world: MetricsWorld) -> None:
    """The window is three hours up to 35 minutes past: 25 minutes of the first hour, which had more load."""
    cluster = ClusterRef(fresh_name("cut"))
    hour = NOW // HOUR_MS * HOUR_MS
    now = hour + 35 * 60_000
    kinds = {"grown": 1.0, "averaged": 0.0}
    rows = [
        replace(
            a_rollup(cluster, 0, hour - back * HOUR_MS, rate, topic),
            samples=minutes,
            growth=LogGrowth(known * rate * minutes * 60, int(known) * minutes * 60_000),
        )
        for topic, known in kinds.items()
        for back, rate, minutes in (
            (4, 9e9, 60),
            (3, 10_000.0, 60),
            (2, 100.0, 60),
            (1, 100.0, 60),
            (0, 100.0, 35),
        )
    ]
    metrics_world.put(PARTITION_METRICS_HOURLY, rows)
    provider = PinotLoadProvider(metrics_world.client, settings(), StoppedClock(now))
    report = provider.measured(cluster, now, 3 * HOUR_MS, Statistic.MEAN)
    expected = (25 * 10_000.0 + 155 * 100.0) / 180
    assert {p.topic: load.bytes_per_second for p, load in report.loads.items()} == pytest.approx(
        dict.fromkeys(kinds, expected), rel=1e-6
    )
    assert {p.topic: load.rate_source for p, load in report.loads.items()} == {
        "grown": RateSource.SLOPE,
        "averaged": RateSource.MEAN,
    }
    assert {load.age_ms(now) for load in report.loads.values()} == {35 * 60_000}


def test_old_samples_and_foreign_names_are_flagged(metrics_world: MetricsWorld) -> None:
    cluster = ClusterRef(fresh_name("flags"))
    put_orders(metrics_world, cluster, 0, newest_ms=NOW - 300_000)
    provider = PinotLoadProvider(metrics_world.client, settings(stale_after_seconds=60), StoppedClock())
    report = provider.loads(cluster, [TopicPartition("ORDERS", 0)])
    assert report.notes[0].startswith("stale: ")
    assert " 5 min " in report.notes[0]
    assert report.notes[1].startswith("key mismatch: 1 of 1 ")
    assert report.notes[1].endswith(" orders")


def test_an_unknown_cluster_is_no_answer_and_the_error_names_those_there_are(
    metrics_world: MetricsWorld,
) -> None:
    cluster = fresh_name("known")
    put_orders(metrics_world, cluster, 0)
    provider = PinotLoadProvider(metrics_world.client, settings(), StoppedClock())
    with pytest.raises(LoadUnavailable) as caught:
        provider.loads(ClusterRef("host:9092"), ORDERS)
    assert "host:9092" in caught.value.message
    assert cluster in str(caught.value)
    named = ProviderInputs(name_of=lambda reference: cluster if reference == "host:9092" else str(reference))
    provider = PinotLoadProvider(metrics_world.client, settings(), StoppedClock(), named)
    assert provider.loads(ClusterRef("host:9092"), ORDERS).measured == 1


def test_the_last_known_loads_serve_while_pinot_is_away_until_they_are_too_old(
    metrics_world: MetricsWorld, nowhere: PinotClient, tmp_path: Path
) -> None:
    cluster = ClusterRef(fresh_name("away"))
    put_orders(metrics_world, cluster, 0, 1, 2)
    clock, chosen = StoppedClock(), settings(cache_folder=str(tmp_path), oldest_answer_seconds=7200)
    fresh = PinotLoadProvider(metrics_world.client, chosen, clock).loads(cluster, ORDERS)
    restarted = PinotLoadProvider(nowhere, chosen, clock)
    clock.ms += 3_600_000
    report = restarted.loads(cluster, ORDERS)
    assert rates(report) == rates(fresh)
    assert {load.rate_source for load in report.loads.values()} == {RateSource.HELD}
    assert {load.age_ms(clock.ms) for load in report.loads.values()} == {3_600_000}
    assert report.measured_at_ms == NOW
    assert " 60 min " in report.notes[0]
    clock.ms += 2 * 3_600_000
    with pytest.raises(LoadUnavailable, match="180 min old"):
        restarted.loads(cluster, ORDERS)
    with pytest.raises(LoadUnavailable, match="Pinot broker"):
        PinotLoadProvider(nowhere, settings(), clock).loads(cluster, ORDERS)


def test_pinot_is_not_queried_for_every_plan(metrics_world: MetricsWorld, nowhere: PinotClient) -> None:
    cluster = ClusterRef(fresh_name("plans"))
    put_orders(metrics_world, cluster, 0)
    clock = StoppedClock()
    provider = PinotLoadProvider(metrics_world.client, settings(refresh_seconds=10), clock)
    assert provider.loads(cluster, ORDERS[:1]).measured == 1
    put_orders(metrics_world, cluster, 1)
    clock.ms += 9_999
    assert provider.loads(cluster, ORDERS[:2]).measured == 1
    clock.ms += 1
    assert provider.loads(cluster, ORDERS[:2]).measured == 2


def test_rows_that_no_topic_can_have_harm_no_other(metrics_world: MetricsWorld) -> None:
    cluster = ClusterRef(fresh_name("spoilt"))
    put_orders(metrics_world, cluster, 0, 1, 2)
    odd = [("*", 0), ("", 0), ("a'b", 0), (".", 1), ("orders", 2**31 - 1)]
    rows = [
        a_metric(cluster, topic, number, NOW - 1000, inflow_bytes_per_second=9e9) for topic, number in odd
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    report = PinotLoadProvider(metrics_world.client, settings(), StoppedClock()).loads(cluster, ORDERS)
    assert rates(report) == [1000, 2000, 3000]
    when = TimeRange.up_to(NOW, 600_000)
    (offending,) = offending_partitions(metrics_world.client, cluster, when, 3000.0, least_share=1.0)
    assert (offending.topic, offending.kafka_partition, offending.topic_partitions) == ("orders", 2, 3)


def test_a_moved_partition_belongs_to_its_newest_broker(metrics_world: MetricsWorld) -> None:
    cluster = ClusterRef(fresh_name("moved"))
    averaged: dict[str, Any] = {"growth_bytes": 0.0, "growth_ms": 0}
    rows = [
        a_metric(cluster, "t", number, NOW - back, broker=broker, bytes_in_per_second=rate, **averaged)
        for number, back, broker, rate in (
            (0, 0, 1, 100.0),
            (1, 0, 2, 500.0),
            (2, 10_000, 9, 500.0),  # led by 9 and later by 2: the highest number is not the newest
            (2, 0, 2, 500.0),
        )
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    when = TimeRange.up_to(NOW, 600_000)
    found = partition_rates(metrics_world.client, cluster, when)
    assert {rate.kafka_partition: rate.broker for rate in found} == {0: 1, 1: 2, 2: 2}
    (page,) = hour_pages(metrics_world.client, Hour(cluster, NOW // HOUR_MS * HOUR_MS))
    assert {row.partition.kafka_partition: row.partition.broker for row in page} == {0: 1, 1: 2, 2: 2}


def test_a_growth_from_before_the_window_counts_for_its_share_and_silence_is_marked(
    metrics_world: MetricsWorld,
) -> None:
    cluster = ClusterRef(fresh_name("returned"))
    rows = [
        a_metric(
            cluster,
            "t",
            number,
            NOW - back,
            growth_bytes=10.0 * growth_ms,
            growth_ms=growth_ms,
            bytes_in_per_second=1e4,
        )
        for number, steps in {
            0: [(back, 10_000) for back in range(0, 60_000, 10_000)],
            1: [(0, 10_000), (10_000, 10_000), (20_000, 200_000)],  # returned; mostly before the window
            2: [(back, 10_000) for back in range(30_000, 60_000, 10_000)],  # failed half a minute ago
        }.items()
        for back, growth_ms in steps
    ]
    metrics_world.put(PARTITION_METRICS, rows)
    provider = PinotLoadProvider(metrics_world.client, settings(window_seconds=60), StoppedClock())
    rate_of = {
        rate.kafka_partition: rate
        for rate in partition_rates(metrics_world.client, cluster, TimeRange.up_to(NOW, 60_000))
    }
    assert [round(rate_of[number].growth_ms, -1) for number in range(3)] == [60_000, 60_000, 30_000]
    assert rate_of[1].growth_bytes == pytest.approx(600_000, rel=1e-3)
    report = provider.loads(cluster, [TopicPartition("t", number) for number in range(3)])
    loads = [report.loads[TopicPartition("t", number)] for number in range(3)]
    assert [load.rate_source for load in loads] == [RateSource.SLOPE, RateSource.PARTIAL, RateSource.HELD]
    assert [load.age_ms(NOW) for load in loads] == [0, 0, 30_000]
    assert [note.partition(":")[0] for note in report.notes] == ["held", "partial"]


def test_the_command_says_how_many_loads_are_held(
    metrics_world: MetricsWorld,
    pinot_server: PinotServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = fresh_name("held")
    put_orders(metrics_world, cluster, 0, 1)
    put_orders(metrics_world, cluster, 2, newest_ms=NOW - 120_000)
    config = tmp_path / "headrace.toml"
    config.write_text(
        f'[pinot]\ncontroller = "{pinot_server.controller_address}"\nbroker = "{pinot_server.broker_address}"'
    )
    words = ["pmp", "loads", "--cluster", cluster, "--at", str(NOW + 20_000), "--window", "10m", "--json"]
    monkeypatch.setattr(sys, "argv", ["headrace", *words, "--config", str(config)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    shown = capsys.readouterr()
    assert [row["rate_source"] for row in json.loads(shown.out)].count("held") == 1
    (note,) = [line for line in shown.err.splitlines() if "held" in line]
    assert " 1 of 3 " in note

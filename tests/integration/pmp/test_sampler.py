"""The sampler on real brokers: its samples match the writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.system_clock import SystemClock
from mirror.ports import Clock
from mirror.settings import KafkaCluster
from pmp.adapters.cluster_probe import KafkaClusterProbe
from pmp.adapters.group_leadership import GroupLeadership
from pmp.adapters.sample_topic import SampleTopic
from pmp.sampler import Sampler
from pmp.samples.decoder import decode
from pmp.samples.description import describe
from tests.fakes.clock import ManualClock
from tests.kafka_data import Record, counts, make_topic, produce, read_all
from tests.metrics_data import fresh_name
from tests.patience import wait_until
from tests.servers import KafkaPair, NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.deep]


@contextmanager
def a_sampler(
    address: str,
    topic: str,
    interval_seconds: float = 60.0,
    clock: Clock | None = None,
) -> Iterator[Sampler]:
    cluster = KafkaCluster(bootstrap_servers=address)
    sampler = Sampler(
        "source",
        KafkaClusterProbe(cluster, clock or SystemClock()),
        SampleTopic(cluster, topic, 2),
        interval_seconds,
    )
    try:
        yield sampler
    finally:
        sampler.stop(30)


def write(address: str, topic: str, partition: int, count: int, size: int = 1000) -> None:
    """Write random payloads, which do not compress."""
    produce(address, topic, [Record(partition, None, os.urandom(size), (), 0) for _ in range(count)])


def _times(samples: list[dict[str, Any]]) -> list[int]:
    return sorted({one["time_ms"] for one in samples})


def test_samples_say_what_was_written(kafka_pair: KafkaPair) -> None:
    address, topic, samples = kafka_pair.source.address, fresh_name("measured"), fresh_name("__samples")
    make_topic(address, topic, 3)
    for partition in range(3):
        write(address, topic, partition, 1)
    clock = ManualClock(SystemClock().now_ms())  # sampling takes no time, so that both rates are exact
    with a_sampler(address, samples, clock=clock) as sampler:
        assert sampler.round() == 0
        write(address, topic, 0, 100)
        write(address, topic, 1, 10)
        clock.advance(2.0)
        assert sampler.round() > 0
        write(address, topic, 0, 50)
        clock.advance(2.0)
        sampler.round()
    records = read_all(address, samples)
    decoded = [describe(decode(pa.array([record.value], pa.binary()))) for record in records]
    ours = sorted((one for one in decoded if one["topic"] == topic), key=lambda one: one["partition"])
    first, second = ([one for one in ours if one["time_ms"] == time] for time in _times(ours))
    assert [one["partition"] for one in first] == [0, 1, 2]
    messages = [one["messages_in_per_second"] for one in first]
    assert messages[0] / messages[1] == pytest.approx(10)
    assert (messages[2], first[2]["bytes_in_per_second"]) == (0.0, 0.0)
    assert 1000 < first[0]["bytes_in_per_second"] / messages[0] < 1500  # a payload and its framing
    assert 50_000 < second[0]["size_bytes"] - first[0]["size_bytes"] < 60_000
    assert all(one["version"] == 1 and one["broker"] == 1 for one in decoded)
    assert all(one["bytes_out_per_second"] is None and one["cpu"] is None for one in decoded)
    made = KafkaAdmin(KafkaCluster(bootstrap_servers=address)).describe([samples])[samples]
    assert (made.partitions, made.settings["retention.ms"]) == (2, "3600000")


def test_samplers_of_a_cluster_take_turns(kafka_pair: KafkaPair) -> None:
    address, topic = kafka_pair.source.address, fresh_name("__samples")
    make_topic(address, topic, 2)
    cluster = KafkaCluster(bootstrap_servers=address)
    samplers = [GroupLeadership(cluster, topic) for _ in range(3)]
    try:
        for one in samplers:
            one.start()
        wait_until(lambda: sum(one.is_leader() for one in samplers) == 1)
        (leader,) = [one for one in samplers if one.is_leader()]
        leader.stop(30)
        others = [one for one in samplers if one is not leader]
        wait_until(lambda: sum(one.is_leader() for one in others) == 1)
        assert not leader.is_leader()
    finally:
        for one in samplers:
            one.stop(30)
    assert all(one.failure is None for one in samplers)


def test_a_sampler_outlives_its_broker(new_kafka: NewKafka) -> None:
    kafka = new_kafka()
    with a_sampler(kafka.address, "__samples", 0.2) as sampler:
        sampler.start()
        wait_until(lambda: counts(kafka.address, ["__samples"])["__samples"])
        kafka.kill()
        wait_until(lambda: sampler.last_problem)
        assert not sampler.healthy
        kafka.start()
        stored = counts(kafka.address, ["__samples"])["__samples"]
        wait_until(lambda: counts(kafka.address, ["__samples"])["__samples"] > stored)
        wait_until(lambda: not sampler.last_problem)
    assert sampler.failure is None

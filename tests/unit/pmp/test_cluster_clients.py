"""The clients of the sampler and the rollup on a fake cluster: measurements, writes and missing rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from zlib import crc32

import pytest

from mirror.adapters.settings import KafkaCluster
from mirror.errors import NotAuthorized, TopicMissing
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.compression import Codec
from pmp.adapters.cluster_probe import KafkaClusterProbe
from pmp.adapters.hourly_topic import HourlyTopic
from pmp.adapters.sample_topic import SampleTopic
from pmp.samples.sample import Sample, encode
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Code, Drop
from tests.fakes.clock import ManualClock
from tests.metrics_data import a_rollup

PRODUCE, LIST_OFFSETS, DESCRIBE_LOG_DIRS = 0, 2, 35
NO_RIGHT_ON_TOPIC, NO_RIGHT_ON_CLUSTER, MOVED = 29, 31, 6
SAMPLES = [Sample("orders", number, 1, 1_000 + number, 10.0, 500.0) for number in range(6)]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with running(FakeCluster("measured", 2)) as made:
        yield made


def settings_of(cluster: FakeCluster) -> KafkaCluster:
    return KafkaCluster(bootstrap_servers=cluster.address)


def test_a_measurement_has_leaders_ends_and_sizes_of_all_brokers(cluster: FakeCluster) -> None:
    with cluster.lock:
        cluster.create_topic("orders", 2)
        cluster.write("orders", [(0, None, b"a", ()), (0, None, b"b", ())], 1)
    clock = ManualClock(5_000)
    with closing(KafkaClusterProbe(settings_of(cluster), clock)) as probe:
        look = probe.snapshot()
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert look.leaders.keys() == {first, second}
    assert set(look.leaders.values()) == {1, 2}
    assert look.end_offsets == {first: 0, second: 2}
    assert look.size_bytes == {first: 0, second: 2}
    assert look.time_ms == 5_000


def test_a_partition_without_an_end_is_omitted(cluster: FakeCluster) -> None:
    with cluster.lock:
        cluster.create_topic("orders")
        cluster.create_topic("moving")
        cluster.faults.plant(LIST_OFFSETS, Code(MOVED, "moving"), times=None)
    with closing(KafkaClusterProbe(settings_of(cluster), ManualClock(0))) as probe:
        look = probe.snapshot()
    assert look.end_offsets.keys() == {TopicPartition("orders", 0)}
    assert len(look.leaders) == len(look.size_bytes) == 2


@pytest.mark.parametrize(
    ("api", "fault", "right"),
    [
        (DESCRIBE_LOG_DIRS, Code(NO_RIGHT_ON_CLUSTER), "Describe on the cluster"),
        (LIST_OFFSETS, Code(NO_RIGHT_ON_TOPIC, "orders"), "Describe on topic orders"),
    ],
)
def test_a_missing_right_is_named(cluster: FakeCluster, api: int, fault: Code, right: str) -> None:
    with cluster.lock:
        cluster.create_topic("orders")
        cluster.faults.plant(api, fault, times=None)
    probe = KafkaClusterProbe(settings_of(cluster), ManualClock(0))
    with closing(probe), pytest.raises(NotAuthorized, match=f"grant {right}"):
        probe.snapshot()


def test_samples_are_written_without_key_at_their_time_to_a_topic_that_is_created(
    cluster: FakeCluster,
) -> None:
    with closing(SampleTopic(settings_of(cluster), "__samples", 3)) as topic:
        topic.write([])
        topic.write(SAMPLES)
    with cluster.lock:
        logs = [cluster.log("__samples", number) for number in range(3)]
        seen = [record for log in logs for record in committed(log)]
        codecs = {batch.data[22] & 7 for log in logs for batch in log.batches}
        assert [len(committed(log)) for log in logs] == [2, 2, 2]
    assert [(one.timestamp, one.key, one.value) for one in seen] == [
        (sample.time_ms, None, encode(sample)) for sample in SAMPLES
    ]
    assert codecs == {Codec.GZIP}


def test_a_write_without_response_repeats_only_its_batch(cluster: FakeCluster) -> None:
    with closing(SampleTopic(settings_of(cluster), "__samples", 2)) as topic:
        topic.create()
        with cluster.lock:
            cluster.faults.plant(PRODUCE, Drop())
        topic.write(SAMPLES)
    with cluster.lock:
        assert [len(committed(cluster.log("__samples", number))) for number in range(2)] == [3, 3]


def test_a_rollup_is_in_the_partition_of_its_key(cluster: FakeCluster) -> None:
    with cluster.lock:
        cluster.create_topic("hours", 4)
    with closing(HourlyTopic(settings_of(cluster), "hours")) as topic:
        topic.write(a_rollup("east", number, 3_600_000, 1.0, "orders") for number in range(8))
    with cluster.lock:
        found = {
            number: [one.key or b"" for one in committed(cluster.log("hours", number))] for number in range(4)
        }
    assert sorted(key for keys in found.values() for key in keys) == [
        f"east/orders/{number}".encode() for number in range(8)
    ]
    assert all(crc32(key) % 4 == number for number, keys in found.items() for key in keys)


def test_a_rollup_does_not_create_its_topic(cluster: FakeCluster) -> None:
    topic = HourlyTopic(settings_of(cluster), "hours")
    with closing(topic), pytest.raises(TopicMissing):
        topic.write([a_rollup("east", 0, 3_600_000, 1.0, "orders")])

"""Contract tests of Headrace's connectors, and of Kafka on a fake and on a real cluster."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.records import Record
from mirror.replication.connector import Bounds, Position, RecordSink, RecordSource, open_sink, open_source
from mirror.replication.connectors.files import FileSource
from mirror.replication.connectors.kafka import KafkaSink, KafkaSource
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.contract.connectors import (
    RecordSinkContract,
    RecordSourceContract,
    SinkRig,
    SourceRig,
    plain,
    special,
)
from tests.engines import look, write
from tests.fakes.broker.cluster import FakeCluster, running
from tests.kafka_data import Record as Written
from tests.kafka_data import make_topic

pytestmark = pytest.mark.long

T = TypeVar("T")
CLUSTER = ClusterRef("cluster")


class _Running:
    """Runner of coroutines on the loop of a context, with or without a cluster."""

    def __init__(self, address: str = "127.0.0.1:1") -> None:
        self.address = address
        self.place = TopicPartition(f"connector-{uuid4().hex[:8]}", 0)
        self.bench = EngineContext(
            {CLUSTER: ClusterAccess(endpoints(address))}.__getitem__,
            CopyingOptions(),
            EngineIdentity("contract", progress_topic="connector-progress"),
            SystemClock(),
        )

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        return self.bench.run(steps)


class FileSinkRig(_Running):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def open(self) -> RecordSink:
        return open_sink(f"file:{self.root}")

    def seen(self, place: TopicPartition) -> Sequence[Record]:
        source = FileSource(self.root)
        bounds = self.run(source.bounds([place]))[place]
        return self.run(read_from(source, place, bounds))


async def read_from(source: RecordSource, place: TopicPartition, bounds: Bounds) -> list[Record]:
    portions = source.read(place, bounds.first, bounds.end)
    return [one async for portion in portions for one in portion.records]


class FileSourceRig(_Running):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self.records: Sequence[Record] = [*plain(3, 600), *special(600), *plain(610, 900)]
        self.source = open_source(f"file:{root}")
        sink = open_sink(f"file:{root}")
        self.run(sink.prepare({self.place.topic: 1}))
        self.run(sink.take(self.place))
        self.run(sink.commit(self.place, Position(3)))
        for first, end in ((3, 200), (200, 610), (610, 900)):
            self.run(sink.write(self.place, [one for one in self.records if first <= one.offset < end]))
            self.run(sink.commit(self.place, Position(end)))
        sink.close()


class KafkaSinkRig(_Running):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.state = GroupName(f"state-{self.place.topic}")

    def open(self) -> RecordSink:
        return KafkaSink(self.bench, CLUSTER, self.state)

    def seen(self, place: TopicPartition) -> Sequence[Record]:
        return [
            Record(
                one.offset,
                one.timestamp,
                one.key,
                one.value,
                tuple((name.encode(), value) for name, value in one.headers),
            )
            for one in look(self.address, place.topic, place.partition)
        ]


class KafkaSourceRig(_Running):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.source: RecordSource = KafkaSource(self.bench.cluster(CLUSTER))
        made = [*plain(0, 600), *special(600)]
        self.records: Sequence[Record] = [one._replace(offset=n) for n, one in enumerate(made)]
        make_topic(address, self.place.topic, 1, retention_ms="-1")
        written = [
            Written(
                0,
                one.key,
                one.value,
                tuple((key.decode(), value) for key, value in one.headers),
                one.timestamp,
            )
            for one in self.records
        ]
        write(address, self.place.topic, written, per_batch=50)


@pytest.fixture(scope="module")
def fake_address() -> Iterator[str]:
    with running(FakeCluster("connectors")) as cluster:
        yield cluster.address


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.servers)])
def address(request: pytest.FixtureRequest) -> str:
    """Return the bootstrap servers of a fake or real cluster."""
    if request.param == "fake":
        found: str = request.getfixturevalue("fake_address")
        return found
    pair = request.getfixturevalue("kafka_pair")
    real: str = pair.destination.address
    return real


class TestFileSink(RecordSinkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[SinkRig]:
        made = FileSinkRig(tmp_path)
        yield made
        made.bench.close()


class TestFileSource(RecordSourceContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[SourceRig]:
        made = FileSourceRig(tmp_path)
        yield made
        made.bench.close()


class TestKafkaSink(RecordSinkContract):
    @pytest.fixture
    def rig(self, address: str) -> Iterator[SinkRig]:
        made = KafkaSinkRig(address)
        yield made
        made.bench.close()


class TestKafkaSource(RecordSourceContract):
    @pytest.fixture
    def rig(self, address: str) -> Iterator[SourceRig]:
        made = KafkaSourceRig(address)
        yield made
        made.bench.close()

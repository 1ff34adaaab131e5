"""Two real clusters, and the topics on them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import LATEST, OffsetAnswer
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from stack.kafka import KafkaCluster, NodePorts
from stack.process.parallel import for_each
from stack.process.wait import wait_until
from stack.server import Jvm

_PATIENCE_SECONDS = 60
_SECONDS_A_PARTITION = 0.2
"""Additional time for the creation of a partition on a busy machine."""
_HERE = ClusterRef("here")
_MANY_PARTITIONS = {
    "log.index.size.max.bytes": 4096,
    "log.retention.check.interval.ms": 3_600_000,
    "default.replication.factor": 1,
}


@dataclass(frozen=True)
class Pair:
    """Source and destination cluster, and a folder for the files of the mirrors."""

    source: KafkaCluster
    target: KafkaCluster
    folder: Path


TLS_LISTENER = "SSL"
TLS_FILES = Path(__file__).parents[3] / "tests/data/tls"
TLS_PROPERTIES: dict[str, object] = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": TLS_FILES / "broker.pem",
}


@contextmanager
def clusters(
    *,
    nodes: int = 1,
    heap_mib: int = 512,
    quick_start: bool = False,
    properties: Mapping[str, object] | None = None,
    listeners: Sequence[str] = (),
    jar_set: str = "",
) -> Iterator[Pair]:
    """Run both clusters; stop them and delete their data with the context. `jar_set`: of the brokers."""
    with tempfile.TemporaryDirectory() as folder:
        jvm = Jvm(heap_mib=heap_mib, quick_start=quick_start, jar_set=jar_set)
        both = [
            KafkaCluster(
                name,
                Path(folder) / name,
                [NodePorts.free(listeners) for _ in range(nodes)],
                jvm=jvm,
                properties=properties,
            )
            for name in ("source", "target")
        ]
        for_each(both, KafkaCluster.start)
        try:
            yield Pair(both[0], both[1], Path(folder))
        finally:
            for_each(both, KafkaCluster.kill)


def clusters_of_many_partitions() -> AbstractContextManager[Pair]:
    """Return clusters of two brokers each, or of `BENCH_BROKERS`.

    A broker has a file open for each partition, and limits of 20,000 files are common.
    """
    nodes = int(os.environ.get("BENCH_BROKERS", "2"))
    return clusters(nodes=nodes, heap_mib=1024, properties=_MANY_PARTITIONS)


def chosen(*names: str) -> list[str]:
    """Return the cases of a benchmark, or those in BENCH_CASES (comma-separated)."""
    wanted = os.environ.get("BENCH_CASES")
    return [name for name in names if wanted is None or name in wanted.split(",")]


class Topics:
    """Creates, deletes and inspects the topics of one cluster."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._address = cluster.address
        self._folders = [node.folder for node in cluster.nodes]
        self._admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
        access = ClusterAccess(endpoints(cluster.address))
        self._bench = EngineContext(
            lambda _: access, CopyingOptions(), EngineIdentity("bench"), SystemClock()
        )

    def create(self, name: str, partitions: int, **settings: str) -> None:
        """Create a topic; underscores in setting names stand for dots."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        new = NewTopic(name, partitions, 1, config=config)
        seconds = _PATIENCE_SECONDS + partitions * _SECONDS_A_PARTITION
        self._admin.create_topics([new], operation_timeout=seconds, request_timeout=seconds)[name].result()
        wait_until(lambda: self._ends(name, partitions), seconds, f"every partition of {name}")

    def create_many(self, names: Sequence[str]) -> None:
        """Create topics of one partition with one request, and wait until they are readable."""
        new = [NewTopic(name, 1, 1) for name in names]
        for result in self._admin.create_topics(new, operation_timeout=_PATIENCE_SECONDS).values():
            result.result()
        topics = dict.fromkeys(names, 1)
        wait_until(lambda: self.ends(topics) is not None, _PATIENCE_SECONDS, "every new topic")

    def delete(self, *prefixes: str) -> None:
        """Delete all topics with these prefixes, and wait until they are gone."""
        names = self._named(prefixes)
        if names:
            for result in self._admin.delete_topics(names).values():
                result.result()
            wait_until(lambda: not self._named(prefixes), _PATIENCE_SECONDS, "topics deleted")

    def wait_until_erased(self) -> None:
        """Wait until the files of deleted topics are erased.

        A broker erases them later, and freeing gigabytes of page cache takes it a good part of a second.
        """
        wait_until(
            lambda: not any(any(folder.glob("data/*-delete")) for folder in self._folders),
            _PATIENCE_SECONDS,
            "the files of deleted topics erased",
        )

    def names(self, prefix: str) -> int:
        """Return the number of topics with this prefix."""
        return len(self._named((prefix,)))

    def write_one(self, topics: Iterable[str], partition: int) -> None:
        """Write one record to the given partition of each topic."""
        producer = Producer({"bootstrap.servers": self._address, "acks": "all"})
        for topic in topics:
            producer.produce(topic, b"first", partition=partition)
        assert producer.flush(_PATIENCE_SECONDS) == 0

    def end(self, name: str, partitions: int) -> int:
        """Return the sum of the end offsets of a topic's partitions, or 0 while it does not exist."""
        return sum(self._ends(name, partitions))

    def ends(self, topics: Mapping[str, int]) -> int | None:
        """Return the sum of the end offsets of topics with these numbers of partitions; None while the end of
        a partition is unknown."""
        places = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
        answers = self._answers(places)
        return None if any(answer.error for answer in answers) else sum(a.offset for a in answers)

    def _ends(self, name: str, partitions: int) -> list[int]:
        answers = self._answers([TopicPartition(name, number) for number in range(partitions)])
        return [] if any(answer.error for answer in answers) else [answer.offset for answer in answers]

    def _answers(self, places: Sequence[TopicPartition]) -> list[OffsetAnswer]:
        queries = dict.fromkeys(places, LATEST)
        return list(self._bench.run(self._bench.cluster(_HERE).offsets(queries)).values())

    def _named(self, prefixes: tuple[str, ...]) -> list[str]:
        names = self._admin.list_topics(timeout=_PATIENCE_SECONDS).topics
        return [name for name in names if name.startswith(prefixes)]

"""Topics of one cluster through the admin client. Satisfies `ports.TopicAdmin`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from traceback import clear_frames
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from mirror.adapters.kafka_errors import translate
from mirror.adapters.kafka_settings import client_settings
from mirror.adapters.librdkafka.admin_connection import AdminConnection, Loan
from mirror.adapters.librdkafka.knock import knock
from mirror.adapters.settings import KafkaCluster
from mirror.errors import TopicMissing, Unreachable
from mirror.model.topics import SourcePosition, TopicDescription, TopicPartition

_TIMEOUT_SECONDS: Final = 10.0
_KNOCK_SECONDS: Final = 5.0
_DESCRIBE_AT_ONCE: Final = 500
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class KafkaAdmin:
    """One admin client; thread-safe, connects on first use, and again after a question without an answer.
    `knocks`: find out first whether anything answers, and fail at once where all addresses refuse."""

    def __init__(self, cluster: KafkaCluster, replication_factor: int = -1, *, knocks: bool = False) -> None:
        self._cluster = cluster
        self._replication_factor = replication_factor
        self._connection = AdminConnection(
            cluster.bootstrap_servers,
            lambda: AdminClient(client_settings(cluster, "headrace-admin")),
            partial(knock, cluster, _KNOCK_SECONDS) if knocks else None,
        )

    def cluster_id(self) -> str:
        """What the cluster calls itself."""
        with self._asking(f"describing {self._cluster.bootstrap_servers}") as admin:
            future = admin().describe_cluster(request_timeout=_TIMEOUT_SECONDS)
            return str(future.result(timeout=_TIMEOUT_SECONDS * 2).cluster_id)

    def list_topics(self) -> Mapping[str, int]:
        """Partition count by name, internal topics too."""
        with self._asking(f"listing topics of {self._cluster.bootstrap_servers}") as admin:
            metadata = admin().list_topics(timeout=_TIMEOUT_SECONDS)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Partition counts and the settings that were made on the topics themselves."""
        counts = self.list_topics()
        known = [topic for topic in topics if topic in counts]
        descriptions: dict[str, TopicDescription] = {}
        for start in range(0, len(known), _DESCRIBE_AT_ONCE):
            for name, settings in self._settings_of(known[start : start + _DESCRIBE_AT_ONCE]).items():
                descriptions[name] = TopicDescription(name, counts[name], settings=settings)
        return descriptions

    def hidden(self, topics: Sequence[str]) -> frozenset[str]:
        """Those for which the broker answers TOPIC_AUTHORIZATION_FAILED: a question by name creates none, and
        is the only one in which such a topic is not simply left out."""
        if not topics:
            return frozenset()
        found = set()
        with self._asking(f"asking {self._cluster.bootstrap_servers} for topics by name") as admin:
            named = TopicCollection(list(topics))
            futures = admin().describe_topics(named, request_timeout=_TIMEOUT_SECONDS)
            for name, future in futures.items():
                try:
                    future.result(timeout=_TIMEOUT_SECONDS * 2)
                except KafkaException as error:
                    code = error.args[0].code()
                    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        found.add(name)
                    elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
        return frozenset(found)

    def positions(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, SourcePosition]:
        """Where a consumer group stands, and first and end offset of each partition that has a leader."""
        if not partitions:
            return {}
        first = self._offsets(partitions, _EARLIEST)
        end = self._offsets(list(first), _LATEST)
        committed = self._committed(group, list(end))
        return {one: SourcePosition(committed.get(one), first[one], end[one]) for one in end}

    def _offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        asked = {ClientPartition(one.topic, one.partition): spec for one in partitions}
        found, failures = {}, []
        with self._asking(f"asking {self._cluster.bootstrap_servers} for offsets") as admin:
            futures = admin().list_offsets(asked, request_timeout=_TIMEOUT_SECONDS)
            for place, future in futures.items():
                try:
                    offset = future.result(timeout=_TIMEOUT_SECONDS * 2).offset
                    found[TopicPartition(place.topic, place.partition)] = offset
                except KafkaException as error:
                    failures.append(error)
            if failures and not found:
                raise failures[0]
        return found

    def _committed(self, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Asked by a consumer that joins nothing: the admin client's own question ends the process with
        SIGSEGV when the group's coordinator moves or loads (librdkafka has no consumer group there)."""
        if not partitions:
            return {}
        own = {"group.id": group, "enable.auto.commit": False}
        consumer = Consumer({**client_settings(self._cluster, "headrace-positions"), **own})
        try:
            places = [ClientPartition(one.topic, one.partition) for one in partitions]
            answer = consumer.committed(places, timeout=_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise translate(error, f"asking for the positions of group {group}") from error
        finally:
            consumer.close()
        return {
            TopicPartition(one.topic, one.partition): one.offset
            for one in answer
            if one.error is None and one.offset >= 0
        }

    def create(self, topic: TopicDescription) -> None:
        """Create it; one that exists already is left as it is."""
        request = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=self._replication_factor,
            config=dict(topic.settings),
        )
        with self._asking(f"creating topic {topic.name}") as admin:
            future = admin().create_topics([request], request_timeout=_TIMEOUT_SECONDS)[topic.name]
            try:
                future.result(timeout=_TIMEOUT_SECONDS * 2)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def grow(self, topic: str, partitions: int) -> None:
        """Raise the partition count to `partitions`; a topic that has them already is left alone."""
        if self.list_topics().get(topic, 0) >= partitions:
            return
        request = NewPartitions(topic, partitions)
        with self._asking(f"growing topic {topic} to {partitions} partitions") as admin:
            future = admin().create_partitions([request], request_timeout=_TIMEOUT_SECONDS)[topic]
            future.result(timeout=_TIMEOUT_SECONDS * 2)

    def delete(self, topic: str) -> None:
        """Delete a topic. Raises TopicMissing."""
        with self._asking(f"deleting topic {topic}") as admin:
            future = admin().delete_topics([topic], request_timeout=_TIMEOUT_SECONDS)[topic]
            future.result(timeout=_TIMEOUT_SECONDS * 2)

    def _settings_of(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        answers: dict[str, Mapping[str, str]] = {}
        with self._asking(f"describing {len(topics)} topics") as admin:
            futures = admin().describe_configs(resources, request_timeout=_TIMEOUT_SECONDS)
        for resource, future in futures.items():
            try:
                with self._asking(f"describing topic {resource.name}"):
                    entries = future.result(timeout=_TIMEOUT_SECONDS * 2)
            except TopicMissing:
                continue
            answers[resource.name] = {
                name: entry.value
                for name, entry in entries.items()
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and entry.value is not None
            }
        return answers

    @contextmanager
    def _asking(self, what: str) -> Iterator[Callable[[], AdminClient]]:
        """Gives the client, for one question. Raises the question's errors as ours."""
        loan = Loan(self._connection)
        try:
            yield loan.client
        except KafkaException as error:
            problem = translate(error, what)
            if isinstance(problem, Unreachable):
                loan.refuse(problem)
            clear_frames(error.__traceback__)  # those of the library hold the client
            raise problem from error
        finally:
            loan.end()

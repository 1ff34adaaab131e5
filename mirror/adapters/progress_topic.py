"""Checkpoints in a compacted topic of the destination cluster. Satisfies `ports.ProgressStore`.

Key `group/topic/partition` (neither name can hold a slash), value JSON. Writers add fields freely;
readers need `next_offset` and `written_ms`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.kafka_errors import translate
from mirror.adapters.kafka_settings import consumer_settings, producer_settings
from mirror.adapters.settings import KafkaCluster
from mirror.errors import HeadraceError, TimedOut
from mirror.model.identifiers import GroupName
from mirror.model.progress import Checkpoint
from mirror.model.topics import TopicDescription, TopicPartition

PARTITIONS: Final = 8
_TIMEOUT_SECONDS: Final = 15.0
_WAIT_SECONDS: Final = 0.05
_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "600000",
    "compression.type": "producer",
}


class ProgressTopic:
    """Reads and writes the progress topic of one destination cluster. Used by one thread."""

    def __init__(self, cluster: KafkaCluster, topic: str, admin: KafkaAdmin) -> None:
        self._cluster = cluster
        self._topic = topic
        self._admin = admin
        self._producer: Producer | None = None

    def ensure(self) -> None:
        """Make the topic when it is not there."""
        self._admin.create(TopicDescription(self._topic, PARTITIONS, settings=_SETTINGS))

    def load(
        self, group: GroupName, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Checkpoint]:
        """Scan the topic once; the newest value of each key counts."""
        wanted = {_key(group, partition): partition for partition in partitions}
        found: dict[TopicPartition, Checkpoint] = {}
        settings = consumer_settings(self._cluster, "headrace-progress", "headrace-progress")
        consumer = Consumer(settings | {"enable.partition.eof": True})
        try:
            for key, value in _scan(consumer, self._topic):
                if key in wanted:
                    found[wanted[key]] = _checkpoint(group, wanted[key], value)
        except KafkaException as error:
            raise translate(error, f"reading {self._topic}") from error
        finally:
            consumer.close()
        return found

    def save(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Write and wait for every acknowledgement."""
        failures: list[HeadraceError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                failures.append(translate(error, f"writing to {self._topic}"))

        producer = self._connected()
        for checkpoint in checkpoints:
            producer.produce(
                self._topic,
                _value(checkpoint),
                _key(checkpoint.group, checkpoint.partition),
                on_delivery=delivered,
            )
        if producer.flush(_TIMEOUT_SECONDS):
            raise TimedOut(f"{self._topic} did not take the checkpoints within {_TIMEOUT_SECONDS:.0f} s")
        if failures:
            raise failures[0]

    def close(self) -> None:
        """Release the connection."""
        self._producer = None

    def _connected(self) -> Producer:
        if self._producer is None:
            settings = producer_settings(self._cluster, "headrace-progress") | {"linger.ms": 1}
            self._producer = Producer(settings)
        return self._producer


def _scan(consumer: Consumer, topic: str) -> list[tuple[bytes, bytes]]:
    """Every key and value up to the ends as they are now."""
    metadata = consumer.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    consumer.assign([KafkaPartition(topic, number, OFFSET_BEGINNING) for number in metadata.partitions])
    remaining = set(metadata.partitions)
    entries: list[tuple[bytes, bytes]] = []
    patience = _TIMEOUT_SECONDS
    while remaining:
        # consume waits for its whole timeout unless it gets all the messages it was asked for.
        messages = consumer.consume(10_000, timeout=_WAIT_SECONDS)
        patience = _TIMEOUT_SECONDS if messages else patience - _WAIT_SECONDS
        if patience <= 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        for message in messages:
            failure = message.error()
            if failure is None:
                key, value = message.key(), message.value()
                if key is not None and value is not None:
                    entries.append((key, value))
            elif failure.code() == KafkaError._PARTITION_EOF:
                remaining.discard(message.partition() or 0)
            else:
                raise KafkaException(failure)
    return entries


def _key(group: GroupName, partition: TopicPartition) -> bytes:
    return f"{group}/{partition.topic}/{partition.partition}".encode()


def _value(checkpoint: Checkpoint) -> bytes:
    document = {"next_offset": checkpoint.next_offset, "written_ms": checkpoint.written_ms}
    return json.dumps(document, separators=(",", ":")).encode()


def _checkpoint(group: GroupName, partition: TopicPartition, value: bytes) -> Checkpoint:
    document = json.loads(value)
    return Checkpoint(group, partition, document["next_offset"], document["written_ms"])

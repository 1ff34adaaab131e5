"""Reads the partitions of one task from one source cluster, within the task's quota."""

from __future__ import annotations

from collections import deque
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from mirror.adapters.kafka_errors import translate
from mirror.errors import SourceTruncated
from mirror.lane.flow import TokenBucket
from mirror.model.datastream import StartPosition
from mirror.model.topics import TopicPartition

_AT_ONCE: Final = 1_000
_TIMEOUT_SECONDS: Final = 10.0


class RecordTask:
    """One consumer. `waiting`: records that were read and have not found room at the destination."""

    def __init__(self, consumer: Consumer, bucket: TokenBucket | None) -> None:
        self._consumer = consumer
        self._bucket = bucket
        self.waiting: deque[Message] = deque()

    def resolve(self, partition: TopicPartition, next_offset: int | None, start: StartPosition) -> int:
        """Where to begin. Raises SourceTruncated when the checkpoint is no longer in the log."""
        try:
            low, high = self._consumer.get_watermark_offsets(
                KafkaPartition(*partition), timeout=_TIMEOUT_SECONDS
            )
        except KafkaException as error:
            raise translate(error, f"asking for the ends of {partition}") from error
        if next_offset is None:
            return high if start is StartPosition.LATEST else low
        if not low <= next_offset <= high:
            raise SourceTruncated(
                f"{partition} was copied up to {next_offset}, its log now holds {low} to {high}",
                advice="records in between are gone; restart the datastream to accept the gap",
            )
        return next_offset

    def assign(self, partition: TopicPartition, position: int) -> None:
        """Read this partition too."""
        self._consumer.incremental_assign([KafkaPartition(*partition, position)])

    def unassign(self, partition: TopicPartition) -> None:
        """Read it no more, and forget what was read and not sent."""
        self._consumer.incremental_unassign([KafkaPartition(*partition)])
        self.waiting = deque(message for message in self.waiting if _partition_of(message) != partition)

    def read(self, now: float) -> list[Message]:
        """What has arrived, when the quota allows it. Errors of the cluster are retried by librdkafka."""
        if self._bucket is not None and self._bucket.seconds_until_open(now) > 0:
            return []
        messages = self._consumer.consume(_AT_ONCE if self._bucket is None else _AT_ONCE // 10, timeout=0)
        if self._bucket is not None:
            self._bucket.take(sum(len(message) for message in messages), now)
        return messages

    def end_offset(self, partition: TopicPartition) -> int | None:
        """The newest known end, without asking the cluster."""
        try:
            ends = self._consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)
        except KafkaException:
            return None
        return ends[1] if ends[1] >= 0 else None

    def close(self) -> None:
        """Release the connection."""
        self._consumer.close()


def _partition_of(message: Message) -> TopicPartition:
    topic, number = message.topic(), message.partition()
    assert topic is not None
    assert number is not None
    return TopicPartition(topic, number)

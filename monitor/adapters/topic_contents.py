"""Digests of the records in ranges of topics, for an audit. Uses confluent-kafka instead of our own client,
so that the result does not depend on our implementation of the protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from librdkafka.errors import translate
from librdkafka.settings import consumer_settings
from mirror.errors import TimedOut
from mirror.lane.ledger import LeftOut, Uncopied, UncopiedTally
from mirror.settings import KafkaCluster

_WAIT_SECONDS: Final = 0.1
_DIGEST_BYTES: Final = 12
_NO_TIMESTAMP: Final = -1
_Tallies = Mapping[int, UncopiedTally]
"""Tally of each partition whose omitted records are known."""


class TopicContents:
    """Committed records in ranges of a topic's partitions, [start, end) by partition. `left_out`: for
    partitions of a source, records that were omitted intentionally.

    Implements `audit.Contents`. Every pass reads the ranges again.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        patience_seconds: float = 20.0,
        left_out: Mapping[int, LeftOut | None] = MappingProxyType({}),
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._ranges = {number: bounds for number, bounds in ranges.items() if bounds[0] < bounds[1]}
        self._left_out = {number: kept for number, kept in left_out.items() if kept is not None}
        self._patience = patience_seconds

    def each(self, take: Callable[[bytes], None]) -> Uncopied:
        """Pass the digest of every record in the ranges to `take`. Raises TopicMissing, TimedOut,
        Unreachable."""
        uncopied = {number: UncopiedTally(left_out) for number, left_out in self._left_out.items()}
        if self._ranges:
            self._read_all(take, uncopied)
        judged = [tally.judge() for tally in uncopied.values()]
        return Uncopied(sum(tally.left_out for tally in judged), sum(tally.missing for tally in judged))

    def _read_all(self, take: Callable[[bytes], None], uncopied: _Tallies) -> None:
        settings = consumer_settings(self._cluster, "headrace-audit", "headrace-audit")
        # Retention may have moved the log start past the start of a range; the deleted records are skipped.
        consumer = Consumer(settings | {"enable.partition.eof": True, "auto.offset.reset": "earliest"})
        try:
            self._read(consumer, take, uncopied)
        except KafkaException as error:
            raise translate(error, f"reading {self._topic}") from error
        finally:
            consumer.close()

    def _read(
        self, consumer: Consumer, take: Callable[[bytes], None], uncopied: Mapping[int, UncopiedTally]
    ) -> None:
        described = consumer.list_topics(self._topic, timeout=self._patience).topics[self._topic]
        if described.error is not None:
            raise KafkaException(described.error)
        remaining = {number: end for number, (_, end) in self._ranges.items()}
        consumer.assign(
            [TopicPartition(self._topic, number, start) for number, (start, _) in self._ranges.items()]
        )
        patience = self._patience
        while remaining:
            messages = consumer.consume(10_000, timeout=_WAIT_SECONDS)
            patience = self._patience if messages else patience - _WAIT_SECONDS
            if patience <= 0:
                raise TimedOut(f"reading {self._topic}: no messages for {self._patience:.0f} s")
            for message in messages:
                number, offset = message.partition(), message.offset()
                assert number is not None
                if not _is_wanted(message, remaining):
                    consumer.pause([TopicPartition(self._topic, number)])
                elif number in remaining:
                    assert offset is not None
                    left_out = self._left_out.get(number)
                    if left_out is None or left_out.is_copied(offset):
                        take(digest(message))
                    else:
                        uncopied[number].note(offset)


def _is_wanted(message: Message, remaining: dict[int, int]) -> bool:
    """Return whether to process the message. False if it is after the requested range, which ends the
    partition."""
    failure, number, offset = message.error(), message.partition(), message.offset()
    assert number is not None
    if failure is not None and failure.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
        raise KafkaException(failure)
    if number not in remaining:
        return True  # the partition was paused while this message was queued
    assert offset is not None
    if failure is not None or offset >= remaining[number]:
        del remaining[number]
        return False
    return True


def digest(message: Message) -> bytes:
    """Return the digest of partition, key, value, headers and timestamp; null and empty differ."""
    parts: list[str | bytes | None] = [message.key(), message.value()]
    headers = message.headers() or []
    for name, value in headers if isinstance(headers, list) else headers.items():
        parts += [name, value]
    kind, timestamp = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:  # message format 0, whose copies have none either
        timestamp = _NO_TIMESTAMP
    place = b"%d;%d;" % (message.partition() or 0, timestamp)
    found = hashlib.blake2b(place, digest_size=_DIGEST_BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(b"-" if data is None else b"%d:" % len(data) + data)
    return found.digest()

"""Reads whole topics into multisets of digests, for an audit."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror.adapters.kafka_errors import translate
from mirror.adapters.kafka_settings import consumer_settings
from mirror.errors import TimedOut
from mirror.settings import KafkaCluster
from monitor.audit import Contents

_WAIT_SECONDS: Final = 0.1
_DIGEST_BYTES: Final = 12


def read_contents(cluster: KafkaCluster, topic: str, patience_seconds: float = 20.0) -> Contents:
    """Everything that is committed, up to the ends as they are now. Raises TopicMissing, Unreachable."""
    settings = consumer_settings(cluster, "headrace-audit", "headrace-audit")
    consumer = Consumer(settings | {"enable.partition.eof": True})
    contents: Counter[tuple[int, bytes]] = Counter()
    try:
        remaining = _partitions(consumer, topic, patience_seconds)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in remaining])
        patience = patience_seconds
        while remaining:
            messages = consumer.consume(10_000, timeout=_WAIT_SECONDS)
            patience = patience_seconds if messages else patience - _WAIT_SECONDS
            if patience <= 0:
                raise TimedOut(f"{topic} did not answer for {patience_seconds:.0f} s")
            for message in messages:
                _take(message, contents, remaining)
    except KafkaException as error:
        raise translate(error, f"reading {topic}") from error
    finally:
        consumer.close()
    return contents


def _partitions(consumer: Consumer, topic: str, timeout_seconds: float) -> set[int]:
    description = consumer.list_topics(topic, timeout=timeout_seconds).topics[topic]
    if description.error is not None:
        raise KafkaException(description.error)
    return set(description.partitions)


def _take(message: Message, contents: Counter[tuple[int, bytes]], remaining: set[int]) -> None:
    failure, number = message.error(), message.partition()
    assert number is not None
    if failure is None:
        contents[number, digest(message)] += 1
    elif failure.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
        remaining.discard(number)
    else:
        raise KafkaException(failure)


def digest(message: Message) -> bytes:
    """Of key, value, headers and timestamp; null and empty differ."""
    parts: list[str | bytes | None] = [message.key(), message.value()]
    headers = message.headers() or []
    for name, value in headers if isinstance(headers, list) else headers.items():
        parts += [name, value]
    found = hashlib.blake2b(b"%d;" % message.timestamp()[1], digest_size=_DIGEST_BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(b"-" if data is None else b"%d:" % len(data) + data)
    return found.digest()

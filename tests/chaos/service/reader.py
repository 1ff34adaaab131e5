"""Contents of a topic, read by another client than the one under test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

Contents = dict[int, list[Hashable]]
"""Records by partition, in the order of offsets, as returned by `content`."""
_IDLE_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 10.0


def content(message: Any) -> Hashable:
    """Return a 64-bit hash of key, value, headers and timestamp, so that a million records fit into memory.

    Hashes are comparable within this process only.
    """
    headers = [
        (name, value.encode() if isinstance(value, str) else value) for name, value in message.headers() or []
    ]
    return content_of(message.timestamp(), message.key(), message.value(), headers)


def content_of(
    timestamp: tuple[int, int],
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> Hashable:
    """Return the hash of a record with these fields; `timestamp` is its type and its time."""
    return hash((timestamp, key, value, tuple(headers)))


def new_consumer(address: str, *, committed: bool = True) -> Consumer:
    """Return a consumer of committed records, or of all records."""
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 1_000,
            "topic.metadata.refresh.interval.ms": 1_000,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "log_level": 0,
        }
    )


def read_topic(
    address: str,
    topic: str,
    partitions: int,
    given_up: threading.Event,
    *,
    committed: bool = True,
) -> Contents:
    """Return every record up to the ends, waiting for outages to pass.

    Returns empty partitions for a missing topic, and nothing once `given_up` is set.
    """
    while not given_up.is_set():
        found = _read(address, topic, partitions, committed)
        if found is not None:
            return found
    return {}


def read_offsets(address: str, topic: str, given_up: threading.Event) -> dict[int, dict[Hashable, int]]:
    """Return the first offset of every record by partition, like `read_topic`."""
    while not given_up.is_set():
        offsets: dict[int, dict[Hashable, int]] = {}

        def note(message: Any, offsets: dict[int, dict[Hashable, int]] = offsets) -> None:
            offsets.setdefault(message.partition(), {}).setdefault(content(message), message.offset())

        if _read(address, topic, None, True, note) is not None:
            return offsets
    return {}


def _read(
    address: str,
    topic: str,
    partitions: int | None,
    committed: bool,
    note: Callable[[Any], None] = lambda _: None,
) -> Contents | None:
    """Return the records, or None if the end was not reached in time. `partitions`: None for all.

    A client that first requests a topic while its broker starts may not request it again.
    """
    consumer = new_consumer(address, committed=committed)
    found: Contents = {number: [] for number in range(partitions or 0)}
    patience = _PATIENCE_SECONDS
    try:
        topics = consumer.list_topics(timeout=_PATIENCE_SECONDS).topics
        if topic not in topics:
            return found
        if partitions is None:
            found = {number: [] for number in topics[topic].partitions}
        remaining = set(found)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in found])
        while remaining and patience > 0:
            messages = consumer.consume(5_000, _IDLE_SECONDS)
            patience = _PATIENCE_SECONDS if messages else patience - _IDLE_SECONDS
            for message in messages:
                error, number = message.error(), message.partition()
                if error is None:
                    assert number is not None
                    found[number].append(content(message))
                    note(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    assert number is not None
                    remaining.discard(number)
    except KafkaException:
        return None
    finally:
        consumer.close()
    return None if remaining else found

"""Access to records of real topics, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.patience import PATIENCE_SECONDS, wait_until

_COORDINATOR_IS_MADE = {14, 15, 16}
"""Error codes of brokers for a group while the topic of groups is being created."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a consumer sees it, without its offset."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def admin_client(address: str, *, log_level: int = 6) -> AdminClient:
    """Return an admin client with the longest request timeout of librdkafka.

    A broker on a busy machine may not respond for a minute, which is the default timeout.
    """
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": address,
        "socket.timeout.ms": 300_000,
        "log_level": log_level,
    }
    return AdminClient(settings)


def make_topic(address: str, name: str, partitions: int = 1, **settings: str) -> None:
    """Create a topic; underscores in setting names stand for dots."""
    admin = admin_client(address)
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(timeout=PATIENCE_SECONDS)


def grow_topic(address: str, name: str, partitions: int) -> None:
    """Add partitions to a topic."""
    admin = admin_client(address)
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(PATIENCE_SECONDS)


def delete_topic(address: str, name: str) -> None:
    """Delete a topic, and wait until the cluster no longer lists it."""
    admin = admin_client(address)
    admin.delete_topics([name])[name].result(timeout=PATIENCE_SECONDS)
    wait_until(lambda: name not in admin.list_topics(timeout=PATIENCE_SECONDS).topics, f"{name} is gone")


def produce(address: str, topic: str, records: Iterable[Record], **settings: object) -> None:
    """Write records in order and wait for every acknowledgement."""
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": address, "acks": "all", "enable.idempotence": True, **settings})
    for record in records:
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    headers=list(record.headers),
                    timestamp=record.timestamp_ms,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not failures, failures


def read_all(address: str, topic: str) -> list[Record]:
    """Return every committed record up to the current ends, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        remaining = set(partitions)
        found: dict[int, list[Record]] = {number: [] for number in partitions}
        patience = PATIENCE_SECONDS
        while remaining:
            messages = consumer.consume(5_000, timeout=0.1)
            patience = PATIENCE_SECONDS if messages else patience - 0.1
            assert patience > 0, f"{topic}: no more data, partitions {remaining} are incomplete"
            for message in messages:
                error, number = message.error(), message.partition()
                assert number is not None
                if error is None:
                    found[number].append(_record(message))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    remaining.discard(number)
    finally:
        consumer.close()
    return [record for number in sorted(found) for record in found[number]]


def counts(address: str, topics: Sequence[str]) -> Mapping[str, int]:
    """Return the end offsets minus the start offsets, summed over partitions."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "tests"})
    try:
        totals = {}
        for topic in topics:
            partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
            ends = [
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=PATIENCE_SECONDS)
                for number in partitions
            ]
            totals[topic] = sum(high - low for low, high in ends)
        return totals
    finally:
        consumer.close()


def _record(message: Message) -> Record:
    number, headers = message.partition(), message.headers() or []
    assert number is not None
    assert isinstance(headers, list)
    pairs = tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers)
    return Record(number, message.key(), message.value(), pairs, message.timestamp()[1])


def delete_records(address: str, topic: str, partition: int, before: int) -> None:
    """Delete the records before the offset."""
    admin = admin_client(address)
    place = TopicPartition(topic, partition, before)
    admin.delete_records([place], request_timeout=PATIENCE_SECONDS)[place].result(timeout=PATIENCE_SECONDS)


def commit_positions(address: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets of a group that has no members."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]

    def ask() -> list[TopicPartition] | None:
        try:
            return consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_IS_MADE:
                raise
            return None

    try:
        done = wait_until(ask, f"positions of group {group} are committed")
    finally:
        consumer.close()
    assert done is not None
    assert [one.error for one in done if one.error] == []


def group_positions(address: str, group: str, topic: str, partitions: int) -> list[int]:
    """Return the committed offset of each partition; -1001 if none."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, number) for number in range(partitions)]

    def ask() -> list[int] | None:
        try:
            return [place.offset for place in consumer.committed(places, timeout=PATIENCE_SECONDS)]
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_IS_MADE:
                raise
            return None

    try:
        found = wait_until(ask, f"the positions of group {group}")
    finally:
        consumer.close()
    assert found is not None
    return found

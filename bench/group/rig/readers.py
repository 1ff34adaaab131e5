"""Consumer groups of each type: their positions, and members that read one topic and commit on request."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final, Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    AcknowledgeType,
    Consumer,
    Message,
    ShareConsumer,
    TopicPartition,
)

from bench.group.rig.traffic import ABORTED, PARTITIONS
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.groups import CLASSIC, CONSUMER, SHARE, STREAMS
from tests.contract.kafka.asking import BrokerClient
from tests.contract.kafka.group_offsets import Member, alter, commit, starts
from tests.contract.kafka.heartbeats import streams_member
from tests.kafka_data import commit_positions, group_positions

KINDS: Final = (CLASSIC, CONSUMER, STREAMS, SHARE)
_MOST_AT_ONCE: Final = 200
_NO_POSITION: Final = -1001
_JOIN_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_RELEASED: Final = 50
"""A member of a share group releases each record of this number once, so that it is delivered again later."""
_CLIENT: Final[Mapping[str, str | int | bool]] = {"log_level": 0, "fetch.wait.max.ms": 100}


class Reader(Protocol):
    """Member of a consumer group. `acknowledged`: for each partition, the numbers of the records that a share
    group has acknowledged; empty for other groups."""

    acknowledged: list[set[int]]

    def read(self, most: int) -> int:
        """Read about `most` records, and return their number."""

    def commit(self) -> None:
        """Commit the positions after the records read so far."""


@contextmanager
def _broker(address: str, group: str) -> Iterator[BrokerClient]:
    with closing(BrokerClient(address)) as broker:
        broker.find_coordinator(GROUP, group)
        yield broker


def set_positions(address: str, group: str, kind: str, topic: str, offsets: list[int]) -> None:
    """Set the positions of a group without members."""
    if kind != SHARE:
        commit_positions(address, group, {(topic, number): offset for number, offset in enumerate(offsets)})
        return
    with _broker(address, group) as broker:
        codes = alter(broker, group, *((topic, number, offset) for number, offset in enumerate(offsets)))
    if any(codes):
        raise RuntimeError(f"group {group}: error codes {codes}")


def positions(address: str, group: str, kind: str, topic: str) -> list[int]:
    """Return the position of a group in each partition, below 0 if it has none."""
    if kind != SHARE:
        return group_positions(address, group, topic, PARTITIONS)
    with _broker(address, group) as broker:
        found = starts(broker, group)
    return [found.get(number, _NO_POSITION) for number in range(PARTITIONS)]


@contextmanager
def consumer_of(address: str, group: str, protocol: str = CLASSIC) -> Iterator[Consumer]:
    """Yield a consumer that commits only on request, and leaves its group with the context."""
    consumer = Consumer(
        {
            **_CLIENT,
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.min.messages": 1000,
            "queued.max.messages.kbytes": 1024,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def member_of(address: str, group: str, kind: str, topic: str) -> Iterator[Reader]:
    """Yield a group member that leaves its group with the context."""
    if kind == SHARE:
        share = ShareConsumer(
            {
                **_CLIENT,
                "bootstrap.servers": address,
                "group.id": group,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": _MOST_AT_ONCE,
            }
        )
        with closing(share):
            share.subscribe([topic])
            yield _ShareReader(share)
    elif kind == STREAMS:
        with (
            _broker(address, group) as broker,
            streams_member(broker, group, topic, topic) as member,
            consumer_of(address, f"{group}-reader") as consumer,
        ):
            found = group_positions(address, group, topic, PARTITIONS)
            starting = [offset if offset >= 0 else OFFSET_BEGINNING for offset in found]
            consumer.assign([TopicPartition(topic, number, offset) for number, offset in enumerate(starting)])
            yield _StreamsReader(consumer, topic, broker, group, member)
    else:
        with consumer_of(address, group, kind) as consumer:
            consumer.subscribe([topic])
            _wait_for_assignment(consumer, group)
            yield _ConsumerReader(consumer, topic)


def _wait_for_assignment(consumer: Consumer, group: str) -> None:
    """Wait until the group member has all partitions."""
    until = time.monotonic() + _JOIN_SECONDS
    while len(consumer.assignment()) < PARTITIONS:
        if time.monotonic() > until:
            raise TimeoutError(f"group {group} got no partitions")
        consumer.consume(1, timeout=0.1)


class _ConsumerReader:
    """Member of a classic group or a KIP-848 group. Implements `Reader`."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.acknowledged: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._consumer = consumer
        self._places = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def read(self, most: int) -> int:
        return len(self._consumer.consume(min(most, _MOST_AT_ONCE), timeout=_POLL_SECONDS))

    def commit(self) -> None:
        if read := self._read_to():
            self._consumer.commit(offsets=read, asynchronous=False)

    def _read_to(self) -> list[TopicPartition]:
        return [place for place in self._consumer.position(self._places) if place.offset >= 0]


class _StreamsReader(_ConsumerReader):
    """Member of a streams group: no client library here has them, so the member sends heartbeats and commits,
    and a consumer without a group reads."""

    def __init__(
        self, consumer: Consumer, topic: str, broker: BrokerClient, group: str, member: Member
    ) -> None:
        super().__init__(consumer, topic)
        self._broker = broker
        self._group = group
        self._member = member

    def commit(self) -> None:
        for place in self._read_to():
            code = commit(self._broker, self._group, place.topic, place.offset, place.partition, self._member)
            if code:
                raise RuntimeError(f"group {self._group}: error code {code}")


class _ShareReader:
    """Member of a share group, which acknowledges records one by one. Implements `Reader`."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self.acknowledged: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._released: set[tuple[int, int]] = set()
        self._consumer = consumer

    def read(self, most: int) -> int:
        """Read at most as many records as a broker returns at once, whatever `most` is."""
        messages = [one for one in self._consumer.poll(_POLL_SECONDS) if one.error() is None]
        accepted = [place for message in messages if (place := self._judged(message)) is not None]
        if messages:
            failures = [error for error in self._consumer.commit_sync().values() if error is not None]
            if failures:
                raise RuntimeError(f"records were not acknowledged: {failures}")
        for partition, number in accepted:
            self.acknowledged[partition].add(number)
        return len(accepted)

    def commit(self) -> None:
        """Do nothing: `read` has sent the acknowledgements."""

    def _judged(self, message: Message) -> tuple[int, int] | None:
        """Accept or release a record; return its partition and number if it was accepted."""
        value = message.value()
        if value == ABORTED:  # share groups read uncommitted records by default
            self._consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            return None
        place = int(message.partition() or 0), int(value or b"")
        if place[1] % _RELEASED == 0 and place not in self._released:
            self._released.add(place)
            self._consumer.acknowledge(message, AcknowledgeType.RELEASE)
            return None
        self._consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        return place

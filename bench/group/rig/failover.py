"""Failover of one consumer group: it reads at the source, is cut off at a random time, and continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.group.rig.traffic import PARTITIONS, Traffic
from bench.mirror.rig.clusters import Pair
from tests.kafka_data import commit_positions, group_positions

_COMMIT_SECONDS: Final = 0.25
_MOST_AT_ONCE: Final = 200
_JOIN_SECONDS: Final = 30.0
_REQUEST_SECONDS: Final = 30.0
_READING_SECONDS: Final = (6.0, 14.0)
"""Shortest and longest time for which a group reads before it is cut off."""
_AT_TARGET_SECONDS: Final = 1.5
_EMPTY_SECONDS: Final = 4.0
"""Time for which the group has no members at the destination after its consumer has restarted."""


@dataclass(frozen=True)
class Case:
    """A group. `mirror`: of its positions; `copy`: its topic at the destination; `behind`: records."""

    mirror: str
    group: str
    copy: str
    protocol: str
    behind: int


@dataclass(frozen=True)
class Outcome:
    """Records of all partitions. `missing`: partitions without a position at the destination; all their
    records before the source position count as read again. `moved_back`, `moved_forward`: partitions whose
    position was changed after the group had committed at the destination."""

    case: Case
    skipped: int
    read_again: int
    missing: int
    moved_back: int
    moved_forward: int


def places(topic: str) -> list[TopicPartition]:
    """Return all partitions of a topic."""
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


@contextmanager
def consumer_of(address: str, group: str, protocol: str = "classic") -> Iterator[Consumer]:
    """Yield a consumer that commits only when asked, and leaves its group with the context."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.min.messages": 1000,
            "queued.max.messages.kbytes": 1024,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


class Failover:
    """One group from its first record at the source to its restart at the destination."""

    def __init__(self, pair: Pair, topic: str, traffic: Traffic, case: Case, chance: Random) -> None:
        self._pair = pair
        self._topic = topic
        self._traffic = traffic
        self._case = case
        self._chance = chance

    def run(self) -> Outcome:
        """Return how the group has continued."""
        case, source, target = self._case, self._pair.source.address, self._pair.target.address
        each = max(case.behind // PARTITIONS, 1)
        start = {(self._topic, n): self._traffic.offset(n, each) for n in range(PARTITIONS)}
        commit_positions(source, case.group, start)
        here, there = self._read_at_source()
        wanted = [self._traffic.number(number, offset) for number, offset in enumerate(here)]
        found = [self._number_at(number, offset) for number, offset in enumerate(there)]
        committed = self._read_at_target()
        threading.Event().wait(_EMPTY_SECONDS)
        after = group_positions(target, case.group, case.copy, PARTITIONS)
        pairs = list(zip(wanted, found, strict=True))
        moves = list(zip(committed, after, strict=True))
        return Outcome(
            case,
            skipped=sum(max(there - here, 0) for here, there in pairs),
            read_again=sum(max(here - there, 0) for here, there in pairs),
            missing=sum(offset < 0 for offset in there),
            moved_back=sum(offset < before for before, offset in moves),
            moved_forward=sum(offset > before for before, offset in moves),
        )

    def _read_at_source(self) -> tuple[list[int], list[int]]:
        """Read as fast as records are written, at the distance of the case, and stop without a final commit.

        Return the positions on both clusters at that time; those of the destination are read first.
        """
        case, traffic = self._case, self._traffic
        with consumer_of(self._pair.source.address, case.group, case.protocol) as consumer:
            consumer.subscribe([self._topic])
            self._wait_for_assignment(consumer)
            until = time.monotonic() + self._chance.uniform(*_READING_SECONDS)
            begun, count, committed, next_commit = traffic.records, 0, 0, 0.0
            while (now := time.monotonic()) < until:
                allowed = min(traffic.records - begun - count, _MOST_AT_ONCE)
                if allowed > 0:
                    count += len(consumer.consume(allowed, timeout=0.05))
                else:
                    time.sleep(0.02)
                if count > committed and now >= next_commit:
                    committed, next_commit = count, now + _COMMIT_SECONDS
                    consumer.commit(asynchronous=False)
            there = group_positions(self._pair.target.address, case.group, case.copy, PARTITIONS)
            here = group_positions(self._pair.source.address, case.group, self._topic, PARTITIONS)
            return here, there

    def _number_at(self, partition: int, offset: int) -> int:
        """Return the number of the first record at or after an offset of the destination; 0 for no offset.

        Waits for the record if the mirror has not copied it yet.
        """
        if offset < 0:
            return 0
        with consumer_of(self._pair.target.address, f"{self._case.group}-reader") as consumer:
            consumer.assign([TopicPartition(self._case.copy, partition, offset)])
            until = time.monotonic() + _REQUEST_SECONDS
            while time.monotonic() < until:
                for message in consumer.consume(1, timeout=0.5):
                    if message.error() is None:
                        return int(message.value() or b"")
        raise TimeoutError(f"{self._case.copy}-{partition} has no record at {offset}")

    def _read_at_target(self) -> list[int]:
        """Continue at the destination for a while; return the committed positions."""
        case = self._case
        with consumer_of(self._pair.target.address, case.group, case.protocol) as consumer:
            consumer.subscribe([case.copy])
            self._wait_for_assignment(consumer)
            until = time.monotonic() + _AT_TARGET_SECONDS
            while time.monotonic() < until:
                consumer.consume(_MOST_AT_ONCE, timeout=0.1)
            wanted = [place for place in consumer.position(places(case.copy)) if place.offset >= 0]
            if wanted:
                consumer.commit(offsets=wanted, asynchronous=False)
            found = consumer.committed(places(case.copy), timeout=_REQUEST_SECONDS)
            return [place.offset for place in found]

    def _wait_for_assignment(self, consumer: Consumer) -> None:
        """Wait until all partitions are assigned."""
        until = time.monotonic() + _JOIN_SECONDS
        while len(consumer.assignment()) < PARTITIONS:
            if time.monotonic() > until:
                raise TimeoutError(f"group {self._case.group} got no partitions")
            consumer.consume(1, timeout=0.1)

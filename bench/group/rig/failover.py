"""Failover of one consumer group: it reads at the source, is cut off at a random time, and continues at the
destination."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from random import Random
from typing import Final

from confluent_kafka import TopicPartition

from bench.group.rig.readers import consumer_of, member_of, positions, set_positions
from bench.group.rig.traffic import PARTITIONS, Traffic
from bench.mirror.rig.clusters import Pair

_COMMIT_SECONDS: Final = 0.25
_AT_MOST: Final = 200
_REQUEST_SECONDS: Final = 30.0
_READING_SECONDS: Final = (6.0, 14.0)
"""Shortest and longest time for which a group reads before it is cut off."""
_AT_TARGET_SECONDS: Final = 1.5
_MEMBER_SECONDS: Final = 2.0
"""Time for which the group has a member at the destination after its commit."""
_EMPTY_SECONDS: Final = 4.0
"""Time for which the group then has no members at the destination."""


@dataclass(frozen=True)
class Case:
    """A consumer group that fails over. `mirror`: mirror of its positions; `copy`: its topic at the
    destination; `kind`: type of the group; `behind`: records."""

    mirror: str
    group: str
    copy: str
    kind: str
    behind: int


@dataclass(frozen=True)
class Outcome:
    """Records of all partitions. `missing`: partitions without a position at the destination; all their
    records before the source position count as read again. `overruled`: partitions whose position was changed
    while the group had a member at the destination. `moved_back`, `moved_forward`: partitions whose position
    was changed after this member had left."""

    case: Case
    skipped: int
    read_again: int
    missing: int
    overruled: int
    moved_back: int
    moved_forward: int


class Failover:
    """One consumer group, from its first record at the source to the time after its member at the
    destination."""

    def __init__(self, pair: Pair, topic: str, traffic: Traffic, case: Case, chance: Random) -> None:
        self._pair = pair
        self._topic = topic
        self._traffic = traffic
        self._case = case
        self._chance = chance

    def run(self) -> Outcome:
        """Return how the group has continued at the destination."""
        case = self._case
        each = max(case.behind // PARTITIONS, 1)
        start = [self._traffic.offset(number, each) for number in range(PARTITIONS)]
        set_positions(self._pair.source.address, case.group, case.kind, self._topic, start)
        here, there, acknowledged = self._read_at_source()
        wanted = [self._traffic.number(number, offset) for number, offset in enumerate(here)]
        found = [self._number_at(number, offset) for number, offset in enumerate(there)]
        losses = [_losses(*place) for place in zip(wanted, found, acknowledged, strict=True)]
        committed, kept, after = self._read_at_target()
        return Outcome(
            case,
            skipped=sum(skipped for skipped, _ in losses),
            read_again=sum(again for _, again in losses),
            missing=sum(offset < 0 for offset in there),
            overruled=sum(one != other for one, other in zip(committed, kept, strict=True)),
            moved_back=sum(one < other for one, other in zip(after, kept, strict=True)),
            moved_forward=sum(one > other for one, other in zip(after, kept, strict=True)),
        )

    def _read_at_source(self) -> tuple[list[int], list[int], list[set[int]]]:
        """Read as fast as records are written, at the distance of the case, and stop without a final commit.

        Return the positions on both clusters at that time; those of the destination are read first. Also
        return the numbers of the records that a share group has acknowledged.
        """
        case, traffic, source = self._case, self._traffic, self._pair.source.address
        with member_of(source, case.group, case.kind, self._topic) as reader:
            until = time.monotonic() + self._chance.uniform(*_READING_SECONDS)
            begun, count, committed, next_commit = traffic.records, 0, 0, 0.0
            while (now := time.monotonic()) < until:
                allowed = traffic.records - begun - count
                if allowed > 0:
                    count += reader.read(allowed)
                else:
                    time.sleep(0.02)
                if count > committed and now >= next_commit:
                    committed, next_commit = count, now + _COMMIT_SECONDS
                    reader.commit()
            there = positions(self._pair.target.address, case.group, case.kind, case.copy)
            here = positions(source, case.group, case.kind, self._topic)
            return here, there, reader.acknowledged

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

    def _read_at_target(self) -> tuple[list[int], list[int], list[int]]:
        """Continue at the destination for a while. Return the positions there after the commit, after a time
        with a member, and after a time without members."""
        place = self._pair.target.address, self._case.group, self._case.kind, self._case.copy
        with member_of(*place) as reader:
            until = time.monotonic() + _AT_TARGET_SECONDS
            while time.monotonic() < until:
                reader.read(_AT_MOST)
            reader.commit()
            committed = positions(*place)
            threading.Event().wait(_MEMBER_SECONDS)
            kept = positions(*place)
        threading.Event().wait(_EMPTY_SECONDS)
        return committed, kept, positions(*place)


def _losses(here: int, there: int, acknowledged: set[int]) -> tuple[int, int]:
    """Return how many records of a partition the group skips, and how many it reads again.

    `here`, `there`: number of the first record after its position at the source and at the destination.
    `acknowledged`: numbers of records that a share group has acknowledged, also after its position.
    """
    skipped = sum(number not in acknowledged for number in range(here, there))
    return skipped, max(here - there, 0) + sum(number >= max(here, there) for number in acknowledged)

"""Topics with their settings, and partitions with their leaders and replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tests.fakes.broker.log import PartitionLog

NOBODY: Final = -1
DEFAULTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""Topic settings of Kafka 4.1 with their defaults."""


@dataclass
class Partition:
    """Partition. `leader` is `NOBODY` while it is leaderless. `in_sync`: replicas that have all records."""

    leader: int
    replicas: list[int]
    in_sync: list[int]
    epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)

    def elect(self, leader: int) -> None:
        """Elect that broker under the next epoch; `NOBODY` leaves the partition leaderless."""
        self.epoch += 1
        self.leader = leader
        if leader != NOBODY:
            if leader not in self.replicas:
                self.replicas.append(leader)
            if leader not in self.in_sync:
                self.in_sync.append(leader)
            self.log.begin_epoch(self.epoch)


@dataclass
class Topic:
    """Topic. `own`: explicit settings; `defaults` of the cluster apply otherwise."""

    name: str
    identity: UUID
    partitions: list[Partition]
    own: dict[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=lambda: DEFAULTS)

    def setting(self, name: str) -> str:
        """Return the effective value."""
        return self.own.get(name, self.defaults[name])

    @property
    def stamps_append_time(self) -> bool:
        """Return whether the broker's time replaces the producer's."""
        return self.setting("message.timestamp.type") == "LogAppendTime"

    @property
    def is_compacted(self) -> bool:
        """Return whether records need keys."""
        return "compact" in self.setting("cleanup.policy")


def spread(brokers: Sequence[int], number: int, replication: int) -> list[int]:
    """Return the replicas of a partition; the first is the preferred leader."""
    return [brokers[(number + step) % len(brokers)] for step in range(min(replication, len(brokers)))]

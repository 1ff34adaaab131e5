"""Stores the progress of lanes in a compacted topic of the destination cluster.

New owners read the topic: first a full scan, later only new records. Only the progress of requested lanes
stays in memory. A later request for other lanes causes another scan of their partitions. The reader itself
checks for commit markers, because transactions of other lanes would delay a read-committed consumer.

The records of a lane are always written to the partition in which they were found, even if partitions are
added. A topic that deletes old records is rejected, because a lane without progress would start over.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Promise
from mirror.client.log_writer import write_patiently
from mirror.errors import HeadraceError, UnsafeProgressTopic
from mirror.lane.progress import MAIN_PARTS, Entry, LaneProgress, main_key, main_of
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.replication.progress_topic import ProgressTopic

_log = get_logger(__name__)
_BATCH_BYTES: Final = 512 * 1024
_CHECK_SECONDS: Final = 60.0


class ProgressLog:
    """Progress of lanes in a compacted topic of one destination cluster."""

    def __init__(self, cluster: Cluster, topic: str, replication: int = -1) -> None:
        self.topic = topic
        self._cluster = cluster
        self._topic = ProgressTopic(cluster, topic, replication)
        self._stored = self._topic.stored
        self._reading: Promise[None] | None = None
        self._places: dict[bytes, int] = {}
        self._cluster_id = ""
        self._checked_at = -inf
        self.problem: UnsafeProgressTopic | None = None
        """Reason why the topic may lose progress, from the last check of its settings, or None."""

    async def require_safe(self) -> None:
        """Raise UnsafeProgressTopic if the progress topic exists and may lose records. Raises Unreachable."""
        await self._cluster.patiently(lambda: self._cluster.refresh([self.topic]))
        if self.exists:
            await self._check_settings()
        if self.problem is not None:
            raise self.problem

    @property
    def exists(self) -> bool:
        """Return whether the progress topic existed when metadata was last refreshed."""
        known = self._cluster.topics.get(self.topic)
        return known is not None and not known.error

    async def load(self, keys: Sequence[LaneKey]) -> Mapping[LaneKey, LaneProgress | None]:
        """Read and return the progress of the given lanes. Raises Unreachable, CorruptData, NewerFormat,
        UnsafeProgressTopic."""
        await self.catch_up(keys)
        return {key: self.stored(key) for key in keys}

    def stored(self, key: LaneKey) -> LaneProgress | None:
        """Return the lane's progress as of the last read. Raises CorruptData, NewerFormat."""
        return self._stored.of(key)

    @property
    def is_damaged(self) -> bool:
        """Return whether a batch was unreadable, which may have contained the progress of any lane."""
        return self._stored.is_damaged

    def want(self, keys: Iterable[LaneKey]) -> None:
        """Keep the progress of the given lanes in memory, starting with the next read."""
        self._stored.want({main_key(key) for key in keys})

    def release(self, key: LaneKey) -> None:
        """Drop the progress of the lane from memory."""
        main = main_key(key)
        self._places.pop(main, None)
        self._stored.release(main)

    async def read_all(self) -> None:
        """Read the progress of every lane and keep it in memory, for commands that inspect all lanes."""
        self._stored.keep_all()
        await self.catch_up()

    async def catch_up(self, keys: Iterable[LaneKey] = ()) -> None:
        """Read all records written since the last read, and earlier records of given lanes if necessary."""
        self.want(keys)
        while self._reading is not None and not self._reading.is_done:
            await self._reading  # the running read may have started before the requested records were written
        self._reading = self._cluster.loop.spawn(self._catch_up())
        await self._reading

    async def save(self, entries: Sequence[Entry], now_ms: int) -> None:
        """Write progress records, and wait until all replicas have them. The entries of a lane are written in
        one batch. Raises Unreachable, NotAuthorized."""
        if not entries:
            return
        await self.ensure()
        by_partition: dict[int, list[Entry]] = {}
        for entry in entries:
            by_partition.setdefault(self.partition_of(entry[0]), []).append(entry)
        await self._cluster.loop.together(
            self._save(number, part, now_ms) for number, part in by_partition.items()
        )
        try:
            await self._check_settings()
        except HeadraceError as error:  # the progress is stored; the next write checks again
            _log.debug("settings of the progress topic unknown", topic=self.topic, reason=str(error))

    async def forget(self, keys: Sequence[LaneKey], now_ms: int) -> None:
        """Delete the stored progress of the given lanes. Raises Unreachable."""
        await self.catch_up(keys)
        dropped = self._stored.keys_of_lanes({main_key(key) for key in keys})
        await self._cluster.loop.together(
            self._save(number, [(stored, None) for stored in found], now_ms)
            for number, found in dropped.items()
        )

    def groups(self) -> set[str]:
        """Return the datastream groups with stored progress, among the records in memory."""
        return {key.split(b"/", 1)[0].decode(errors="replace") for key in self._stored.keys}

    def keys_of(self, group: GroupName) -> list[LaneKey]:
        """Return the sorted lanes of a datastream group with stored progress, among the records in memory."""
        parts = [key.decode(errors="replace").split("/") for key in self._stored.keys]
        return sorted(
            {
                LaneKey(group, TopicPartition(part[1], int(part[2])))
                for part in parts
                if len(part) == MAIN_PARTS and part[0] == group and part[2].isdecimal()
            }
        )

    def partition_of(self, key: bytes) -> int:
        """Return the partition for the progress records of a lane: the partition of its main record. A new
        lane gets the partition of the hash of its main key."""
        main = main_of(key)
        if main not in self._places:
            holders = self._stored.holders(main)
            self._places[main] = holders[0] if holders else zlib.crc32(main) % self._topic.count
        return self._places[main]

    async def ensure(self) -> None:
        """Create the progress topic if it is missing. Raises Unreachable, NotAuthorized, Refused."""
        known = self._cluster.topics.get(self.topic)
        if known is not None and not known.error and known.leaders:
            return
        await self._topic.create()

    async def _check_settings(self) -> None:
        """Check the settings of the progress topic, at most once a minute."""
        now = self._cluster.loop.now()
        if now - self._checked_at < _CHECK_SECONDS:
            return
        before, self.problem = self.problem, await self._topic.problem()
        self._checked_at = now
        if self.problem is not None and before is None:
            _log.error("progress topic is unsafe", topic=self.topic, reason=str(self.problem))

    async def _catch_up(self) -> None:
        await self.ensure()
        if self.problem is not None:
            self._checked_at = -inf  # the settings may have been corrected
        await self._check_settings()
        if self.problem is not None:
            raise self.problem
        self._forget_other_cluster()
        await self._topic.read()

    def _forget_other_cluster(self) -> None:
        """Drop all records in memory if the operator has accepted a different cluster."""
        if self._cluster_id not in ("", self._cluster.cluster_id):
            self._stored.clear()
            self._places.clear()
        self._cluster_id = self._cluster.cluster_id

    async def _save(self, number: int, entries: Sequence[Entry], now_ms: int) -> None:
        for batch in batches_of(entries, now_ms):
            await write_patiently(self._cluster, TopicPartition(self.topic, number), batch)


def batches_of(entries: Sequence[Entry], now_ms: int) -> list[bytearray]:
    """Encode progress records as few batches. The records of a lane are in one batch."""
    groups: list[list[Record]] = [[]]
    size = 0
    for key, value in entries:
        size += len(key) + len(value or b"")
        groups[-1].append(Record(0, now_ms, key, value))
        if size > _BATCH_BYTES and b"/map/" not in key:
            groups.append([])
            size = 0
    return [write_batch(group) for group in groups if group]

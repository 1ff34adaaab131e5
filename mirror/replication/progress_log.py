"""Stores the progress of lanes in a compacted topic of the destination cluster.

The records of a lane are always written to the partition in which they were found, even if partitions are
added.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from mirror.client.log_writer import write_patiently
from mirror.errors import HeadraceError, Unreachable
from mirror.lane.progress import Entry, main_key, main_of
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.replication.progress_reader import CHECK_SECONDS, ProgressReader

_BATCH_BYTES: Final = 512 * 1024
_OFFLINE_SECONDS: Final = 2.0
"""Seconds after which a write to a partition without a leader fails."""


class ProgressLog(ProgressReader):
    """Progress of lanes in a compacted topic of one destination cluster."""

    async def save(self, entries: Sequence[Entry], now_ms: int) -> None:
        """Write progress records, and wait until all replicas have them. The entries of a lane are written in
        one batch. Raises Unreachable, NotAuthorized."""
        for error in (await self.save_each(entries, now_ms)).values():
            raise error

    async def save_each(self, entries: Sequence[Entry], now_ms: int) -> Mapping[int, HeadraceError]:
        """Write progress records like `save`. Return the errors by partition of the progress topic."""
        if not entries:
            return {}
        known = self._cluster.topics.get(self.topic)
        if known is None or known.error:
            await self.ensure()
        by_partition: dict[int, list[Entry]] = {}
        for entry in entries:
            by_partition.setdefault(self.partition_of(entry[0]), []).append(entry)
        failed = await self._save_parts(by_partition, now_ms)
        if len(failed) < len(by_partition) and self._cluster.loop.now() - self._checked_at >= CHECK_SECONDS:
            await self.recheck_settings()
        return failed

    async def _save_parts(
        self, by_partition: Mapping[int, Sequence[Entry]], now_ms: int
    ) -> Mapping[int, HeadraceError]:
        if not self._offline.isdisjoint(by_partition):
            await self._cluster.try_refresh([self.topic])
        failed: dict[int, HeadraceError] = {}
        await self._cluster.loop.together(
            self._try_save(number, part, now_ms, failed) for number, part in by_partition.items()
        )
        return failed

    async def _try_save(
        self, number: int, entries: Sequence[Entry], now_ms: int, failed: dict[int, HeadraceError]
    ) -> None:
        """Write the records of one partition. An offline partition fails soon, because the writes of the
        other partitions wait for this one."""
        place = TopicPartition(self.topic, number)
        was_offline = number in self._offline
        self._offline.discard(number)
        try:
            for batch in batches_of(entries, now_ms):
                try:
                    seconds = 0 if was_offline else _OFFLINE_SECONDS
                    await write_patiently(self._cluster, place, batch, seconds=seconds)
                except Unreachable:
                    if self.is_offline(number):
                        self._offline.add(number)
                        raise
                    await write_patiently(self._cluster, place, batch)
        except HeadraceError as error:
            failed[number] = error

    def is_offline(self, number: int) -> bool:
        """Return whether this partition of the progress topic has no leader, but another one has."""
        known = self._cluster.topics.get(self.topic)
        leaders = [self._cluster.leader(place) for place in known.partitions] if known is not None else []
        return any(leaders) and leaders[number] is None

    async def forget(self, keys: Sequence[LaneKey], now_ms: int) -> None:
        """Delete the stored progress of the given lanes. Raises Unreachable."""
        await self.catch_up(keys)
        for key in keys:
            self._topic.require_read(main_key(key))
        dropped = self._stored.keys_of_lanes({main_key(key) for key in keys})
        entries = {number: [(stored, None) for stored in found] for number, found in dropped.items()}
        for error in (await self._save_parts(entries, now_ms)).values():
            raise error

    def partition_of(self, key: bytes) -> int:
        """Return the partition for the progress records of a lane: the partition of its main record. A new
        lane gets the partition of the hash of its main key."""
        main = main_of(key)
        if main not in self._places:
            holders = self._stored.holders(main)
            self._places[main] = holders[0] if holders else zlib.crc32(main) % self._topic.count
        return self._places[main]


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

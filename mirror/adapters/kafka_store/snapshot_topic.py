"""Snapshots in a compacted topic.

After a new snapshot, the store trims the log and deletes older snapshots.
"""

from __future__ import annotations

import secrets
from typing import Final

from mirror.adapters.kafka_store.topics import StoreTopics
from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange, log_range
from mirror.client.log_writer import write_patiently
from mirror.coordination.store.commands import SnapshotNote
from mirror.coordination.store.log_state import LogState
from mirror.coordination.store.snapshots import KEPT, SnapshotShelf, SnapshotStream, end_key, part_key
from mirror.errors import DamagedStore, HeadraceError, Unreachable
from mirror.loggers import get_logger
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.partitioner import sized_batches
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.codes import Code
from mirror.protocol.control.topics import delete_records

_log = get_logger(__name__)
_ID_BYTES: Final = 8
_KEY_BYTES: Final = 64
_TRIMMED: Final = frozenset({0, Code.OFFSET_OUT_OF_RANGE})
_LARGEST_PART: Final = 512 * 1024


class SnapshotTopic:
    """Snapshots of one log in a topic. Use only on the thread of the event loop."""

    def __init__(self, cluster: Cluster, topics: StoreTopics) -> None:
        self._cluster = cluster
        self._topics = topics

    async def newest_state(self) -> LogState:
        """Return the state of the newest usable snapshot, or an empty state if there is none.

        A usable snapshot is intact, and the log has every command after the snapshot. Raises Unreachable,
        Refused; DamagedStore if the log was trimmed and no snapshot covers its start.
        """
        shelf = await self._shelf()
        start, end = await log_range(self._cluster, self._topics.log)
        for state in shelf.usable(self._topics.log_id, start, end):
            return state
        if start == 0:
            return LogState()
        raise DamagedStore(
            f"the log {self._topics.log.topic} of {self._cluster.name} starts at offset {start}, and no"
            f" intact snapshot of {self._topics.snapshots.topic} contains the earlier records",
            advice="set coordination.topic to a new name and import the latest headrace state export",
        )

    async def write(self, state: LogState) -> SnapshotNote:
        """Write a snapshot of the state. Raises Unreachable, Refused."""
        name = secrets.token_hex(_ID_BYTES)
        largest = min(self._topics.largest_bytes - _KEY_BYTES, _LARGEST_PART)
        stream = SnapshotStream(state, self._topics.log_id, largest)
        for index, part in enumerate(stream.parts()):
            await self._put([self._record(part_key(name, index), part)])
        await self._put([self._record(end_key(name), stream.end())])
        return SnapshotNote(state.next_offset, stream.size)

    async def clean(self) -> None:
        """Trim the log, and delete superseded snapshots if two intact snapshots remain.

        The snapshots are read back first, because the log is the only other copy of the state. Raises
        Unreachable, Refused.
        """
        shelf = await self._shelf()
        before, keys = shelf.superseded(self._topics.log_id)
        start, end = await log_range(self._cluster, self._topics.log)
        intact = [state.next_offset for state in shelf.usable(self._topics.log_id, start, end)]
        if before > start and sum(offset >= before for offset in intact) >= KEPT:
            await self._trim(before)
        for tombstones in sized_batches(map(self._record, keys), self._topics.largest_bytes // 4):
            await self._put(tombstones)

    async def _trim(self, before: int) -> None:
        """Delete the records of the log before an offset.

        A rejection by the broker is only logged, because the log only becomes longer.
        """
        place = self._topics.log

        async def attempt() -> None:
            leader = self._cluster.leader(place)
            if leader is None:
                raise Unreachable(f"{place} of {self._cluster.name} has no leader")
            code = await self._cluster.ask(delete_records(place, before), leader[0])
            if code not in _TRIMMED:
                right = f"Delete on topic {place.topic}"
                raise self._cluster.error(code, f"cannot trim {place}", right)

        try:
            await self._cluster.patiently(attempt, topic=place.topic)
        except HeadraceError as error:
            _log.warning("cannot trim the coordination log", topic=place.topic, reason=str(error))

    async def _shelf(self) -> SnapshotShelf:
        place, shelf = self._topics.snapshots, SnapshotShelf()
        start, end = await log_range(self._cluster, place)
        async for batch, header in PartitionRange(self._cluster, place, start, end).batches():
            if header is not None:  # otherwise of a format that only others write
                for record in read_batch(batch, header):
                    shelf.add(record.key, record.value)
        return shelf

    def _record(self, key: bytes, value: bytes | None = None) -> Record:
        return Record(0, self._cluster.loop.clock.now_ms(), key, value)

    async def _put(self, records: list[Record]) -> None:
        await write_patiently(self._cluster, self._topics.snapshots, write_batch(records, Codec.LZ4))

"""Reads the progress of lanes from a compacted topic of the destination cluster.

New owners read the topic: first a full scan, later only new records. Only the progress of requested lanes
stays in memory. A later request for other lanes causes another scan of their partitions. The reader itself
checks for commit markers, because transactions of other lanes would delay a read-committed consumer.

A topic that deletes old records is rejected, because a lane without progress would start over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Promise
from mirror.errors import HeadraceError, UnsafeProgressTopic
from mirror.lane.progress import MAIN_PARTS, LaneProgress, main_key
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.replication.progress_topic import ProgressTopic

_log = get_logger(__name__)
CHECK_SECONDS: Final = 60.0
"""Minimum seconds between two checks of the settings of the progress topic."""


class ProgressReader:
    """Progress of lanes as read from a compacted topic of one destination cluster."""

    def __init__(self, cluster: Cluster, topic: str, replication: int = -1) -> None:
        self.topic = topic
        self._cluster = cluster
        self._topic = ProgressTopic(cluster, topic, replication)
        self._stored = self._topic.stored
        self._reading: Promise[None] | None = None
        self._places: dict[bytes, int] = {}
        """Partition of the records of each lane that was stored or will be stored, by main key."""
        self._offline: set[int] = set()
        """Partitions whose last write failed because they have no leader."""
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
        """Read and return the progress of each of these lanes. Raises Unreachable (also if only one of them
        is in an unreadable partition), CorruptData, NewerFormat, UnsafeProgressTopic."""
        await self.catch_up(keys)
        return {key: self.stored(key) for key in keys}

    def stored(self, key: LaneKey) -> LaneProgress | None:
        """Return the lane's progress as of the last read. Raises CorruptData, NewerFormat, and the error of a
        partition that may have the progress and could not be read."""
        self._topic.require_read(main_key(key))
        return self._stored.of(key)

    def read_error(self, key: bytes | None = None) -> HeadraceError | None:
        """Return the error of an unreadable partition that may have the records of this main key; with None,
        of any unreadable partition. Return None if the last read was complete."""
        return self._topic.read_error(key)

    @property
    def is_damaged(self) -> bool:
        """Return whether a batch was unreadable, which may have contained the progress of any lane."""
        return self._stored.is_damaged

    def want(self, keys: Iterable[LaneKey]) -> None:
        """Keep the progress of these lanes in memory from the next read on."""
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

    async def catch_up(self, keys: Iterable[LaneKey] | None = None) -> None:
        """Read the records written since the last read, and all records of these lanes.

        With `keys`, a partition that cannot be read is an error only of the lanes in it: `stored` raises it.
        With None, raises the error of any unreadable partition. Raises Unreachable, UnsafeProgressTopic.
        """
        self.want(keys or ())
        while self._reading is not None and not self._reading.is_done:
            await self._reading  # the running read may have started before the requested records were written
        self._reading = self._cluster.loop.spawn(self._catch_up())
        await self._reading
        if keys is None:
            self._topic.require_read()

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

    async def ensure(self) -> None:
        """Create the progress topic if it is missing. Raises Unreachable, NotAuthorized, Refused."""
        known = self._cluster.topics.get(self.topic)
        if known is not None and not known.error and known.leaders:
            return
        await self._topic.create()

    async def recheck_settings(self) -> None:
        """Check the settings of the progress topic after a write. A failure is only logged, because the next
        write checks again."""
        try:
            await self._check_settings()
        except HeadraceError as error:
            _log.debug("settings of the progress topic unknown", topic=self.topic, reason=str(error))

    async def _check_settings(self) -> None:
        """Check the settings of the progress topic, at most once a minute."""
        now = self._cluster.loop.now()
        if now - self._checked_at < CHECK_SECONDS:
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
        """Drop the records of the former cluster after the operator has accepted a different cluster."""
        if self._cluster_id not in ("", self._cluster.cluster_id):
            self._stored.clear()
            self._places.clear()
        self._cluster_id = self._cluster.cluster_id

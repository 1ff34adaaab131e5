"""Reader of a progress topic that caches the records of lanes and of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from mirror.client.cluster import Cluster
from mirror.errors import CorruptData, HeadraceError
from mirror.jobs.groups.record import FollowedGroup, read_any_group, read_group
from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.replication.progress_log import ProgressLog


class GroupLog(ProgressLog):
    """Progress topic that caches every record.

    The first `catch_up` reads the whole topic. All followers of a destination share one object.
    """

    def __init__(self, cluster: Cluster, topic: str, replication: int) -> None:
        super().__init__(cluster, topic, replication)
        self._stored.keep_all()

    def main_record(self, key: LaneKey) -> bytes | None:
        """Return the main record of a lane from the cache, or None if missing."""
        main = main_key(key)
        return self._stored.records_of(main).get(main)

    def records_of(self, key: LaneKey) -> Mapping[bytes, bytes]:
        """Return the cached records of all lanes that share a progress partition with this lane."""
        return self._stored.records_of(main_key(key))

    def lane_error(self, key: LaneKey) -> HeadraceError | None:
        """Return why the records of a lane are unknown, or None. See `read_error`."""
        return self.read_error(main_key(key))

    def group(self, key: bytes, name: str) -> FollowedGroup:
        """Return the state of a consumer group as of the last read of the topic; a new state if it is missing
        or damaged. Raises NewerFormat."""
        value = self._stored.records_of(key).get(key)
        if value is not None:
            with suppress(CorruptData):
                return read_group(value)
        return FollowedGroup(name)

    @property
    def keys(self) -> int:
        """Number of cached keys, for all kinds of records."""
        return sum(map(len, self._stored.partitions))

    def records_under(self, group: GroupName) -> Mapping[bytes, bytes]:
        """Return the records of a group of datastreams, except those of lanes. Keyed by record key."""
        start = f"{group}/".encode()
        return {
            key: value
            for records in self._stored.partitions
            for key, value in records.items()
            if key.startswith(start) and key.count(b"/") == 1
        }

    def names(self, group: GroupName) -> set[str]:
        """Return the names of consumer groups with stored positions. Raises NewerFormat.

        Unreadable records are skipped.
        """
        names = set()
        for key, value in self.records_under(group).items():
            with suppress(CorruptData):
                found = read_any_group(key, value)
                if found is not None and found.positions:
                    names.add(found.group)
        return names

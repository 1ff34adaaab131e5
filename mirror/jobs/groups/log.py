"""The progress topic of a destination, with the records of all lanes and of all following groups."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.client.cluster import Cluster
from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.replication.progress_log import ProgressLog


class GroupLog(ProgressLog):
    """Progress topic that keeps every record: `catch_up` reads all the first time. Followers share it."""

    def __init__(self, cluster: Cluster, topic: str, replication: int) -> None:
        super().__init__(cluster, topic, replication)
        self._keeps_all = True

    def main_record(self, key: LaneKey) -> bytes | None:
        """Return the main record of a lane as of the last read."""
        main = main_key(key)
        holders = self._holders(main)
        return self._parts[holders[0]].values[main] if holders else None

    def records_under(self, group: GroupName) -> Mapping[bytes, bytes]:
        """Return the records of a group of datastreams that belong to no lane, by key."""
        start = f"{group}/".encode()
        return {
            key: value
            for part in self._parts.values()
            for key, value in part.values.items()
            if key.startswith(start) and key.count(b"/") == 1
        }

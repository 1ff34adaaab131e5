"""The progress topic of a destination, which also stores the state of each lane's audit."""

from __future__ import annotations

from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.replication.progress_log import ProgressLog


class AuditLog(ProgressLog):
    """Progress topic that also returns the states of audits. The state of a lane's audit is read, kept and
    deleted together with the progress of the lane."""

    def state(self, key: LaneKey) -> bytes | None:
        """Return the stored audit state of a lane, as of the last read of the topic."""
        return self._stored.records_of(main_key(key)).get(state_key(key))


def state_key(key: LaneKey) -> bytes:
    """Return the record key for the audit state of a lane."""
    return main_key(key) + b"/audit"

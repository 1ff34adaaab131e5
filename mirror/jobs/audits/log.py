"""Reader of a progress topic that also stores the audit state of each lane."""

from __future__ import annotations

from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.replication.progress_log import ProgressLog


class AuditLog(ProgressLog):
    """Progress topic with audit states. The audit state of a lane is read and deleted together with the
    progress of the lane."""

    def state(self, key: LaneKey) -> bytes | None:
        """Return the stored audit state of a lane, as of the last read of the topic."""
        return self._stored.records_of(main_key(key)).get(state_key(key))


def state_key(key: LaneKey) -> bytes:
    """Return the record key for the audit state of a lane."""
    return main_key(key) + b"/audit"

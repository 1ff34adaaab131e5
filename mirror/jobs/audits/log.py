"""The progress topic of a destination, with the states of audits beside the progress of their lanes."""

from __future__ import annotations

from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.replication.progress_log import ProgressLog


class AuditLog(ProgressLog):
    """Progress topic from which the states of audits are read too. A state is read, kept and deleted with the
    progress of its lane."""

    def state(self, key: LaneKey) -> bytes | None:
        """Return the state of the audit of a lane, as of the last read."""
        found = (self._parts[number].values.get(state_key(key)) for number in self._holders(main_key(key)))
        return next((value for value in found if value is not None), None)


def state_key(key: LaneKey) -> bytes:
    """Return the key of the state of a lane's audit."""
    return main_key(key) + b"/audit"

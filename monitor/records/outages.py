"""Tracks recent outages of clusters that affect datastreams, from the states of partitions. Pure.

Records that waited during an outage arrive late afterwards, and their latency phases do not show the cause.
An outage starts earlier than its alert and its incident.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror.model.identifiers import DatastreamName
from monitor.causes.diagnosis import Cause
from monitor.movement.states import MovementState
from monitor.movement.summary import FleetMovement
from monitor.objectives.late_times import TimeInterval

EXPLAINS_MS: Final = 60_000
"""Time after an outage during which late records are attributed to it."""
_MOST_EARLIER: Final = 20
_CAUSES: Final = {
    MovementState.SOURCE_AWAY: Cause.SOURCE_AWAY,
    MovementState.DESTINATION_AWAY: Cause.DESTINATION_AWAY,
}


class Outage(NamedTuple):
    """Time during which partitions of a datastream waited for a cluster. Times are epoch ms.

    `seen_ms`: last evaluation in which the partitions waited. `earlier`: previous outages, shortly before.
    """

    cause: Cause
    since_ms: int
    seen_ms: int
    earlier: tuple[TimeInterval, ...] = ()

    @property
    def intervals(self) -> tuple[TimeInterval, ...]:
        """Times of the outage and of the previous ones, oldest first."""
        return (*self.earlier, (self.since_ms, self.seen_ms))


class RecentOutages:
    """Latest outage that affected each datastream, kept for a minute after its end."""

    def __init__(self) -> None:
        self._of: dict[DatastreamName, Outage] = {}

    def note(self, movements: FleetMovement, now_ms: int) -> None:
        """Update the outages from partition states. States without waiting records are ignored."""
        self._of = {
            name: outage for name, outage in self._of.items() if abs(now_ms - outage.seen_ms) <= EXPLAINS_MS
        }
        for name, moving in movements.datastreams.items():
            for count in moving.movement.states:
                cause = _CAUSES.get(count.state)
                if cause is not None and not count.is_idle:
                    since = now_ms if count.since_ms is None else min(count.since_ms, now_ms)
                    self._of[name] = _continued(self._of.get(name), cause, since, now_ms)

    def of(self, name: DatastreamName) -> Outage | None:
        """Return the latest outage that affected a datastream; None if there was none in the last minute."""
        return self._of.get(name)


def _continued(known: Outage | None, cause: Cause, since_ms: int, now_ms: int) -> Outage:
    """Extend the known outage, or return a new one if the cause differs or the outage began after the known
    one."""
    if known is None:
        return Outage(cause, since_ms, now_ms)
    if since_ms <= known.seen_ms and cause is known.cause:
        return known._replace(since_ms=min(known.since_ms, since_ms), seen_ms=now_ms)
    recent = tuple(interval for interval in known.intervals if now_ms - interval[1] <= EXPLAINS_MS)
    return Outage(cause, since_ms, now_ms, recent[-_MOST_EARLIER:])

"""Demand of a lane: bytes that arrive at the source, and bytes that are not copied yet. Pure.

The copy rate equals the arrival rate only while a lane is on time. For a late lane, the arrival rate is the
copy rate plus the growth rate of the backlog. An overloaded lane therefore demands more than it copies, and a
lane that catches up less.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror.model.movement.history import LEAST_SECONDS, LaneHistory

_NONE: Final = (0.0, 0.0)


class Demand(NamedTuple):
    """Arrival rate and backlog of a lane's partition.

    `arriving`: bytes and messages per second that arrive at the source. `waiting`: bytes and messages of the
    backlog. `is_least`: `arriving` is a lower bound.
    """

    arriving: tuple[float, float]
    waiting: tuple[float, float] = _NONE
    is_least: bool = False


def demand(copied: tuple[float, float], history: LaneHistory) -> Demand:
    """Return the arrival rate and backlog of a running lane.

    `copied`: recent copy rate in bytes and messages per second.

    The backlog is the number of uncopied offsets times the mean size of copied records. The backlog is too
    high if compaction has removed records. The arrival rate of a late lane is unknown while the source does
    not respond, before a record was copied, and before the end offset was read twice, at least
    `LEAST_SECONDS` apart. The copy rate is a lower bound if the arrival rate is unknown.
    """
    newest = history.newest
    if newest is None or history.unheard_since is not None:
        return Demand(copied, is_least=True)
    if history.late_since is None and history.held_since is None and history.rewind is None:
        return Demand(copied)
    size = history.record_bytes
    if size is None:
        return Demand(copied, is_least=True)
    waiting = max(newest.readable_end - max(newest.checkpoint, newest.log_start), 0)
    backlog = (waiting * size, float(waiting)) if history.late_since is not None else _NONE
    first = next((waypoint for waypoint in history.waypoints if waypoint.end > 0), newest)
    seconds, grown = newest.at - first.at, newest.end - first.end
    if seconds < LEAST_SECONDS or grown < 0:
        return Demand(copied, backlog, is_least=True)
    arriving = grown / seconds
    return Demand((arriving * size, arriving), backlog)


def at_least(new: Demand, before: Demand | None) -> Demand:
    """Return the new demand. If its arrival rate is only a lower bound, it is at least the previous rate."""
    if not new.is_least or before is None:
        return new
    most = (max(new.arriving[0], before.arriving[0]), max(new.arriving[1], before.arriving[1]))
    return new._replace(arriving=most, waiting=new.waiting if any(new.waiting) else before.waiting)

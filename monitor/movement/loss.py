"""Time to loss: how long the source still keeps the first record that is not at the destination.

By time: what is left of `retention.ms` at the age of that record. A broker deletes whole segments, by their
newest record, so the record may live longer, and never shorter.
By size: bytes that may still arrive before what waits is larger than `retention.bytes`, at the rate at which
the partition grows.
By movement: records between the start of the log and our position, at the rate at which the start comes
nearer; it counts where the start has moved at least twice in the window, whatever the topic's settings say.
The earliest counts. What waits for nothing but a transaction is deleted just like any other record.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from mirror.model.movement.history import UNLIMITED, LaneHistory, Waypoint

_LEAST_MOVES: Final = 2


def seconds_to_loss(history: LaneHistory, now: float) -> float | None:
    """None where nothing waits, nothing is deleted, or it is not known."""
    newest = history.newest
    if newest is None or newest.end <= newest.checkpoint:
        return None
    passed = now - newest.at
    known = (_by_time(history), _by_size(history), _by_movement(history.waypoints))
    left = [one - passed for one in known if one is not None]
    return max(min(left), 0.0) if left else None


def _by_time(history: LaneHistory) -> float | None:
    newest, kept = history.newest, history.retention.milliseconds
    # Retention goes by the record's own time stamp, however long it has waited.
    if newest is None or newest.waiting == 0 or newest.lag_ms is None or kept is None or kept == UNLIMITED:
        return None
    return (kept - newest.lag_ms) / 1000


def _by_size(history: LaneHistory) -> float | None:
    kept, each, waypoints = history.retention.size_bytes, history.record_bytes, history.waypoints
    if kept is None or kept == UNLIMITED or each is None or len(waypoints) < 2:
        return None
    first, newest = waypoints[0], waypoints[-1]
    grown = newest.end - first.end
    if grown <= 0 or newest.at <= first.at:
        return None
    room = kept - (newest.end - newest.checkpoint) * each
    return room / (grown * each / (newest.at - first.at))


def _by_movement(waypoints: Sequence[Waypoint]) -> float | None:
    known = [one for one in waypoints if one.log_start >= 0]
    moves = [two for one, two in pairwise(known) if two.log_start > one.log_start]
    if len(moves) < _LEAST_MOVES:
        return None
    first, newest = known[0], known[-1]
    rate = (newest.log_start - first.log_start) / (newest.at - first.at)
    return max(newest.checkpoint - newest.log_start, 0) / rate

"""Time to loss: how long the source still keeps the first record that is not at the destination.

By time: what is left of `retention.ms` at the age of that record. A broker deletes whole segments, by their
newest record, so the record may live longer, and never shorter.
By size: bytes that may still arrive before what waits is larger than `retention.bytes`, at the rate at which
the partition grows.
By movement: records between the start of the log and our position, at the rate at which the start comes
nearer, whatever the topic's settings say. It counts where the start has been seen to move at least twice, and
not for longer than twice the time between its steps: by then it should have moved again.
The earliest counts. What waits for nothing but a transaction is deleted just like any other record.
"""

from __future__ import annotations

from typing import Final

from mirror.model.movement.history import UNLIMITED, LaneHistory, Waypoint

_LEAST_STEPS: Final = 2
_MOST_INTERVALS: Final = 2.0


def seconds_to_loss(history: LaneHistory, now: float) -> float | None:
    """None where nothing waits, nothing is deleted, or it is not known."""
    newest = history.newest
    if newest is None or newest.end <= newest.checkpoint:
        return None
    passed = now - newest.at
    known = (_by_time(history), _by_size(history), _by_movement(history, newest))
    left = [one - passed for one in known if one is not None]
    return max(min(left), 0.0) if left else None


def _by_time(history: LaneHistory) -> float | None:
    newest, kept = history.newest, history.retention.milliseconds
    if newest is None or kept is None or kept == UNLIMITED:
        return None
    # Retention goes by the record's own time stamp, however long it has waited.
    age_ms = newest.hidden_ms if newest.is_held else newest.lag_ms if newest.waiting else None
    return None if age_ms is None else (kept - age_ms) / 1000


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


def _by_movement(history: LaneHistory, newest: Waypoint) -> float | None:
    steps = history.starts[1:]
    if len(steps) < _LEAST_STEPS:
        return None
    first, last = steps[0], steps[-1]
    between = (last.at - first.at) / (len(steps) - 1)
    if newest.at - last.at > _MOST_INTERVALS * between:
        return None
    rate = (last.offset - first.offset) / (last.at - first.at)
    return max(newest.checkpoint - last.offset, 0) / rate - (newest.at - last.at)

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

from collections.abc import Sequence
from typing import Final

from mirror.model.movement.history import UNLIMITED, LaneHistory, LogStart, Retention

_LEAST_STEPS: Final = 2
_MOST_INTERVALS: Final = 2.0


def seconds_to_loss(history: LaneHistory, now: float) -> float | None:
    """None where nothing waits, nothing is deleted, or it is not known."""
    newest = history.newest
    if newest is None or newest.end <= newest.checkpoint:
        return None
    passed = now - newest.at
    known = (
        _by_time(history),
        _by_size(history),
        left_by_movement(history.starts, newest.checkpoint, newest.at),
    )
    left = [one - passed for one in known if one is not None]
    return max(min(left), 0.0) if left else None


def _by_time(history: LaneHistory) -> float | None:
    newest = history.newest
    if newest is None:
        return None
    # Retention goes by the record's own time stamp, however long it has waited.
    age_ms = newest.hidden_ms if newest.is_held else newest.lag_ms if newest.waiting else None
    return None if age_ms is None else left_by_time(history.retention, age_ms)


def _by_size(history: LaneHistory) -> float | None:
    each, waypoints = history.record_bytes, history.waypoints
    if each is None or len(waypoints) < 2:
        return None
    first, newest = waypoints[0], waypoints[-1]
    waiting, grown = newest.end - newest.checkpoint, newest.end - first.end
    return left_by_size(history.retention, waiting, grown, newest.at - first.at, each)


def left_by_time(retention: Retention, age_ms: int) -> float | None:
    """Of a record of that age."""
    kept = retention.milliseconds
    return None if kept is None or kept == UNLIMITED else (kept - age_ms) / 1000


def left_by_size(retention: Retention, waiting: int, grown: int, seconds: float, each: float) -> float | None:
    """`waiting`: offsets up to the end, which has `grown` by that many in `seconds`. `each`: bytes of a
    record."""
    kept = retention.size_bytes
    if kept is None or kept == UNLIMITED or grown <= 0 or seconds <= 0:
        return None
    return (kept - waiting * each) / (grown * each / seconds)


def left_by_movement(starts: Sequence[LogStart], checkpoint: int, at: float) -> float | None:
    """`starts`: as of `LaneHistory`; `at`: when the lane stood there, in monotonic seconds."""
    if len(starts) <= _LEAST_STEPS:
        return None
    first, last = starts[1], starts[-1]
    passed = last.at - first.at
    between = passed / (len(starts) - 2)
    if at - last.at > _MOST_INTERVALS * between:
        return None
    rate = (last.offset - first.offset) / passed
    return max(checkpoint - last.offset, 0) / rate - (at - last.at)

"""Time to loss: time until the source deletes the first uncopied record. Pure.

- By time: `retention.ms` minus the age of that record. A broker deletes whole segments, by their newest
  record, so the record may live longer, but never shorter.
- By size: bytes that can arrive before the backlog exceeds `retention.bytes`, divided by the growth rate of
  the partition.
- By movement: records between the log start and our position, divided by the rate at which the log start
  advances, whatever the topic's settings are. The estimate by movement applies once the log start has moved
  at least twice, and expires when the log start has not moved for twice the time between its moves.

The earliest result applies. Records held back by a transaction are deleted like any others.

All three estimates assume that the lane is stopped. A moving lane loses records later or never: its oldest
waiting record ages by less than one second per second; its backlog grows by less than the arriving bytes, or
shrinks; the distance to the log start shrinks more slowly than the log start advances. `loss_as_it_moves`
divides each time by the respective ratio. `is_long_enough` returns whether a lane was watched for long enough
to determine its trend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror.model.movement.history import (
    UNKNOWN_RETENTION,
    UNLIMITED,
    LaneHistory,
    LaneSample,
    LogStart,
    Retention,
)

_LEAST_STEPS: Final = 2
_MOST_INTERVALS: Final = 2.0
_RECENT_SECONDS: Final = 8.0
SLOPE_SECONDS: Final = 90.0
"""Minimum seconds of history from which a trend is derived.

A shorter burst is not a trend. A loss that would happen within this time is reported immediately.
"""


def seconds_to_loss(history: LaneHistory, now: float) -> float | None:
    """Return the seconds until the source deletes the first uncopied record of a lane, or None.

    None means that no records wait, that retention deletes no records, or that the time is unknown.
    """
    newest = history.newest
    if newest is None or newest.end <= newest.checkpoint:
        return None
    if history.retention == UNKNOWN_RETENTION and len(history.starts) <= _LEAST_STEPS:
        return None
    passed = now - newest.at
    known = (
        _by_time(history),
        _by_size(history),
        left_by_movement(history.starts, newest.checkpoint, newest.at),
    )
    left = [seconds - passed for seconds in known if seconds is not None]
    return max(min(left), 0.0) if left else None


def backlog_share(history: LaneHistory) -> float | None:
    """Return the backlog as a share of the retained data, or None if unknown."""
    newest, kept = history.newest, history.retention
    if newest is None:
        return None
    waiting, shares = newest.end - newest.checkpoint, []
    age_ms = newest.hidden_ms if newest.is_held else newest.lag_ms if newest.waiting else None
    if age_ms is not None and kept.milliseconds is not None and kept.milliseconds > 0:
        shares.append(age_ms / kept.milliseconds)
    if history.record_bytes is not None and kept.size_bytes is not None and kept.size_bytes > 0:
        shares.append(waiting * history.record_bytes / kept.size_bytes)
    if len(history.starts) > _LEAST_STEPS and newest.end > history.starts[-1].offset:
        shares.append(waiting / (newest.end - history.starts[-1].offset))
    return min(max(shares), 1.0) if shares else None


def is_long_enough(history: LaneHistory) -> bool:
    """Return whether the history of a lane is long enough to compute a trend."""
    waypoints = history.waypoints
    return len(waypoints) > 1 and waypoints[-1].at - waypoints[0].at >= SLOPE_SECONDS


def loss_as_it_moves(history: LaneHistory, now: float, since: float | None = None) -> float | None:
    """Return the seconds until the first loss at the lane's current pace, or None if no record will be lost.

    The result is never less than `seconds_to_loss`.

    The pace is the lower of two values: the pace over the whole history, and the pace over its last seconds.
    A lane that was fast only in the past, or only for seconds, therefore does not seem safe. A lane with only
    one report counts as stopped. `since`: time before which reports are ignored, because the backlog has
    shrunk steadily since then.
    """
    newest = history.newest
    if newest is None or newest.end <= newest.checkpoint:
        return None
    waypoints = [waypoint for waypoint in history.waypoints if since is None or waypoint.at >= since]
    passed, before = now - newest.at, _compared(waypoints, newest)
    found = []
    for left, share in (
        (_by_time(history), _aging),
        (_by_size(history), _growing),
        (left_by_movement(history.starts, newest.checkpoint, newest.at), _nearing),
    ):
        if left is None:
            continue
        most = max((share(history, sample, newest) for sample in before), default=1.0)
        if most > 0:
            found.append(max(left - passed, 0.0) / min(most, 1.0))
    return min(found, default=None)


def _compared(waypoints: Sequence[LaneSample], newest: LaneSample) -> list[LaneSample]:
    """Return the waypoints to compare with the last report: the oldest, and the latest that is at least
    `_RECENT_SECONDS` older."""
    older = [waypoint for waypoint in waypoints[:-1] if waypoint.at < newest.at]
    recent = [sample for sample in older if newest.at - sample.at >= _RECENT_SECONDS]
    return [older[0], *recent[-1:]] if older else []


def _aging(_: LaneHistory, before: LaneSample, newest: LaneSample) -> float:
    """Return the change of the age of the oldest waiting record, in seconds per second."""
    if newest.is_held or newest.lag_ms is None or before.lag_ms is None:
        return 1.0
    return (newest.lag_ms - before.lag_ms) / 1000 / (newest.at - before.at)


def _growing(_: LaneHistory, before: LaneSample, newest: LaneSample) -> float:
    """Return the growth of the backlog as a share of the arriving records."""
    arrived, copied = newest.end - before.end, newest.checkpoint - before.checkpoint
    return 1 - copied / arrived if arrived > 0 else 0.0


def _nearing(history: LaneHistory, before: LaneSample, newest: LaneSample) -> float:
    """Return how fast the lane's distance to the log start shrinks, relative to the log start's speed."""
    copied = (newest.checkpoint - before.checkpoint) / (newest.at - before.at)
    return 1 - copied / _speed(history.starts)


def _by_time(history: LaneHistory) -> float | None:
    newest = history.newest
    if newest is None:
        return None
    # Retention uses the record's own timestamp, however long it has waited.
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
    """Return the seconds until retention by time deletes a record of this age."""
    kept = retention.milliseconds
    return None if kept is None or kept == UNLIMITED else (kept - age_ms) / 1000


def left_by_size(retention: Retention, waiting: int, grown: int, seconds: float, each: float) -> float | None:
    """Return the seconds until retention by size deletes the first of the last `waiting` offsets.

    `grown`, `seconds`: offsets by which the log has grown in this time. `each`: bytes per record.
    """
    kept = retention.size_bytes
    if kept is None or kept == UNLIMITED or grown <= 0 or seconds <= 0:
        return None
    return (kept - waiting * each) / (grown * each / seconds)


def left_by_movement(starts: Sequence[LogStart], checkpoint: int, at: float) -> float | None:
    """Return the seconds until the log start reaches the checkpoint.

    `starts`: as in `LaneHistory`. `at`: time of the checkpoint (monotonic seconds).
    """
    if len(starts) <= _LEAST_STEPS:
        return None
    first, last = starts[1], starts[-1]
    passed = last.at - first.at
    between = passed / (len(starts) - 2)
    if at - last.at > _MOST_INTERVALS * between:
        return None
    return max(checkpoint - last.offset, 0) / _speed(starts) - (at - last.at)


def _speed(starts: Sequence[LogStart]) -> float:
    """Return the speed of the log start in offsets per second. The log start must have moved at least
    twice."""
    first, last = starts[1], starts[-1]
    return (last.offset - first.offset) / (last.at - first.at)

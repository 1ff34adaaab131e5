"""Time to loss: how long the source still keeps the first record that is not at the destination.

By time: what is left of `retention.ms` at the age of that record. A broker deletes whole segments, by their
newest record, so the record may live longer, and never shorter.
By size: bytes that may still arrive before what waits is larger than `retention.bytes`, at the rate at which
the partition grows.
By movement: records between the start of the log and our position, at the rate at which the start comes
nearer, whatever the topic's settings say. It counts where the start has been seen to move at least twice, and
not for longer than twice the time between its steps: by then it should have moved again.
The earliest counts. What waits for nothing but a transaction is deleted just like any other record.

All three take the lane to stand where it is. One that moves loses records later, or never: its oldest record
grows older by less than a second in a second, or younger; what waits grows by less than what arrives, or
shrinks; the log's start comes nearer by less than it moves. `loss_as_it_moves` divides each time by that
share. A share of seconds is no trend: `is_long_enough` says whether a lane was watched for long enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror.model.movement.history import (
    UNKNOWN_RETENTION,
    UNLIMITED,
    LaneHistory,
    LogStart,
    Retention,
    Waypoint,
)

_LEAST_STEPS: Final = 2
_MOST_INTERVALS: Final = 2.0
_RECENT_SECONDS: Final = 8.0
SLOPE_SECONDS: Final = 90.0
"""A history that spans less says nothing of how a lane that moves will move: a burst of half a minute is no
trend. A loss that is nearer than that does not wait for it."""


def seconds_to_loss(history: LaneHistory, now: float) -> float | None:
    """None where nothing waits, nothing is deleted, or it is not known."""
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
    left = [one - passed for one in known if one is not None]
    return max(min(left), 0.0) if left else None


def backlog_share(history: LaneHistory) -> float | None:
    """Return the share of what the source keeps that waits: of its time, its bytes or its records, whichever
    is most; None where that is unknown."""
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
    """Return whether the history spans minutes."""
    waypoints = history.waypoints
    return len(waypoints) > 1 and waypoints[-1].at - waypoints[0].at >= SLOPE_SECONDS


def loss_as_it_moves(history: LaneHistory, now: float, since: float | None = None) -> float | None:
    """Seconds until the first loss if the lane moves on as it did, never less than `seconds_to_loss`; None
    where nothing is lost then. It moves as it did in the whole of the history or in the last seconds of it,
    whichever is worse: one that has become slower is not excused by what was before, and one that gains and
    loses by turns not by its last gain. A lane of which one report is known stands. `since`: what was before
    that moment does not count, because the backlog has shrunk steadily since then."""
    newest = history.newest
    if newest is None or newest.end <= newest.checkpoint:
        return None
    waypoints = [one for one in history.waypoints if since is None or one.at >= since]
    passed, before = now - newest.at, _compared(waypoints, newest)
    found = []
    for left, share in (
        (_by_time(history), _aging),
        (_by_size(history), _growing),
        (left_by_movement(history.starts, newest.checkpoint, newest.at), _nearing),
    ):
        if left is None:
            continue
        most = max((share(history, one, newest) for one in before), default=1.0)
        if most > 0:
            found.append(max(left - passed, 0.0) / min(most, 1.0))
    return min(found, default=None)


def _compared(waypoints: Sequence[Waypoint], newest: Waypoint) -> list[Waypoint]:
    """The oldest one, and the last that is some seconds older than the newest."""
    older = [one for one in waypoints[:-1] if one.at < newest.at]
    recent = [one for one in older if newest.at - one.at >= _RECENT_SECONDS]
    return [older[0], *recent[-1:]] if older else []


def _aging(_: LaneHistory, before: Waypoint, newest: Waypoint) -> float:
    """Seconds by which the oldest record grows older in a second."""
    if newest.is_held or newest.lag_ms is None or before.lag_ms is None:
        return 1.0
    return (newest.lag_ms - before.lag_ms) / 1000 / (newest.at - before.at)


def _growing(_: LaneHistory, before: Waypoint, newest: Waypoint) -> float:
    """Of what arrives, the share by which what waits grows."""
    arrived, copied = newest.end - before.end, newest.checkpoint - before.checkpoint
    return 1 - copied / arrived if arrived > 0 else 0.0


def _nearing(history: LaneHistory, before: Waypoint, newest: Waypoint) -> float:
    """Of the speed of the log's start, the share by which it comes nearer."""
    copied = (newest.checkpoint - before.checkpoint) / (newest.at - before.at)
    return 1 - copied / _speed(history.starts)


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
    return max(checkpoint - last.offset, 0) / _speed(starts) - (at - last.at)


def _speed(starts: Sequence[LogStart]) -> float:
    """Offsets a second of the log's start, which has moved twice at least."""
    first, last = starts[1], starts[-1]
    return (last.offset - first.offset) / (last.at - first.at)

"""Positions of a lane during the last minutes, and the start of its conditions, such as being late. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

LATE_MS: Final = 10_000
"""Age in ms above which a waiting record is late."""
LEAST_SECONDS: Final = 4.0
"""Minimum seconds between two waypoints (kept reports). The last may be closer to the one before it.

A report within this time replaces the last waypoint, so that the waypoints cover enough time (`min-distance`
of Burrow).
"""
SILENCE_SECONDS: Final = 30.0
"""Seconds without a report after which a lane with waiting records counts as stopped."""
_MOST_LATE: Final = 24
MOST_IN_TIME: Final = 4
"""Number of waypoints kept for a lane that is on time."""
MOST_STARTS: Final = 5
UNLIMITED: Final = -1


class Retention(NamedTuple):
    """Retention of the source topic by time in ms, and by size in bytes. A value is `UNLIMITED` if it deletes
    nothing, None if unknown."""

    milliseconds: int | None = None
    size_bytes: int | None = None


UNKNOWN_RETENTION: Final = Retention()


class CaughtUpPosition(NamedTuple):
    """Position of a lane while it was on time: no record was late or part of an open transaction.

    All records below `end` were readable. `lag_ms`: age of the oldest waiting record. `log_start`: as in
    `LanePosition`.
    """

    at: float
    checkpoint: int
    end: int
    lag_ms: int
    log_start: int = -1


class LogStart(NamedTuple):
    """A move of the log start: first offset of the source log, and time of the move (monotonic seconds)."""

    at: float
    offset: int


class LanePosition(NamedTuple):
    """Position of a lane in its source log, as its worker reports it.

    Records below `checkpoint` are at the destination. Records below `readable_end` are readable; records from
    there to `end` belong to an open transaction. `log_start`: first offset of the source log, -1 if unknown.
    `hidden_ms`: age of the first record of an open transaction, None if there is none or if the age is
    unknown.

    `withheld`: the last positions that earlier reports omitted, oldest first. `starts`: the last moves of the
    log start in these positions. `is_watched`: the worker now reports only relevant positions; without a
    report, the lane is on time. `life`: number that changes when the lane continues with a replaced or
    diverged source log.
    """

    checkpoint: int
    readable_end: int
    end: int
    log_start: int = -1
    retention: Retention = UNKNOWN_RETENTION
    hidden_ms: int | None = None
    withheld: tuple[CaughtUpPosition, ...] = ()
    is_watched: bool = False
    starts: tuple[LogStart, ...] = ()
    life: int = 0


class LaneSample(NamedTuple):
    """A report of a lane's position, with its time (monotonic seconds).

    `lag_ms`: age of the oldest waiting record by its timestamp; None if unknown, 0 if the source has
    confirmed that no record waits. `hidden_ms`: age of the first record of an open transaction. `life`: as in
    `LanePosition`.
    """

    at: float
    checkpoint: int
    readable_end: int
    end: int
    lag_ms: int | None
    log_start: int = -1
    hidden_ms: int | None = None
    life: int = 0

    @property
    def waiting(self) -> int:
        """Number of readable offsets that are not yet at the destination."""
        return max(self.readable_end - self.checkpoint, 0)

    @property
    def is_caught_up(self) -> bool:
        """True if the source has confirmed that no record waits."""
        return self.waiting == 0 and self.lag_ms is not None

    @property
    def is_held(self) -> bool:
        """True if all waiting records belong to an open transaction."""
        return self.waiting == 0 and self.end > self.checkpoint


class CheckpointRewind(NamedTuple):
    """A move of the checkpoint to a lower offset. Records from `down_to` to `reached` are written again."""

    at: float
    reached: int
    down_to: int


class LaneHistory(NamedTuple):
    """Past positions of a lane, and since when conditions such as lateness apply.

    `waypoints`: reports, oldest first; a few for a lane that is on time, those of the last two minutes for a
    late lane.

    Fields that end in `_since` contain the time at which a condition began (monotonic seconds), None if it
    does not hold. `late_since`: a record has waited for longer than `LATE_MS`, or for an unknown time.
    `stuck_since`: records are readable, but the checkpoint does not move. `held_since`: the next record
    belongs to an open transaction. `unheard_since`: whether records wait is unknown. `record_bytes`: mean
    size of copied records, if any. `starts`: the last starts of the source log; each element after the first
    is a deletion by retention. `waits`: `waiting` of each waypoint. `unrest`: squared change of `waiting` per
    second between consecutive waypoints.
    """

    waypoints: tuple[LaneSample, ...] = ()
    late_since: float | None = None
    stuck_since: float | None = None
    held_since: float | None = None
    unheard_since: float | None = None
    rewind: CheckpointRewind | None = None
    retention: Retention = UNKNOWN_RETENTION
    record_bytes: float | None = None
    starts: tuple[LogStart, ...] = ()
    waits: tuple[int, ...] = ()
    unrest: tuple[float, ...] = ()

    @property
    def newest(self) -> LaneSample | None:
        """Last report of the lane, or None."""
        return self.waypoints[-1] if self.waypoints else None

    @property
    def is_in_time(self) -> bool:
        """Return whether the lane is on time. False if a waiting record is late, in an open transaction, or
        of unknown age, or if records are copied again."""
        return (
            self.late_since is None
            and self.held_since is None
            and self.unheard_since is None
            and self.rewind is None
        )

    @property
    def hidden_age_ms(self) -> int | None:
        """Age of the first record of an open transaction at the last report, None if there is none. Before
        this record has been read, time for which the lane has waited for the transaction."""
        newest = self.newest
        if newest is None or self.held_since is None:
            return None
        held_ms = int((newest.at - self.held_since) * 1000)
        return held_ms if newest.hidden_ms is None else newest.hidden_ms

    @property
    def age_ms(self) -> int | None:
        """Time for which the oldest record had waited at the last report, None if unknown.

        Records after the end offset of an earlier report arrived after this report, even if their timestamps
        are older.
        """
        return _age_ms(self.waypoints) if self.waypoints else None

    def after(
        self,
        sample: LaneSample,
        answered_at: float | None = None,
        retention: Retention = UNKNOWN_RETENTION,
        record_bytes: float | None = None,
    ) -> LaneHistory:
        """Return the history with one more report of the lane.

        `answered_at`: time of the worker's previous report, even if it omitted this lane. `retention`,
        `record_bytes`: new values; unknown values are not replaced. A different `life` starts a new history.
        """
        before = self.newest
        if before is not None and before.life != sample.life:
            another = LaneHistory(retention=self.retention, record_bytes=self.record_bytes)
            return another.after(sample, None, retention, record_bytes)
        if before is not None and answered_at is not None and before.is_caught_up and answered_at > before.at:
            quiet = self._with(before._replace(at=answered_at), self.retention, self.record_bytes)
            return quiet.after(sample, None, retention, record_bytes)
        kept = self.retention if retention == UNKNOWN_RETENTION else retention
        return self._with(sample, kept, record_bytes or self.record_bytes)

    def after_quiet(
        self, steps: Sequence[CaughtUpPosition], starts: Sequence[LogStart], record_bytes: float | None
    ) -> LaneHistory:
        """Return the history after several omitted reports, in which the lane was on time and advanced.

        The result is the same as that of calling `after` for each report. `starts`: the last moves of the log
        start in these reports. `record_bytes`: current value.
        """
        waypoints = self.waypoints
        life = waypoints[-1].life
        for at, checkpoint, end, age, log_start in steps:
            step = LaneSample(at, checkpoint, end, end, age, log_start, None, life)
            waypoints = _spaced(waypoints, step)
        newest = waypoints[-1]
        waypoints = waypoints[-MOST_IN_TIME:]
        waits = tuple([waypoint.waiting for waypoint in waypoints])
        changes = [
            _unrest(waits[place] - waits[place + 1], waypoints[place + 1].at - waypoints[place].at)
            for place in range(len(waypoints) - 1)
        ]
        return LaneHistory(
            waypoints,
            stuck_since=newest.at if newest.waiting else None,
            retention=self.retention,
            record_bytes=record_bytes or self.record_bytes,
            starts=(*self.starts, *starts)[-MOST_STARTS:],
            waits=waits,
            unrest=tuple(changes),
        )

    def _with(self, sample: LaneSample, retention: Retention, record_bytes: float | None) -> LaneHistory:
        before, at, waiting = self.newest, sample.at, sample.waiting
        stays = before is not None and before.checkpoint == sample.checkpoint
        waypoints = _spaced(self.waypoints, sample)
        waits, unrest = self._waits_with(waypoints, waiting)
        is_late = waiting > 0 and _is_late(waypoints)
        is_unheard = not waiting and sample.lag_ms is None
        most = _MOST_LATE if is_late else MOST_IN_TIME
        return LaneHistory(
            waypoints[-most:],
            _since(self.late_since, at, is_so=is_late),
            _since(self.stuck_since if stays else None, at, is_so=waiting > 0),
            _since(self.held_since if stays else None, at, is_so=not waiting and sample.is_held),
            _since(self.unheard_since, at, is_so=is_unheard),
            self._rewound(sample),
            retention,
            record_bytes,
            starts_with(self.starts, sample.at, sample.log_start),
            waits[-most:],
            unrest[1 - most :],
        )

    def _waits_with(
        self, waypoints: tuple[LaneSample, ...], waiting: int
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return the values of `waits` and `unrest` that belong to the waypoints.

        Only the values of the last waypoint are computed, the others are reused.
        """
        kept = len(waypoints) - 1
        if not kept:
            return (waiting,), ()
        change = _unrest(self.waits[kept - 1] - waiting, waypoints[-1].at - waypoints[-2].at)
        return (*self.waits[:kept], waiting), (*self.unrest[: kept - 1], change)

    def _rewound(self, sample: LaneSample) -> CheckpointRewind | None:
        before, rewind = self.newest, self.rewind
        if before is not None and sample.checkpoint < before.checkpoint:
            reached = max(before.checkpoint, rewind.reached if rewind else 0)
            return CheckpointRewind(rewind.at if rewind else sample.at, reached, sample.checkpoint)
        return rewind if rewind is not None and sample.checkpoint < rewind.reached else None


NO_HISTORY: Final = LaneHistory()


def starts_with(known: tuple[LogStart, ...], at: float, log_start: int) -> tuple[LogStart, ...]:
    """Append `log_start` to the known moves of the log start.

    A lower start than before means that the log was replaced.
    """
    if log_start < 0 or (known and known[-1].offset == log_start):
        return known
    if known and log_start < known[-1].offset:
        known = ()
    return (*known, LogStart(at, log_start))[-MOST_STARTS:]


def _spaced(kept: tuple[LaneSample, ...], sample: LaneSample) -> tuple[LaneSample, ...]:
    """Add a waypoint, or replace the last waypoint if it is too close to the previous one."""
    is_close = len(kept) > 1 and sample.at - kept[-2].at < LEAST_SECONDS
    return (*(kept[:-1] if is_close else kept), sample)


def _unrest(change: int, seconds: float) -> float:
    return change * change / seconds if seconds > 0 else 0.0


def _since(before: float | None, at: float, *, is_so: bool) -> float | None:
    if not is_so:
        return None
    return at if before is None else before


def _is_late(waypoints: tuple[LaneSample, ...]) -> bool:
    """Return whether the oldest waiting record is late or of unknown age.

    Requires that records waited at the last waypoint.
    """
    newest = waypoints[-1]
    if newest.lag_ms is not None and newest.lag_ms <= LATE_MS:
        return False
    for waypoint in reversed(waypoints):
        if int((newest.at - waypoint.at) * 1000) > LATE_MS:
            return True
        if waypoint.end <= newest.checkpoint:
            return False
    return True


def _age_ms(waypoints: tuple[LaneSample, ...]) -> int | None:
    newest = waypoints[-1]
    if newest.waiting == 0:
        return newest.lag_ms
    for waypoint in reversed(waypoints):
        if waypoint.end <= newest.checkpoint:
            since = int((newest.at - waypoint.at) * 1000)
            return since if newest.lag_ms is None else min(since, newest.lag_ms)
    return newest.lag_ms

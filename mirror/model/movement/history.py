"""Where a lane stood at some moments of the last minutes, and since when it does what it does now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

LATE_MS: Final = 10_000
"""Records that wait for longer are late, as far as movement is concerned."""
LEAST_SECONDS: Final = 4.0
"""Between two waypoints but the newest: reports that come faster replace each other, so that the window spans
real time (Burrow's `min-distance`)."""
SILENCE_SECONDS: Final = 30.0
"""A lane of which records wait, and that says nothing for longer, has stopped."""
_MOST_LATE: Final = 24
MOST_IN_TIME: Final = 4
"""Waypoints of a lane of which nothing is late."""
MOST_STARTS: Final = 5
UNLIMITED: Final = -1


class Retention(NamedTuple):
    """What the source's topic keeps of a partition, by time (ms) and by size (bytes); `UNLIMITED`:
    everything. None where that is not known."""

    milliseconds: int | None = None
    size_bytes: int | None = None


UNKNOWN_RETENTION: Final = Retention()


class CalmStep(NamedTuple):
    """Where a lane stood, at a moment in monotonic seconds, of which nothing was late or hidden: what lay
    below `end` could be read, and the oldest record that waited had waited for `lag_ms`. `log_start`: as of
    `LanePosition`."""

    at: float
    checkpoint: int
    end: int
    lag_ms: int
    log_start: int = -1


class LogStart(NamedTuple):
    """The first offset that the source had from that moment on, in monotonic seconds."""

    at: float
    offset: int


class LanePosition(NamedTuple):
    """Source offsets of a lane, as its worker knows them: what lies below `checkpoint` is at the destination,
    and up to `readable_end` it can be read: an open transaction hides what lies between that and the `end`.
    `log_start`: the first record that the source still has; -1 where it has not said that. `hidden_ms`: the
    age of the first record that is hidden; None where none is, or it is not known.

    `withheld`: where it stood at reports before this one that did not say so, oldest first, the last few.
    `starts`: the last moves of the log's start at these.
    `is_watched`: from here on its worker says where the lane stands when that needs a look, and until then it
    is in time. `life`: another one where the source's log is another one, or parts from what was copied, and
    the lane was to continue with it."""

    checkpoint: int
    readable_end: int
    end: int
    log_start: int = -1
    retention: Retention = UNKNOWN_RETENTION
    hidden_ms: int | None = None
    withheld: tuple[CalmStep, ...] = ()
    is_watched: bool = False
    starts: tuple[LogStart, ...] = ()
    life: int = 0


class Waypoint(NamedTuple):
    """One report of a lane, at a moment in monotonic seconds. `lag_ms`: the age of the oldest record that
    waits by the clock of who stamped it; None where that is not known, 0 also where nothing waits and the
    source has said so. `hidden_ms`: likewise of the first record that an open transaction hides. `life`: as
    of `LanePosition`."""

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
        """Offsets that can be read and are not at the destination."""
        return max(self.readable_end - self.checkpoint, 0)

    @property
    def is_caught_up(self) -> bool:
        """Whether nothing waits, and the source would have said if something did."""
        return self.waiting == 0 and self.lag_ms is not None

    @property
    def is_held(self) -> bool:
        """Whether nothing of what waits can be read yet: a transaction is open there, or in front of it."""
        return self.waiting == 0 and self.end > self.checkpoint


class Rewind(NamedTuple):
    """A checkpoint that went back: records from `down_to` on are written once more, up to `reached`."""

    at: float
    reached: int
    down_to: int


class LaneHistory(NamedTuple):
    """`waypoints`: oldest first; a few of a lane that is in time, the last two minutes of one that is late.

    The moments (monotonic seconds) say since when that has been so which is so now, however long ago that is;
    None where it is not so. `late_since`: a record waits for more than `LATE_MS`, or for nobody knows how
    long. `stuck_since`: records can be read, and the checkpoint stays. `held_since`: it stays in front of an
    open transaction. `unheard_since`: nobody knows whether anything waits. `record_bytes`: mean size of a
    record, as far as any was copied. `starts`: the last starts of the source's log; the first one was found
    there, the others are steps of retention, which brokers take minutes apart. `waits`: what `waiting` is of
    each waypoint; `unrest`: from each to the next, the square of what it changed by, by the seconds between.
    """

    waypoints: tuple[Waypoint, ...] = ()
    late_since: float | None = None
    stuck_since: float | None = None
    held_since: float | None = None
    unheard_since: float | None = None
    rewind: Rewind | None = None
    retention: Retention = UNKNOWN_RETENTION
    record_bytes: float | None = None
    starts: tuple[LogStart, ...] = ()
    waits: tuple[int, ...] = ()
    unrest: tuple[float, ...] = ()

    @property
    def newest(self) -> Waypoint | None:
        """The last report."""
        return self.waypoints[-1] if self.waypoints else None

    @property
    def is_in_time(self) -> bool:
        """Whether nothing of what waits is late, hidden, unknown, or written once more."""
        return (
            self.late_since is None
            and self.held_since is None
            and self.unheard_since is None
            and self.rewind is None
        )

    @property
    def hidden_age_ms(self) -> int | None:
        """Age of the first record that an open transaction hides, as of the last report; until that record
        has been read, the time since the lane waits for the transaction. None where none is hidden."""
        newest = self.newest
        if newest is None or self.held_since is None:
            return None
        held_ms = int((newest.at - self.held_since) * 1000)
        return held_ms if newest.hidden_ms is None else newest.hidden_ms

    @property
    def age_ms(self) -> int | None:
        """How long the oldest record has waited, as of the last report; None where that is not known.

        What lies behind an end that the source has named came after that moment: so a time stamp that is
        older than that says what the record is about, and not how long it waits.
        """
        return _age_ms(self.waypoints) if self.waypoints else None

    def after(
        self,
        waypoint: Waypoint,
        heard_at: float | None = None,
        retention: Retention = UNKNOWN_RETENTION,
        record_bytes: float | None = None,
    ) -> LaneHistory:
        """With one more report. `heard_at`: when the worker has reported before, with or without this lane:
        it says nothing of lanes of which nothing is new. `retention` and `record_bytes`: as far as they are
        known now; else they are what they were. A history of another log begins with the report."""
        before = self.newest
        if before is not None and before.life != waypoint.life:
            another = LaneHistory(retention=self.retention, record_bytes=self.record_bytes)
            return another.after(waypoint, None, retention, record_bytes)
        if before is not None and heard_at is not None and before.is_caught_up and heard_at > before.at:
            quiet = self._with(before._replace(at=heard_at), self.retention, self.record_bytes)
            return quiet.after(waypoint, None, retention, record_bytes)
        kept = self.retention if retention == UNKNOWN_RETENTION else retention
        return self._with(waypoint, kept, record_bytes or self.record_bytes)

    def after_calm(
        self, steps: Sequence[CalmStep], starts: Sequence[LogStart], record_bytes: float | None
    ) -> LaneHistory:
        """With the last of reports in which the lane, which is in time, moved on and stayed so: what `after`
        makes of them all. `starts`: the last moves of the log's start in them. `record_bytes`: known now."""
        waypoints = self.waypoints
        life = waypoints[-1].life
        for at, checkpoint, end, age, log_start in steps:
            step = Waypoint(at, checkpoint, end, end, age, log_start, None, life)
            waypoints = _spaced(waypoints, step)
        newest = waypoints[-1]
        waypoints = waypoints[-MOST_IN_TIME:]
        waits = tuple([one.waiting for one in waypoints])
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

    def _with(self, waypoint: Waypoint, retention: Retention, record_bytes: float | None) -> LaneHistory:
        before, at, waiting = self.newest, waypoint.at, waypoint.waiting
        stays = before is not None and before.checkpoint == waypoint.checkpoint
        waypoints = _spaced(self.waypoints, waypoint)
        waits, unrest = self._waits_with(waypoints, waiting)
        is_late = waiting > 0 and _is_late(waypoints)
        is_unheard = not waiting and waypoint.lag_ms is None
        most = _MOST_LATE if is_late else MOST_IN_TIME
        return LaneHistory(
            waypoints[-most:],
            _since(self.late_since, at, is_so=is_late),
            _since(self.stuck_since if stays else None, at, is_so=waiting > 0),
            _since(self.held_since if stays else None, at, is_so=not waiting and waypoint.is_held),
            _since(self.unheard_since, at, is_so=is_unheard),
            self._rewound(waypoint),
            retention,
            record_bytes,
            starts_with(self.starts, waypoint.at, waypoint.log_start),
            waits[-most:],
            unrest[1 - most :],
        )

    def _waits_with(
        self, waypoints: tuple[Waypoint, ...], waiting: int
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """`waits` and `unrest` of these waypoints, of which all but the last are known."""
        kept = len(waypoints) - 1
        if not kept:
            return (waiting,), ()
        change = _unrest(self.waits[kept - 1] - waiting, waypoints[-1].at - waypoints[-2].at)
        return (*self.waits[:kept], waiting), (*self.unrest[: kept - 1], change)

    def _rewound(self, waypoint: Waypoint) -> Rewind | None:
        before, rewind = self.newest, self.rewind
        if before is not None and waypoint.checkpoint < before.checkpoint:
            reached = max(before.checkpoint, rewind.reached if rewind else 0)
            return Rewind(rewind.at if rewind else waypoint.at, reached, waypoint.checkpoint)
        return rewind if rewind is not None and waypoint.checkpoint < rewind.reached else None


NO_HISTORY: Final = LaneHistory()


def starts_with(known: tuple[LogStart, ...], at: float, log_start: int) -> tuple[LogStart, ...]:
    """The last starts of a log that starts there at that moment; one that starts earlier is another log."""
    if log_start < 0 or (known and known[-1].offset == log_start):
        return known
    if known and log_start < known[-1].offset:
        known = ()
    return (*known, LogStart(at, log_start))[-MOST_STARTS:]


def _spaced(kept: tuple[Waypoint, ...], waypoint: Waypoint) -> tuple[Waypoint, ...]:
    """The newest one gives way to this one while it is close to the one before it."""
    is_close = len(kept) > 1 and waypoint.at - kept[-2].at < LEAST_SECONDS
    return (*(kept[:-1] if is_close else kept), waypoint)


def _unrest(change: int, seconds: float) -> float:
    return change * change / seconds if seconds > 0 else 0.0


def _since(before: float | None, at: float, *, is_so: bool) -> float | None:
    if not is_so:
        return None
    return at if before is None else before


def _is_late(waypoints: tuple[Waypoint, ...]) -> bool:
    """Whether `_age_ms` of these, of the newest of which records wait, is unknown or more than `LATE_MS`:
    those that are older than that need no look."""
    newest = waypoints[-1]
    if newest.lag_ms is not None and newest.lag_ms <= LATE_MS:
        return False
    for one in reversed(waypoints):
        if int((newest.at - one.at) * 1000) > LATE_MS:
            return True
        if one.end <= newest.checkpoint:
            return False
    return True


def _age_ms(waypoints: tuple[Waypoint, ...]) -> int | None:
    newest = waypoints[-1]
    if newest.waiting == 0:
        return newest.lag_ms
    for one in reversed(waypoints):
        if one.end <= newest.checkpoint:
            since = int((newest.at - one.at) * 1000)
            return since if newest.lag_ms is None else min(since, newest.lag_ms)
    return newest.lag_ms

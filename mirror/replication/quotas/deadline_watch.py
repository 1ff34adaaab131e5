"""Gives priority to the lanes whose uncopied records will be deleted soonest by the source's retention.

The watch checks lanes with a backlog. `precedence` decides which lanes yield, and those lanes share an
additional quota, which is reported like any other quota.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.lane.flow import TokenBucket
from mirror.lane.lane import Lane
from mirror.model.datastreams.lanes import QuotaOwner
from mirror.model.movement.history import NO_HISTORY, LaneHistory, LanePosition, LaneSample
from mirror.model.movement.loss import seconds_to_loss
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.quotas.precedence import CatchUp, Precedence, decide
from mirror.replication.quotas.read_pacer import ReadPacer
from mirror.replication.reports.measurements import lag_ms

_LOOK_SECONDS: Final = 2.0
_LANES_A_SECOND: Final = 250
"""Maximum number of lanes checked per second. Above it, checks become less frequent."""
_AT_ONCE: Final = 50
"""Number of lanes that are checked before the event loop does other work."""
_GROWTH_SECONDS: Final = 4.0
"""Minimum seconds between two checks whose times to loss are compared."""
_CHECKS: Final = 5


class _LaneCheck(NamedTuple):
    """Result of checking a lane. `at`: time (monotonic seconds). `size_bytes`: bytes copied so far. `left`:
    seconds until records are lost."""

    at: float
    size_bytes: int
    left: float | None


@dataclass(slots=True)
class _Watched:
    """State of a lane with a backlog. `checks`: results of the latest checks, oldest first."""

    history: LaneHistory
    checks: tuple[_LaneCheck, ...]


class DeadlineWatch:
    """Watches lanes with a backlog. `position`: returns the position of a lane and the retention of its
    source, from the age of the backlog and the current time (both in ms)."""

    def __init__(
        self,
        context: EngineContext,
        lanes: LaneRegistry,
        runner: LaneRunner,
        pacer: ReadPacer,
        position: Callable[[Lane, int | None, int], LanePosition],
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._pacer = pacer
        self._position = position
        self._is_on = context.settings.deadline_first
        self._to_check: list[Lane] = []
        """Lanes with a backlog that remain to be checked in this pass."""
        self._before: dict[Lane, _Watched] = {}
        """Results of the previous pass, by lane."""
        self._watched: dict[Lane, _Watched] = {}
        self._found: list[CatchUp] = []
        self._precedence = Precedence()
        self._quota: TokenBucket | None = None
        """Shared quota of the throttled lanes; None if no lane is throttled."""
        self._held: set[Lane] = set()
        self._next = 0.0

    def pump(self, now: float) -> None:
        """Check every lane with a backlog every few seconds, a few lanes at a time."""
        if not self._to_check:
            if now < self._next or not self._is_on:
                return
            self._begin_round(now)
        now_ms = self._context.clock.now_ms()
        part, self._to_check = self._to_check[:_AT_ONCE], self._to_check[_AT_ONCE:]
        self._found += [self._check(lane, now, now_ms) for lane in part if _catches_up(lane)]
        if not self._to_check and (self._watched or self._held):
            self._precedence = decide(self._precedence, self._found, now)
            self._apply(now)

    def _begin_round(self, now: float) -> None:
        self._to_check = [lane for lane in self._lanes.by_key.values() if _catches_up(lane)]
        self._next = now + max(_LOOK_SECONDS, len(self._to_check) / _LANES_A_SECOND)
        self._before, self._watched, self._found = self._watched, {}, []

    def _check(self, lane: Lane, now: float, now_ms: int) -> CatchUp:
        before = self._before.get(lane)
        records, size_bytes = _copied(lane)
        each = size_bytes / records if records else None
        age = lag_ms(lane, now_ms, has_response=True)
        place = self._position(lane, age, now_ms)
        offsets = place.checkpoint, place.readable_end, place.end
        sample = LaneSample(now, *offsets, age, place.log_start, place.hidden_ms)
        history, checks = (before.history, before.checks) if before is not None else (NO_HISTORY, ())
        history = history.after(sample, None, place.retention, each)
        check = _LaneCheck(now, size_bytes, seconds_to_loss(history, now))
        checks = (*checks, check)[-_CHECKS:]
        self._watched[lane] = _Watched(history, checks)
        passed = now - checks[0].at
        speed = (size_bytes - checks[0].size_bytes) / passed if passed else 0.0
        return CatchUp(lane.key, check.left, _growth(checks), need_of(history), speed)

    def _apply(self, now: float) -> None:
        waiting, rate = self._precedence.waiting, self._precedence.rate
        held = {lane for lane in self._watched if lane.key in waiting}
        if held and self._quota is None:
            self._quota = TokenBucket(rate, now, QuotaOwner.OTHERS, for_catching_up=True)
        quota = self._quota
        if quota is None:
            return
        quota.set_rate(rate, now)
        former, self._held = self._held, held
        for lane in held:
            self.limit(lane, _own(lane))
        for lane in former - held:
            self.limit(lane, _own(lane))
            self._runner.guard(lane, self._pacer.resume)
        if not held:
            self._quota = None

    def limit(self, lane: Lane, own: tuple[TokenBucket, ...]) -> None:
        """Set the quotas of a lane, and the maximum fetch size that suits them.

        `own`: its quotas except the quota shared by throttled lanes, which applies while the lane yields.
        """
        buckets = (*own, self._quota) if self._quota is not None and lane in self._held else own
        lane.read.limit(self._context.fetch_bytes(buckets), buckets)


def need_of(history: LaneHistory) -> float:
    """Return the copy rate in bytes/s at which the time until a lane loses records stays constant.

    The rate is the size of the backlog divided by the period that it covers. If the age of the backlog is
    unknown, the rate is the growth rate of the log.
    """
    each, waypoints = history.record_bytes, history.waypoints
    if each is None or not waypoints:
        return 0.0
    newest, first = waypoints[-1], waypoints[0]
    if newest.lag_ms:
        return newest.waiting * each * 1000 / newest.lag_ms
    return (newest.end - first.end) * each / (newest.at - first.at) if newest.at > first.at else 0.0


def _catches_up(lane: Lane) -> bool:
    return not lane.read.is_live and lane.may_read and lane.is_writable and lane.reader is not None


def _own(lane: Lane) -> tuple[TokenBucket, ...]:
    """Return the lane's own quotas, without the quota that yielding lanes share."""
    return tuple(bucket for bucket in lane.read.buckets if not bucket.for_catching_up)


def _copied(lane: Lane) -> tuple[int, int]:
    """Return the records and bytes that were copied since the engine started the lane."""
    records, size_bytes = lane.observed.counters.records_copied, lane.observed.counters.bytes_copied
    if lane.observed.totals is not None:
        records, size_bytes = (
            records + lane.observed.totals.records_copied,
            size_bytes + lane.observed.totals.bytes_copied,
        )
    return records, size_bytes


def _growth(checks: tuple[_LaneCheck, ...]) -> float | None:
    """Return how fast the time until a lane loses records grows, in seconds per second; None if unknown."""
    newest = checks[-1]
    for check in checks[:-1]:
        seconds = newest.at - check.at
        if check.left is not None and newest.left is not None and seconds >= _GROWTH_SECONDS:
            return (newest.left - check.left) / seconds
    return None

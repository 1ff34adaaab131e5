"""What an instance knows of its lanes. Used by one thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

import structlog

from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.datastreams.lanes import (
    LaneEvent,
    LaneHeldBack,
    LaneKey,
    LanePaused,
    LaneSpec,
    LaneStopped,
    PauseCause,
    QuotaHold,
)
from mirror.model.identifiers import GroupName
from mirror.model.metrics import Drops
from mirror.model.movement.history import LaneHistory
from mirror.ports import Clock
from mirror.worker.protocol import LaneRate, WaitingLane

_log = structlog.get_logger(__name__)
NOBODY: Final = -1
"""The worker of a lane that no worker may copy now."""
_REMEMBERED_SECONDS: Final = 600.0
"""A worker process that was lost longer ago explains nothing."""
_SILENT: Final = "its worker process does not answer; it is killed and replaced if that lasts"


class LanePhase(StrEnum):
    """What an instance knows of where a lane is between its start and its release.

    STARTING, COPYING and PAUSED are its worker's `LaneState`; a lane that recovers has the one before.
    WAITING: no worker process is there for it, or the instance has lost ZooKeeper. STOPPING: the worker was
    asked to drain it and to store its checkpoint.
    """

    __hash__ = str.__hash__  # in C, and that of the equal text

    WAITING = "waiting"
    STARTING = "starting"
    COPYING = "copying"
    PAUSED = "paused"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """One lane as this instance knows it. `worker`: its number; -1: none may or can copy it now. `reason`:
    why it paused or waits. `slowed`: which quota holds it back when it copies, as its worker said last.
    `cause`: of a pause. `since`: when phase and cause became these, in monotonic seconds; None where that is
    not known. `track`: what it has reported, which goes on while the rest of this stays as it is. `hold`:
    what `slowed` says, as values. `recovered`: whether it was paused by itself before it copied. `lost_at`:
    when the worker process that had it before was lost; None: none was."""

    spec: LaneSpec
    worker: int
    phase: LanePhase
    reason: str = ""
    slowed: str = ""
    cause: PauseCause = PauseCause.OTHER
    since: float | None = None
    track: LaneTrack = field(default_factory=LaneTrack)
    hold: QuotaHold | None = None
    recovered: bool = False
    lost_at: float | None = None

    def entering(
        self, phase: LanePhase, now: float, reason: str = "", cause: PauseCause = PauseCause.OTHER
    ) -> LaneStatus:
        """In that phase for that reason; since now, unless it was so before."""
        is_same = (self.phase, self.cause) == (phase, cause)
        recovered = self.recovered if is_same else self.phase is LanePhase.PAUSED
        since = self.since if is_same else now
        return replace(self, phase=phase, reason=reason, cause=cause, since=since, recovered=recovered)

    @property
    def rate(self) -> LaneRate | None:
        """What it did lately; None where that is not known."""
        return self.track.rate

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The offset from which on it copies next, and the source's end; None where it is not known."""
        rate, waiting = self.rate, self.lag[0]
        if rate is None or rate.checkpoint is None:
            return None, None
        return rate.checkpoint, None if waiting is None else rate.checkpoint + waiting

    @property
    def history(self) -> LaneHistory:
        """How it has moved."""
        return self.track.history

    @property
    def held_back(self) -> str:
        """Which quota holds it back; empty where none does, and where it does not copy."""
        return self.slowed if self.phase is LanePhase.COPYING else ""

    @property
    def lag(self) -> tuple[int | None, int | None]:
        """Records at the source that are not at the destination, and the age of the oldest in ms; None where
        it is not known.

        That nothing waits is known only while the lane copies and hears of its source: what it measured
        before is no news. A record that an open transaction hides waits, too.
        """
        rate = self.rate
        if rate is None:
            return None, None
        is_news = self.phase is LanePhase.COPYING and rate.lag_ms is not None
        if not rate.lag_records and not is_news:
            return None, None
        hidden_ms = self.history.hidden_age_ms
        if hidden_ms is None or rate.lag_ms is None:
            return rate.lag_records, rate.lag_ms
        return rate.lag_records, max(rate.lag_ms, hidden_ms)


@dataclass(eq=False)
class WorkerShare:
    """What one worker process was given. `fed_at`: when lanes were started in it last, monotonic seconds.
    `measured_at`: when it has said last what its lanes do, likewise. `drops`: what it has said of records
    that were not delivered."""

    lanes: set[LaneKey] = field(default_factory=set)
    expected: set[LaneKey] = field(default_factory=set)
    quotas: Mapping[GroupName, float] = field(default_factory=dict)
    fed_at: float = 0.0
    measured_at: float | None = None
    drops: Drops = field(default_factory=Drops)

    @property
    def groups(self) -> frozenset[GroupName]:
        """Datastream groups of its lanes."""
        return frozenset(key.group for key in self.lanes)

    @property
    def size(self) -> int:
        """Lanes that it has or is to get."""
        return len(self.lanes) + len(self.expected)


class LanesInTime(NamedTuple):
    """What there is to say of lanes that copy and are in time until their worker says something else.
    `counts`: how many there are of each group that has one. `loss_at`: when the source first deletes what one
    of them has not copied, in monotonic seconds, of groups of which that is known. `others`: lanes that each
    need a look."""

    counts: Mapping[GroupName, int]
    loss_at: Mapping[GroupName, float]
    others: Mapping[LaneKey, LaneStatus]

    @classmethod
    def of(cls, lanes: Mapping[LaneKey, LaneStatus]) -> LanesInTime:
        """Of these."""
        counted = _LanesInTime()
        for key, lane in lanes.items():
            counted.note(key, lane)
        return counted.seen()

    def beside(self, lanes: Mapping[LaneKey, LaneStatus]) -> LanesInTime:
        """With these, each of which needs a look."""
        return self._replace(others={**lanes, **self.others}) if lanes else self


NONE_IN_TIME: Final = LanesInTime({}, {}, {})


class _LanesInTime:
    """Counted as they come and go, because nearly all lanes are such, and hardly one of them changes."""

    def __init__(self) -> None:
        self._loss_at: dict[LaneKey, float] = {}
        self._counts: dict[GroupName, int] = {}
        self._losing: dict[GroupName, dict[LaneKey, float]] = {}
        self._others: dict[LaneKey, LaneStatus] = {}
        self._seen: LanesInTime | None = None

    def note(self, key: LaneKey, lane: LaneStatus) -> None:
        """It is so now."""
        if lane.phase is LanePhase.COPYING and lane.track.calm_at == inf:
            at = lane.track.loss_at()
            if self._loss_at.get(key) != at:
                self.forget(key)
                self._enter(key, at)
        elif self._others.get(key) is not lane:
            self.forget(key)
            self._others[key] = lane

    def forget(self, key: LaneKey) -> None:
        """Nobody copies it any more."""
        self._seen = None
        self._others.pop(key, None)
        if self._loss_at.pop(key, None) is not None:
            group = key.group
            self._counts[group] -= 1
            self._losing.get(group, {}).pop(key, None)
            if not self._counts[group]:
                del self._counts[group]

    def _enter(self, key: LaneKey, loss_at: float) -> None:
        group = key.group
        self._loss_at[key] = loss_at
        self._counts[group] = self._counts.get(group, 0) + 1
        if loss_at < inf:
            self._losing.setdefault(group, {})[key] = loss_at

    def seen(self) -> LanesInTime:
        """As they are now; that stays as it is."""
        if self._seen is None:
            self._losing = {group: lanes for group, lanes in self._losing.items() if lanes}
            loss_at = {group: min(lanes.values()) for group, lanes in self._losing.items()}
            self._seen = LanesInTime(dict(self._counts), loss_at, dict(self._others))
        return self._seen


class LaneTable:
    """`states`: every lane that a worker was told to copy and has not released, and those that none may copy.
    `muted`: lanes whose worker does not answer, as they were before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.states: dict[LaneKey, LaneStatus] = {}
        self._muted: dict[LaneKey, LaneStatus] = {}
        self._lost: dict[LaneKey, float] = {}
        self._in_time = _LanesInTime()

    @property
    def in_time(self) -> LanesInTime:
        """What there is to say of those that are in time."""
        return self._in_time.seen()

    def _put(self, key: LaneKey, state: LaneStatus) -> None:
        self.states[key] = state
        self._in_time.note(key, state)

    def _drop(self, key: LaneKey) -> None:
        del self.states[key]
        self._in_time.forget(key)

    def begin(self, spec: LaneSpec, worker: int) -> None:
        """A worker was told to copy it."""
        now = self._clock.monotonic()
        lost_at = self._lost.pop(spec.key, None)
        self._put(spec.key, LaneStatus(spec, worker, LanePhase.STARTING, since=now, lost_at=lost_at))

    def hold(self, spec: LaneSpec, reason: str) -> None:
        """No worker may copy it now."""
        now = self._clock.monotonic()
        self._put(spec.key, LaneStatus(spec, NOBODY, LanePhase.PAUSED, reason, since=now))

    def stop(self, key: LaneKey) -> int:
        """Its worker, which is to release it; one that nobody copies is forgotten at once."""
        state = self.states[key]
        if state.worker == NOBODY:
            self._drop(key)
        else:
            now = self._clock.monotonic()
            self._put(key, state.entering(LanePhase.STOPPING, now, state.reason, state.cause))
        return state.worker

    def forget(self, keys: Iterable[LaneKey]) -> None:
        """Nobody copies them any more."""
        for key in keys:
            self._muted.pop(key, None)
            if key in self.states:
                self._drop(key)

    def lose(self, keys: Iterable[LaneKey]) -> None:
        """Their worker process is lost. What begins one of them again knows that."""
        now, lost = self._clock.monotonic(), list(keys)
        self.forget(lost)
        recent = {key: at for key, at in self._lost.items() if now - at < _REMEMBERED_SECONDS}
        self._lost = recent | dict.fromkeys(lost, now)

    def measure(
        self,
        rates: Iterable[LaneRate],
        heard_at: float | None = None,
        at: float | None = None,
        waiting: Iterable[WaitingLane] = (),
    ) -> None:
        """Note what lanes did lately. `heard_at`: when their worker said so before, in monotonic seconds;
        `at`: likewise of this report, if that is not now. `waiting`: those that wait for an answer."""
        now, states = self._clock.monotonic() if at is None else at, self.states
        for rate in rates:
            state = states.get(rate.key)
            if state is not None:
                state.track.note(rate, now, heard_at)
                if rate.position is not None:
                    self._in_time.note(rate.key, state)
        for key, unanswered in waiting:
            if key in states:
                states[key].track.unanswered = unanswered

    def note(self, event: LaneEvent) -> None:
        """Take in what happened to a lane."""
        state, now = self.states.get(event.key), self._clock.monotonic()
        if state is None:
            return
        if isinstance(event, LaneStopped):
            self._drop(event.key)
        elif isinstance(event, LaneHeldBack):
            self._put(event.key, replace(state, slowed=event.reason, hold=event.hold))
        elif state.phase is not LanePhase.STOPPING:
            if isinstance(event, LanePaused):
                key = event.key
                _log.warning(
                    "lane paused", datastream=key.group, partition=str(key.partition), reason=event.reason
                )
                self._put(key, state.entering(LanePhase.PAUSED, now, event.reason, event.cause))
            else:
                self._put(event.key, state.entering(LanePhase.COPYING, now))

    def unwatch(self, keys: Iterable[LaneKey], heard_at: float) -> None:
        """Of these lanes nothing was said since that moment, in monotonic seconds, which is too long ago."""
        for key in keys:
            self.states[key].track.unwatch(heard_at)
            self._in_time.note(key, self.states[key])

    def mute(self, keys: Iterable[LaneKey]) -> None:
        """Lanes of a worker that says nothing do not count as copying, and nobody knows their lag."""
        now, cause = self._clock.monotonic(), PauseCause.SILENT_WORKER
        for key in keys:
            state = self.states[key]
            if state.phase is not LanePhase.STOPPING and state.reason != _SILENT:
                self._muted[key] = state
                silent = state.entering(LanePhase.PAUSED, now, _SILENT, cause)
                self._put(key, replace(silent, track=silent.track.silenced()))

    def unmute(self, keys: set[LaneKey]) -> None:
        """Lanes of a worker that speaks again are what they were."""
        for key in keys & self._muted.keys():
            before, state = self._muted.pop(key), self.states[key]
            if state.reason == _SILENT and state.phase is LanePhase.PAUSED:
                now = self._clock.monotonic()
                self._put(key, state.entering(before.phase, now, before.reason, before.cause))

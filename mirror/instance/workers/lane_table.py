"""State of the lanes of an instance. Used by one thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from mirror.instance.workers.lane_track import LaneTrack
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import (
    SILENT_WORKER,
    LaneEvent,
    LaneHeldBack,
    LaneKey,
    LanePaused,
    LaneSpec,
    LaneStopped,
    PauseCause,
    QuotaHold,
)
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.movement.history import LaneHistory
from mirror.model.reasons import reason_at
from mirror.ports import Clock
from mirror.worker.protocol import LaneRate, LimitedLane, WaitingLane

_log = get_logger(__name__)
NOBODY: Final = -1
"""Worker number of a lane that no worker may copy."""
_REMEMBERED_SECONDS: Final = 600.0
"""Seconds for which the loss of a process counts as the reason why its lanes restart."""
_SAME_LOSS_SECONDS: Final = 5.0


class LanePhase(StrEnum):
    """Phase of a lane between its start and its release, as the instance knows it.

    STARTING, COPYING and PAUSED are the worker's `LaneState`. A recovering lane keeps its previous phase.
    WAITING: no worker process is available, or the instance has lost the coordination store. STOPPING: the
    worker drains the lane and stores its checkpoint.
    """

    __hash__ = str.__hash__  # in C, equal to the hash of the text

    WAITING = "waiting"
    STARTING = "starting"
    COPYING = "copying"
    PAUSED = "paused"
    STOPPING = "stopping"


class LaneLoss(NamedTuple):
    """Loss of the process that copied a lane. `at`: time of the loss (monotonic seconds). `instance`:
    instance that lost its session; empty if only a worker process was lost."""

    at: float
    instance: InstanceName | None = None


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """State of one lane as this instance knows it.

    `worker`: number of its worker, -1 without a worker. `reason`: why the lane is paused or waits. `offset`:
    source offset at which a paused lane resumes, None if unknown. `slowed`: quota that throttles the lane.
    `cause`: cause of a pause. `since`: start of the phase and cause (monotonic seconds), None if unknown.
    `track`: reports of the lane; mutable, unlike the other fields. `hold`: measured throttling by `slowed`.
    `recovered`: the lane has paused before. `loss`: loss of the process that copied the lane before, or None.
    """

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
    loss: LaneLoss | None = None
    offset: int | None = None

    def entering(
        self,
        phase: LanePhase,
        now: float,
        reason: str = "",
        cause: PauseCause = PauseCause.OTHER,
        offset: int | None = None,
    ) -> LaneStatus:
        """Return the status of the lane in another phase. `since` is unchanged if phase and cause are."""
        is_same = (self.phase, self.cause) == (phase, cause)
        recovered = self.recovered if is_same else self.phase is LanePhase.PAUSED
        since = self.since if is_same else now
        return replace(
            self, phase=phase, reason=reason, cause=cause, since=since, recovered=recovered, offset=offset
        )

    @property
    def text(self) -> str:
        """Reason with the offset."""
        return reason_at(self.reason, self.offset)

    @property
    def rate(self) -> LaneRate | None:
        """Latest measured rate of the lane; None if unknown."""
        return self.track.rate

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """Next offset to copy, and end offset of the source partition. Each is None if unknown."""
        rate, waiting = self.rate, self.lag[0]
        if rate is None or rate.checkpoint is None:
            return None, None
        return rate.checkpoint, None if waiting is None else rate.checkpoint + waiting

    @property
    def timestamp_offset_seconds(self) -> float | None:
        """Clock error of the producers of the partition in seconds, positive if ahead. The value is 0 if no
        error is known; None before the first report."""
        return None if self.rate is None else self.rate.offset_ms / 1000

    @property
    def history(self) -> LaneHistory:
        """History of the lane's positions."""
        return self.track.history

    @property
    def held_back(self) -> str:
        """Quota that currently throttles the lane, or an empty string."""
        return self.slowed if self.phase is LanePhase.COPYING else ""

    @property
    def lag(self) -> tuple[int | None, int | None]:
        """Lag in records, and age of the oldest uncopied record in ms. Each is None if unknown. A lag of 0 is
        valid only while the lane copies and its source responds. Records of an open transaction count."""
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
    """Lanes of one worker process, and times of its latest messages. `fed_at`: when lanes were last started
    in the process. `measured_at`: when it last sent measurements (both in monotonic seconds)."""

    lanes: set[LaneKey] = field(default_factory=set)
    expected: set[LaneKey] = field(default_factory=set)
    quotas: Mapping[GroupName, float] = field(default_factory=dict)
    fed_at: float = 0.0
    measured_at: float | None = None

    @property
    def groups(self) -> frozenset[GroupName]:
        """Datastream groups of the worker's lanes."""
        return frozenset(key.group for key in self.lanes)

    @property
    def size(self) -> int:
        """Number of lanes that the worker runs or will start."""
        return len(self.lanes) + len(self.expected)


class LanesInTime(NamedTuple):
    """Counts of lanes without late records, and the state of all other lanes.

    `counts`: number of lanes without late records, by group. `loss_at`: time at which the source will delete
    the first uncopied record, by group, if known (monotonic seconds). `others`: all other lanes.
    """

    counts: Mapping[GroupName, int]
    loss_at: Mapping[GroupName, float]
    others: Mapping[LaneKey, LaneStatus]

    @classmethod
    def of(cls, lanes: Mapping[LaneKey, LaneStatus]) -> LanesInTime:
        """Summarise the given lanes."""
        counted = _LanesInTime()
        for key, lane in lanes.items():
            counted.note(key, lane)
        return counted.summary()

    def beside(self, lanes: Mapping[LaneKey, LaneStatus]) -> LanesInTime:
        """Return a copy of the summary with more lanes in `others`."""
        return self._replace(others={**lanes, **self.others}) if lanes else self


NONE_IN_TIME: Final = LanesInTime({}, {}, {})


class _LanesInTime:
    """Counts each group's lanes without late records. Updated incrementally, because few lanes change."""

    def __init__(self) -> None:
        self._loss_at: dict[LaneKey, float] = {}
        self._counts: dict[GroupName, int] = {}
        self._losing: dict[GroupName, dict[LaneKey, float]] = {}
        self._others: dict[LaneKey, LaneStatus] = {}
        self._summary: LanesInTime | None = None

    def note(self, key: LaneKey, lane: LaneStatus) -> None:
        """Update the counts with the current state of a lane."""
        if lane.phase is LanePhase.COPYING and lane.track.quiet_at == inf:
            at = lane.track.loss_at()
            if self._loss_at.get(key) != at:
                self.forget(key)
                self._enter(key, at)
        elif self._others.get(key) is not lane:
            self.forget(key)
            self._others[key] = lane

    def forget(self, key: LaneKey) -> None:
        """Stop counting a lane that is no longer copied."""
        self._summary = None
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

    def summary(self) -> LanesInTime:
        """Return an immutable summary of the counts."""
        if self._summary is None:
            self._losing = {group: lanes for group, lanes in self._losing.items() if lanes}
            loss_at = {group: min(lanes.values()) for group, lanes in self._losing.items()}
            self._summary = LanesInTime(dict(self._counts), loss_at, dict(self._others))
        return self._summary


class LaneTable:
    """State of each lane of an instance. `states`: lanes not released by a worker, and lanes that no worker
    may copy."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.states: dict[LaneKey, LaneStatus] = {}
        self._muted: dict[LaneKey, LaneStatus] = {}
        """Former states of lanes with an unresponsive worker."""
        self._lost: dict[LaneKey, LaneLoss] = {}
        self._in_time = _LanesInTime()

    @property
    def in_time(self) -> LanesInTime:
        """Summary of the lanes that are in time."""
        return self._in_time.summary()

    def _put(self, key: LaneKey, state: LaneStatus) -> None:
        self.states[key] = state
        self._in_time.note(key, state)

    def _drop(self, key: LaneKey) -> None:
        del self.states[key]
        self._in_time.forget(key)

    def begin(self, spec: LaneSpec, worker: int, lost: LaneLoss | None = None) -> None:
        """Store that a lane is assigned to a worker. `lost`: loss of an instance that caused the assignment,
        unless a later loss is recorded for the lane."""
        now = self._clock.monotonic()
        known = self._lost.pop(spec.key, None)
        loss = lost if known is None or (lost is not None and lost.at > known.at) else known
        self._put(spec.key, LaneStatus(spec, worker, LanePhase.STARTING, since=now, loss=loss))

    def hold(self, spec: LaneSpec, reason: str) -> None:
        """Pause a lane that no worker may copy now, and store the reason."""
        now = self._clock.monotonic()
        self._put(spec.key, LaneStatus(spec, NOBODY, LanePhase.PAUSED, reason, since=now))

    def stop(self, key: LaneKey) -> int:
        """Mark a lane as stopping, and return the worker that must release it.

        A lane without a worker is removed at once.
        """
        state = self.states[key]
        if state.worker == NOBODY:
            self._drop(key)
        else:
            now = self._clock.monotonic()
            self._put(key, state.entering(LanePhase.STOPPING, now, state.reason, state.cause, state.offset))
        return state.worker

    def forget(self, keys: Iterable[LaneKey]) -> None:
        """Remove lanes that are no longer copied from the table."""
        for key in keys:
            self._muted.pop(key, None)
            if key in self.states:
                self._drop(key)

    def lose(self, keys: Iterable[LaneKey], instance: InstanceName | None = None) -> None:
        """Remove lanes whose worker process was lost, and keep the loss for their next start.

        `instance`: this instance, if it has lost its session. Losses of the last seconds then count as losses
        of the session, because workers end with their lease, shortly before the instance notices the lost
        session.
        """
        now, lost = self._clock.monotonic(), list(keys)
        self.forget(lost)
        recent = {key: loss for key, loss in self._lost.items() if now - loss.at < _REMEMBERED_SECONDS}
        if instance is not None:
            recent = {
                key: loss if now - loss.at > _SAME_LOSS_SECONDS else LaneLoss(loss.at, instance)
                for key, loss in recent.items()
            }
        self._lost = recent | dict.fromkeys(lost, LaneLoss(now, instance))

    def measure(
        self,
        rates: Iterable[LaneRate],
        answered_at: float | None = None,
        at: float | None = None,
        waiting: Iterable[WaitingLane] = (),
        limited: Iterable[LimitedLane] = (),
    ) -> None:
        """Add the latest measurements of lanes to their tracks.

        `answered_at`, `at`: times of the worker's previous and latest measurements (monotonic seconds;
        default now). `waiting`: lanes with overdue responses. `limited`: lanes whose rate the TCP window of a
        distant broker limits.
        """
        now, states = self._clock.monotonic() if at is None else at, self.states
        for rate in rates:
            state = states.get(rate.key)
            if state is not None:
                state.track.note(rate, now, answered_at)
                if rate.position is not None:
                    self._in_time.note(rate.key, state)
        for key, unanswered in waiting:
            if key in states:
                states[key].track.unanswered = unanswered
        for key, windows in limited:
            if key in states:
                states[key].track.windows = windows

    def note(self, event: LaneEvent) -> None:
        """Apply an event that a worker reports about a lane."""
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
                _log.debug(  # the worker logs one line for all lanes with the same reason
                    "lane paused", datastream=key.group, partition=str(key.partition), reason=event.text
                )
                paused = state.entering(LanePhase.PAUSED, now, event.reason, event.cause, event.offset)
                self._put(key, paused)
            else:
                self._put(event.key, state.entering(LanePhase.COPYING, now))

    def unwatch(self, keys: Iterable[LaneKey], answered_at: float) -> None:
        """Mark lanes whose worker has sent no measurements since `answered_at` (monotonic seconds)."""
        for key in keys:
            self.states[key].track.unwatch(answered_at)
            self._in_time.note(key, self.states[key])

    def mute(self, keys: Iterable[LaneKey]) -> None:
        """Mark lanes of an unresponsive worker as paused, with unknown lag."""
        now, cause = self._clock.monotonic(), PauseCause.SILENT_WORKER
        for key in keys:
            state = self.states[key]
            if state.phase is not LanePhase.STOPPING and state.reason != SILENT_WORKER:
                self._muted[key] = state
                silent = state.entering(LanePhase.PAUSED, now, SILENT_WORKER, cause)
                self._put(key, replace(silent, track=silent.track.silenced()))

    def unmute(self, keys: set[LaneKey]) -> None:
        """Restore the states of lanes whose worker responds again."""
        for key in keys & self._muted.keys():
            before, state = self._muted.pop(key), self.states[key]
            if state.reason == SILENT_WORKER and state.phase is LanePhase.PAUSED:
                now = self._clock.monotonic()
                self._put(key, state.entering(before.phase, now, before.reason, before.cause, before.offset))

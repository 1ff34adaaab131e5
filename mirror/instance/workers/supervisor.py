"""The worker processes of an instance: started, told what to copy, restarted with backoff.

A task lives wholly in one worker. Datastreams that are suspected of making their worker die are copied in
workers of their own, the cells (`quarantine`). Everything here runs in the follower's thread; reader
threads only put what workers say into the inbox.
"""

from __future__ import annotations

import queue
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import structlog

from mirror.coordination.stores.problems import reason_of
from mirror.instance.workers.quarantine import CELLS, Quarantine
from mirror.model.identifiers import Epoch, GroupName, TaskName
from mirror.ports import Clock, Drops, LaneEvent, LaneKey, LanePaused, LaneSpec, LaneStopped, total_of
from mirror.worker.protocol import (
    ExpectLanes,
    ExtendLease,
    LaneNews,
    LaneRate,
    LaneRates,
    QuotaShare,
    RecordsDropped,
    ShareQuotas,
    Shutdown,
    StartLanes,
    StopLanes,
    TaskSums,
    WorkerReady,
)
from mirror.worker.reader import WorkerGone, WorkerSaid
from mirror.worker.slot import LEASE_OVER, Spawn, WorkerSeat

_log = structlog.get_logger(__name__)
_SILENT: Final = "its worker process does not answer; it is killed and replaced if that lasts"
_NOBODY: Final = -1
"""The worker of a lane that no worker may copy now."""


class LanePhase(StrEnum):
    """Where a lane is between its start and its release. WAITING: no worker process is there for it."""

    WAITING = "waiting"
    STARTING = "starting"
    COPYING = "copying"
    PAUSED = "paused"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class LaneState:
    """One lane as this instance knows it. `worker`: its number; -1: none may or can copy it now. `reason`:
    why it paused or waits."""

    spec: LaneSpec
    worker: int
    phase: LanePhase
    reason: str = ""
    rate: LaneRate | None = None

    @property
    def lag(self) -> tuple[int | None, int | None]:
        """Records at the source that are not at the destination, and the age of the oldest in ms; None where
        it is not known.

        That nothing waits is known only while the lane copies and hears of its source: what it measured
        before is no news.
        """
        rate = self.rate
        if rate is None:
            return None, None
        is_news = self.phase is LanePhase.COPYING and rate.lag_ms is not None
        return (rate.lag_records, rate.lag_ms) if rate.lag_records or is_news else (None, None)


class Supervisor:
    """Owns the workers and the state of every lane."""

    def __init__(
        self,
        spawn: Spawn,
        workers: int,
        inbox: queue.SimpleQueue[object],
        clock: Clock,
        restart_delay_seconds: float,
        silence_limit_seconds: float,
    ) -> None:
        self._spawn = spawn
        self._inbox = inbox
        self._clock = clock
        self._seats = [WorkerSeat(number, restart_delay_seconds) for number in range(workers + CELLS)]
        self._workers, self._cells = self._seats[:workers], self._seats[workers:]
        self._silence_limit = silence_limit_seconds
        self._quarantine = Quarantine()
        self._lanes: dict[LaneKey, LaneState] = {}
        self._unsendable: set[LaneKey] = set()
        self._muted: dict[LaneKey, LaneState] = {}
        """Lanes whose worker does not answer, as they were before."""
        self._task_seat: dict[TaskName, int] = {}
        self._sums: Mapping[TaskName, TaskSums] = {}

    @property
    def task_sums(self) -> Mapping[TaskName, TaskSums]:
        """What each task did here since the start. Safe to read from any thread."""
        return self._sums

    @property
    def drops(self) -> Drops:
        """Records about lanes that workers could not deliver since the start."""
        return total_of(seat.all_drops for seat in self._seats)

    @property
    def inbox(self) -> queue.SimpleQueue[object]:
        """Where reader threads put what workers say; the follower empties it."""
        return self._inbox

    @property
    def lanes(self) -> Mapping[LaneKey, LaneState]:
        """Every lane that a worker was told to copy and has not released, and those that none may copy."""
        return self._lanes

    @property
    def workers_running(self) -> int:
        """Worker processes that are alive; cells do not count."""
        return sum(seat.process is not None for seat in self._workers)

    @property
    def workers_down(self) -> int:
        """Worker processes that should be alive and are not."""
        return len(self._workers) - self.workers_running

    @property
    def workers_silent(self) -> int:
        """Worker processes that are alive and do not answer."""
        return sum(seat.is_silent(self._silence_limit) for seat in self._seats)

    @property
    def is_ready(self) -> bool:
        """Whether a worker is there, and every one that is there has started up."""
        alive = [seat for seat in self._workers if seat.process is not None]
        return bool(alive) and all(seat.data_plane for seat in alive)

    @property
    def ailing(self) -> Mapping[GroupName, str]:
        """Groups that make, or may make, their worker process die, and what is known."""
        return self._quarantine.ailing

    @property
    def data_planes(self) -> frozenset[str]:
        """What the workers that are ready run: compiled, interpreted. Safe to read from any thread."""
        return frozenset(seat.data_plane for seat in self._seats if seat.data_plane)

    def start(self) -> None:
        """Start every worker."""
        for seat in self._workers:
            seat.launch(self._spawn, self._inbox, self._clock.monotonic())

    def expect_lanes(self, specs: Iterable[LaneSpec]) -> None:
        """These, and no others, are waited for: let the workers of their tasks get ready."""
        for seat in self._seats:
            seat.expected.clear()
        for seat, batch in self._dealt(specs, lambda seat: seat.expected):
            try:
                seat.send(ExpectLanes(tuple(batch)), self._clock.monotonic())
            except Exception as error:  # noqa: BLE001 - only a preparation; the start of a lane reports it
                _log.warning("lanes not expected", worker=seat.number, reason=reason_of(error))

    def start_lanes(self, specs: Iterable[LaneSpec], epoch: Epoch) -> None:
        """Give lanes to the workers of their tasks; those whose worker is down wait for the next call."""
        now, free = self._clock.monotonic(), []
        for spec in specs:
            held = self._quarantine.place(spec.key.group).held
            if held:
                self._lanes[spec.key] = LaneState(spec, _NOBODY, LanePhase.PAUSED, held)
            else:
                free.append(spec)
        for seat, batch in self._dealt(free, lambda seat: seat.lanes):
            for spec in batch:
                seat.expected.discard(spec.key)
                self._lanes[spec.key] = LaneState(spec, seat.number, LanePhase.STARTING)
            seat.fed_at = now
            if seat in self._cells:
                self._quarantine.started(self._cells.index(seat), now)
            self._send_start(seat, batch, epoch)

    def _send_start(self, seat: WorkerSeat, batch: Sequence[LaneSpec], epoch: Epoch) -> None:
        """Together if that is possible; else each alone, and what cannot be sent is set aside."""
        now = self._clock.monotonic()
        try:
            seat.send(StartLanes(epoch, tuple(batch)), now)
        except Exception as error:  # noqa: BLE001 - the bulkhead around one lane: which of them is it?
            if len(batch) > 1:
                for spec in batch:
                    self._send_start(seat, [spec], epoch)
                return
            (spec,) = batch
            _log.exception("lane cannot be started", lane=str(spec.key))
            seat.lanes.discard(spec.key)
            self._unsendable.add(spec.key)
            self._lanes[spec.key] = LaneState(spec, _NOBODY, LanePhase.PAUSED, reason_of(error))

    def stop_lanes(self, keys: Iterable[LaneKey]) -> None:
        """Ask workers to release lanes; they stay in `lanes` until the worker says so."""
        batches: dict[int, list[LaneKey]] = {}
        for key in keys:
            state = self._lanes[key]
            if state.worker == _NOBODY:
                del self._lanes[key]
                self._unsendable.discard(key)
                continue
            self._lanes[key] = replace(state, phase=LanePhase.STOPPING)
            batches.setdefault(state.worker, []).append(key)
        for number, batch in batches.items():
            self._seats[number].send(StopLanes(tuple(batch)), self._clock.monotonic())

    def waiting(self, specs: Iterable[LaneSpec]) -> dict[LaneKey, LaneState]:
        """Those of lanes that should run here for which no worker process is there now."""
        now = self._clock.monotonic()
        until = [one.restart_at for one in self._seats if one.process is None and one.restart_at is not None]
        reason = "no worker process is there for it"
        if until:
            reason += f"; one starts again in {max(min(until) - now, 0.0):.0f} s"
        return {
            spec.key: LaneState(spec, _NOBODY, LanePhase.WAITING, reason)
            for spec in specs
            if self._lacks_process(spec.key.group)
        }

    def _lacks_process(self, group: GroupName) -> bool:
        place = self._quarantine.place(group)
        if place.cell is not None:
            return self._cells[place.cell].process is None
        return not place.held and not self.workers_running

    def share_quotas(self, by_task: Mapping[GroupName, float]) -> None:
        """Let every worker copy so many bytes a second for each task that it has of these groups."""
        for seat in self._seats:
            lanes = seat.lanes if by_task else ()
            tasks = {(key.group, self._lanes[key].spec.task) for key in lanes if key.group in by_task}
            counts = Counter(group for group, _ in tasks)
            quotas = {group: count * by_task[group] for group, count in counts.items()}
            if quotas != seat.quotas:
                shares = ShareQuotas(tuple(QuotaShare(*pair) for pair in quotas.items()))
                seat.send(shares, self._clock.monotonic())
                seat.quotas = quotas

    def extend_lease(self, until: float) -> None:
        """Let every worker write until that moment of the monotonic clock."""
        for seat in self._seats:
            seat.send(ExtendLease(until), self._clock.monotonic())

    def handle(self, item: WorkerSaid | WorkerGone) -> None:
        """Take in what a reader thread put into the inbox."""
        seat = self._seats[item.worker]
        if item.generation != seat.generation or seat.process is None:
            return  # of a worker that has been buried already
        if isinstance(item, WorkerGone):
            self._bury(seat, failed=not seat.is_ending)
            return
        match item.message:
            case WorkerReady(data_plane):
                seat.data_plane = data_plane
            case LaneNews(events):
                for event in events:
                    self._note(seat, event)
            case LaneRates(rates, sums):
                seat.failures = 0
                self._add(sums)
                for rate in rates:
                    if rate.key in self._lanes:
                        self._lanes[rate.key] = replace(self._lanes[rate.key], rate=rate)
            case RecordsDropped(drops):
                seat.drops = drops
            case other:
                _log.error(
                    "message skipped: no worker says it", worker=seat.number, kind=type(other).__name__
                )

    def _add(self, sums: Iterable[TaskSums]) -> None:
        known = dict(self._sums)
        for one in sums:
            before = known.get(one.task)
            known[one.task] = before.plus(one) if before else one
        self._sums = known

    def revive(self) -> None:
        """Start the workers whose restart delay is over, kill the ones that do not listen any more, and
        bring suspects and cleared ones to where they may be copied."""
        now = self._clock.monotonic()
        for seat in self._seats:
            if seat.process is not None:
                seat.kill_if_stuck(now)
                seat.listen(now)
                self._mute(seat)
                seat.kill_if_silent(self._silence_limit)
            elif seat in self._workers and seat.restart_at is not None and now >= seat.restart_at:
                seat.launch(self._spawn, self._inbox, now)
        self._quarantine.look(now)
        if self._quarantine.ailing or any(seat.process for seat in self._cells):
            self._rehouse(now)

    def _mute(self, seat: WorkerSeat) -> None:
        """Lanes of a silent worker do not count as copying, and nobody knows their lag; those of one that
        speaks again are what they were."""
        if seat.is_silent(self._silence_limit):
            for key in seat.lanes:
                state = self._lanes[key]
                if state.phase is not LanePhase.STOPPING and state.reason != _SILENT:
                    self._muted[key] = state
                    self._lanes[key] = replace(state, phase=LanePhase.PAUSED, reason=_SILENT, rate=None)
            return
        for key in seat.lanes & self._muted.keys():
            before, state = self._muted.pop(key), self._lanes[key]
            if state.reason == _SILENT and state.phase is LanePhase.PAUSED:
                self._lanes[key] = replace(state, phase=before.phase, reason=before.reason)

    def _rehouse(self, now: float) -> None:
        self.stop_lanes(
            [
                key
                for key, state in self._lanes.items()
                if state.phase is not LanePhase.STOPPING
                and key not in self._unsendable
                and not self._is_at_home(state)
            ]
        )
        for number, seat in enumerate(self._cells):
            is_empty = seat.process is not None and not seat.lanes and not seat.is_ending
            if is_empty and not self._quarantine.is_used(number):
                seat.is_ending = True
                seat.send(Shutdown(1.0), now)

    def _is_at_home(self, state: LaneState) -> bool:
        place = self._quarantine.place(state.spec.key.group)
        if place.held:
            return state.worker == _NOBODY
        if place.cell is not None:
            return state.worker == self._cells[place.cell].number
        return 0 <= state.worker < len(self._workers)

    def abandon(self) -> None:
        """Kill every worker at once: nothing of ours may write any more."""
        for seat in self._seats:
            if seat.process is not None:
                seat.process.kill()
                self._bury(seat, failed=False)
        self.stop_lanes([key for key, state in self._lanes.items() if state.worker == _NOBODY])

    def stop(self, deadline_seconds: float) -> None:
        """Let every worker drain up to the deadline, then end what is left. Safe to call twice."""
        for seat in self._seats:
            seat.restart_at = None
            if seat.process is not None:
                seat.send(Shutdown(deadline_seconds), self._clock.monotonic())
        until = self._clock.monotonic() + deadline_seconds + 2.0
        for seat in self._seats:
            if seat.process is not None:
                try:
                    seat.process.wait(timeout=max(0.1, until - self._clock.monotonic()))
                except subprocess.TimeoutExpired:
                    _log.warning("worker killed: it did not drain in time", worker=seat.number)
                    seat.process.kill()
                self._bury(seat, failed=False)
                seat.restart_at = None

    def _bury(self, seat: WorkerSeat, failed: bool) -> None:
        now, groups = self._clock.monotonic(), seat.groups
        for key in seat.lanes:
            self._lanes.pop(key, None)
            self._muted.pop(key, None)
        is_silenced, how = seat.is_silenced, seat.bury(now, failed)
        self._task_seat = {task: number for task, number in self._task_seat.items() if number != seat.number}
        if not failed or not groups or how == LEASE_OVER:
            return
        if seat in self._cells:
            how = "it was killed because it did not answer" if is_silenced else how
            self._quarantine.cell_died(self._cells.index(seat), now, how)
        elif is_silenced:
            self._quarantine.fell_silent(groups, now - seat.fed_at, now)
        else:
            self._quarantine.died(groups, now - seat.fed_at, now)
        if self._quarantine.ailing:
            _log.error("datastreams suspected of ending their worker", groups=sorted(self._quarantine.ailing))

    def _note(self, seat: WorkerSeat, event: LaneEvent) -> None:
        state = self._lanes.get(event.key)
        if state is None:
            return
        if isinstance(event, LaneStopped):
            del self._lanes[event.key]
            seat.lanes.discard(event.key)
        elif state.phase is not LanePhase.STOPPING:
            if isinstance(event, LanePaused):
                _log.warning(
                    "lane paused",
                    datastream=event.key.group,
                    partition=str(event.key.partition),
                    reason=event.reason,
                )
                self._lanes[event.key] = replace(state, phase=LanePhase.PAUSED, reason=event.reason)
            else:
                self._lanes[event.key] = replace(state, phase=LanePhase.COPYING, reason="")

    def _dealt(
        self, specs: Iterable[LaneSpec], noted: Callable[[WorkerSeat], set[LaneKey]]
    ) -> list[tuple[WorkerSeat, list[LaneSpec]]]:
        """By the worker of their tasks; each counts there at once, so that new tasks are spread."""
        dealt: dict[int, list[LaneSpec]] = {}
        for spec in specs:
            seat = self._seat_for(spec)
            if seat is not None:
                dealt.setdefault(seat.number, []).append(spec)
                noted(seat).add(spec.key)
        return [(self._seats[number], batch) for number, batch in dealt.items()]

    def _seat_for(self, spec: LaneSpec) -> WorkerSeat | None:
        place = self._quarantine.place(spec.key.group)
        if place.held:
            return None
        if place.cell is not None:
            return self._opened(self._cells[place.cell])
        number = self._task_seat.get(spec.task)
        if number is not None and self._seats[number].process is not None:
            return self._seats[number]
        alive = [seat for seat in self._workers if seat.process is not None]
        if not alive:
            return None
        free = [seat for seat in alive if not seat.is_silent(self._silence_limit)] or alive
        seat = min(free, key=lambda one: (len(one.lanes) + len(one.expected), one.number))
        self._task_seat[spec.task] = seat.number
        return seat

    def _opened(self, cell: WorkerSeat) -> WorkerSeat | None:
        """A cell with its process; None while that has to wait for its restart, or for its end."""
        now = self._clock.monotonic()
        if cell.process is None and (cell.restart_at is None or now >= cell.restart_at):
            cell.failures = 0
            cell.launch(self._spawn, self._inbox, now)
        return cell if cell.process is not None and not cell.is_ending else None

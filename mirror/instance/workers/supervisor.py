"""Supervises the worker processes of an instance and their lanes. Each task runs in one worker.

Datastreams that may crash their worker run in separate isolation workers (cells, see `quarantine`), which are
the spare workers of the pool. All methods run in the follower's thread. Reader threads only put messages of
workers into the inbox.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from mirror.instance.workers.cost_tracker import CostTracker
from mirror.instance.workers.lane_table import (
    NOBODY,
    LaneLoss,
    LanePhase,
    LanesInTime,
    LaneStatus,
    LaneTable,
    WorkerShare,
)
from mirror.instance.workers.quarantine import CELLS, Quarantine
from mirror.instance.workers.worker_choice import WorkerChoice
from mirror.instance.workers.worker_health import WorkerHealth, WorkerMeasurements
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import NO_WORKER, LaneKey, LaneSpec, LaneStopped, PauseCause
from mirror.model.identifiers import Epoch, GroupName, InstanceName
from mirror.model.metrics import WorkerLoss
from mirror.model.movement.history import SILENCE_SECONDS
from mirror.model.reasons import reason_of
from mirror.ports import Clock
from mirror.worker.channel import WorkerGone, WorkerMessage
from mirror.worker.pool import LEASE_OVER, Inbox, PooledWorker, PoolLimits, Spawn, WorkerPool
from mirror.worker.protocol import (
    ExpectLanes,
    ExtendLease,
    LaneNews,
    LaneRates,
    QuotaShare,
    RecordsDropped,
    ShareQuotas,
    StartLanes,
    StopLanes,
    WorkerReady,
)

_log = get_logger(__name__)
_EMPTY_CELL_SECONDS = 1.0
"""Seconds that an isolation worker without lanes has to end."""


class Supervisor:
    """Runs the worker processes of an instance, and tracks the state of every lane."""

    def __init__(self, spawn: Spawn, workers: int, inbox: Inbox, clock: Clock, limits: PoolLimits) -> None:
        self._clock = clock
        self._inbox = inbox
        self._pool = WorkerPool(spawn, workers, inbox, clock, limits, spares=CELLS)
        self._shares = [WorkerShare() for _ in self._pool.everyone]
        self._quarantine = Quarantine()
        self._choice = WorkerChoice(self._pool, self._shares, self._quarantine, clock)
        self._table = LaneTable(clock)
        self._unsendable: set[LaneKey] = set()
        self.health = WorkerHealth(self._pool, clock)
        self.measurements = WorkerMeasurements(clock)
        self.costs = CostTracker()
        self.losses = deque[WorkerLoss](maxlen=100)
        self._lease_until = 0.0

    def forget(self, groups: Set[GroupName]) -> None:
        """Drop the measurements and suspicions of groups that no longer exist."""
        self._quarantine.forget(groups)
        self.measurements.forget(groups)

    @property
    def inbox(self) -> Inbox:
        """Queue of messages from workers: reader threads add them, and the follower takes them."""
        return self._inbox

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        """Lanes that a worker has not released yet, and lanes that no worker may copy."""
        return self._table.states

    @property
    def in_time(self) -> LanesInTime:
        """Immutable summary of lanes without late records."""
        return self._table.in_time

    @property
    def quarantine(self) -> Quarantine:
        """Decides which groups run in isolation because they may crash their worker process."""
        return self._quarantine

    def start(self) -> None:
        """Start every worker."""
        self._pool.start()

    def expect_lanes(self, specs: Iterable[LaneSpec]) -> None:
        """Send lanes that will start later to workers, to be prepared. Replaces earlier announcements."""
        for share in self._shares:
            share.expected.clear()
        for worker, batch in self._dealt(specs, lambda share: share.expected):
            try:
                self._pool.send(worker, ExpectLanes(tuple(batch)))
            except Exception as error:  # noqa: BLE001 - only a preparation; the start of a lane reports it
                _log.warning("cannot announce lanes", worker=worker.number, reason=reason_of(error))

    def start_lanes(self, specs: Iterable[LaneSpec], epoch: Epoch, loss: LaneLoss | None = None) -> None:
        """Start lanes in workers. Call again for lanes without a worker. `loss`: recent loss of the instance
        that copied the lanes."""
        now, free = self._clock.monotonic(), []
        for spec in specs:
            self.measurements.expect(spec.key.group)
            held = self._quarantine.place(spec.key.group).held
            if held:
                self._table.hold(spec, held)
            else:
                free.append(spec)
        for worker, batch in self._dealt(free, lambda share: share.lanes):
            share = self._shares[worker.number]
            for spec in batch:
                share.expected.discard(spec.key)
                self._table.begin(spec, worker.number, loss)
            share.fed_at = now
            if worker in self._pool.spares:
                self._quarantine.started(self._pool.spares.index(worker), now)
            self._send_start(worker, batch, epoch)

    def _send_start(self, worker: PooledWorker, batch: Sequence[LaneSpec], epoch: Epoch) -> None:
        """Send lanes to a worker in as few messages as possible. Pause lanes that cannot be sent."""
        try:
            self._pool.send(worker, StartLanes(epoch, tuple(batch)))
        except Exception as error:  # noqa: BLE001 - bulkhead around one lane, found by halving
            if len(batch) > 1:
                middle = len(batch) // 2
                self._send_start(worker, batch[:middle], epoch)
                self._send_start(worker, batch[middle:], epoch)
                return
            (spec,) = batch
            _log.exception("cannot start lane", lane=str(spec.key))
            self._shares[worker.number].lanes.discard(spec.key)
            self._unsendable.add(spec.key)
            self._table.hold(spec, reason_of(error))

    def stop_lanes(self, keys: Iterable[LaneKey]) -> None:
        """Request workers to release lanes. The lanes stay in `lanes` until workers report the release."""
        batches: dict[int, list[LaneKey]] = {}
        for key in keys:
            number = self._table.stop(key)
            if number == NOBODY:
                self._unsendable.discard(key)
            else:
                batches.setdefault(number, []).append(key)
        for number, batch in batches.items():
            self._pool.send(self._pool.everyone[number], StopLanes(tuple(batch)))

    def waiting(self, specs: Iterable[LaneSpec]) -> dict[LaneKey, LaneStatus]:
        """Return the assigned lanes that have no worker process."""
        ended = (worker.slot.restart_at for worker in self._pool.everyone if worker.process is None)
        until = [moment for moment in ended if moment is not None]
        reason = NO_WORKER
        if until:
            reason += f"; restart in {max(min(until) - self._clock.monotonic(), 0.0):.0f} s"
        return {
            spec.key: LaneStatus(spec, NOBODY, LanePhase.WAITING, reason, cause=PauseCause.NO_WORKER)
            for spec in specs
            if self._choice.lacks_process(spec.key.group)
        }

    def share_quotas(self, by_task: Mapping[GroupName, float]) -> None:
        """Send the quotas of the given groups to the workers. `by_task`: bytes per second for each task."""
        for worker, share in zip(self._pool.everyone, self._shares, strict=True):
            lanes = share.lanes if by_task else ()
            tasks = {(key.group, self.lanes[key].spec.task) for key in lanes if key.group in by_task}
            counts = Counter(group for group, _ in tasks)
            quotas = {group: count * by_task[group] for group, count in counts.items()}
            if quotas != share.quotas:
                shares = ShareQuotas(tuple(QuotaShare(*pair) for pair in quotas.items()))
                self._pool.send(worker, shares)
                share.quotas = quotas

    def extend_lease(self, until: float) -> None:
        """Extend the lease of every worker. `until`: end of the lease (monotonic seconds)."""
        self._lease_until = until
        for worker in self._pool.everyone:
            self._pool.send(worker, ExtendLease(until))

    def handle(self, item: WorkerMessage | WorkerGone) -> None:
        """Handle an event of a worker that a reader thread put into the inbox."""
        worker = self._pool.speaker(item)
        if worker is None:
            return
        if isinstance(item, WorkerGone):
            self._reap(worker)
            return
        match item.message:
            case WorkerReady():
                """The worker pool has already recorded the error."""
            case LaneNews(events):
                for event in events:
                    self._table.note(event)
                    if isinstance(event, LaneStopped):
                        self._shares[worker.number].lanes.discard(event.key)
            case LaneRates(rates):
                worker.slot.failures = 0
                self.measurements.add(item.message)
                share = self._shares[worker.number]
                self.costs.note(item.message, self._held_back(share), self._clock.now_ms())
                at = self._clock.monotonic() if item.message.at is None else item.message.at
                self._table.measure(rates, share.measured_at, at, item.message.waiting, item.message.limited)
                share.measured_at = at
            case RecordsDropped(drops):
                self.measurements.note_drops(worker.number, drops)
            case other:
                _log.error("unexpected worker message", worker=worker.number, kind=type(other).__name__)

    def _held_back(self, share: WorkerShare) -> frozenset[GroupName]:
        """Return the groups that a quota throttles in this worker."""
        return frozenset(key.group for key in share.lanes if self._table.states[key].held_back)

    def restart_dead(self) -> None:
        """Restart dead workers, kill unresponsive workers, and update the quarantine of suspected groups."""
        self._pool.check()
        for worker, share in zip(self._pool.everyone, self._shares, strict=True):
            if worker.slot.is_silent:
                self._table.mute(share.lanes)
            else:
                self._table.unmute(share.lanes)
                said_at = share.measured_at
                if said_at is not None and self._clock.monotonic() - said_at > SILENCE_SECONDS:
                    self._table.unwatch(share.lanes, said_at)
        self._quarantine.update(self._clock.monotonic())
        if self._quarantine.ailing or any(cell.process for cell in self._pool.spares):
            self._rehouse()

    def _rehouse(self) -> None:
        self.stop_lanes(
            [
                key
                for key, state in self.lanes.items()
                if state.phase is not LanePhase.STOPPING
                and key not in self._unsendable
                and not self._choice.is_kept(state)
            ]
        )
        for number, cell in enumerate(self._pool.spares):
            is_empty = cell.process is not None and not self._shares[cell.number].lanes
            if is_empty and not cell.slot.is_ending and not self._quarantine.is_used(number):
                self._pool.end(cell, _EMPTY_CELL_SECONDS)

    def kill_all(self, session_of: InstanceName | None = None) -> None:
        """Kill every worker at once. `session_of`: this instance, if it has lost its session."""
        lanes = [key for worker in self._pool.kill() for key in self._forget(worker).lanes]
        if session_of is not None:
            self._table.lose(lanes, session_of)
        self.stop_lanes([key for key, state in self.lanes.items() if state.worker == NOBODY])

    def stop(self, deadline_seconds: float) -> None:
        """Drain the lanes until the deadline, then kill the remaining workers. Safe to call twice."""
        for worker in self._pool.stop(deadline_seconds):
            self._forget(worker)

    def _forget(self, worker: PooledWorker) -> WorkerShare:
        """Discard the state of a worker whose process has ended, and return its former share of lanes."""
        share, self._shares[worker.number] = self._shares[worker.number], WorkerShare()
        self._table.forget(share.lanes)
        self.measurements.worker_ended(worker.number)
        self._choice.worker_ended(worker.number)
        return share

    def _reap(self, worker: PooledWorker) -> None:
        """Handle the end of a worker process, and determine which groups may have crashed it."""
        failed = not worker.slot.is_ending
        how, share = self._pool.bury(worker, failed=failed), self._forget(worker)
        groups, now = share.groups, self._clock.monotonic()
        if failed:
            self._table.lose(share.lanes)
            if how != LEASE_OVER:
                self.losses.append(WorkerLoss(self._clock.now_ms(), worker.number, how, len(share.lanes)))
        is_starved = failed and how == LEASE_OVER and now < self._lease_until
        if is_starved:
            worker.slot.starve()
        if not failed or not groups or (how == LEASE_OVER and not is_starved):
            return
        is_silenced, seconds = worker.slot.silence.is_fatal or is_starved, now - share.fed_at
        if worker in self._pool.spares:
            how = "killed because it did not respond" if is_silenced else how
            self._quarantine.cell_died(self._pool.spares.index(worker), now, how)
        elif is_silenced:
            self._quarantine.fell_silent(groups, seconds, now)
        else:
            self._quarantine.died(groups, seconds, now)
        if ailing := sorted(self._quarantine.ailing):
            _log.error("datastreams suspected of crashing their worker", groups=ailing)

    def _dealt(
        self, specs: Iterable[LaneSpec], noted: Callable[[WorkerShare], set[LaneKey]]
    ) -> list[tuple[PooledWorker, list[LaneSpec]]]:
        """Choose a worker for each lane. An assigned lane counts at once, so that new tasks are spread."""
        dealt: dict[int, list[LaneSpec]] = {}
        for spec in specs:
            worker = self._choice.worker_for(spec)
            if worker is not None:
                dealt.setdefault(worker.number, []).append(spec)
                noted(self._shares[worker.number]).add(spec.key)
        return [(self._pool.everyone[number], batch) for number, batch in dealt.items()]

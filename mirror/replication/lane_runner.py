"""Execution of the decisions of `mirror.lane.lifecycle`. Only writer of a lane's state and generation.

Everything that happens to a lane reaches `handle` as an event; events of an earlier generation are dropped
there. The new state is written before its actions run, so if an action fails, the error handling knows the
target state, and a stop is never lost.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from typing import Any, Final, Protocol, TypeVar

from mirror.client.event_loop import RunWhile
from mirror.errors import Fenced, HeadraceError, Unexpected
from mirror.lane.lifecycle import (
    EventKind,
    Intent,
    LaneAction,
    LaneState,
    Lifecycle,
    LifecycleEvent,
    Pause,
    ProbeRule,
    advance,
    pause_again,
)
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LaneStopped, PauseCause
from mirror.model.identifiers import ClusterRef
from mirror.replication.channels.fetcher import Fetcher
from mirror.replication.channels.sender import Sender
from mirror.replication.context import EngineContext
from mirror.replication.live_lane import LiveLane
from mirror.replication.reports.causes import LaneFailure, cause_of
from mirror.replication.reports.lane_log import LaneLog
from mirror.replication.reports.lane_reports import LaneReport, report_of

T = TypeVar("T")

_log = logging.getLogger(__name__)
_MOST_GAPS: Final = 20
_LONGEST_REASON: Final = 1000
FAILURE_SECONDS: Final = 3.0
_SOON_SECONDS: Final = 0.5
"""Delay of the next try after a cluster could not be reached."""


class Transactions(Protocol):
    """Transactions of exactly-once lanes, as seen by code that changes lanes."""

    def prepare(self, lane: LiveLane, floor: int) -> None:
        """Require transactions for everything the lane sends. `floor`: see `TransactionState`."""
        ...

    def begin(self, lane: LiveLane) -> None:
        """Open a transaction for a lane that has batches to send."""
        ...

    def commit(self, lane: LiveLane) -> None:
        """End the lane's transaction now; then carry out its intent."""
        ...

    def abandon(self, lane: LiveLane) -> None:
        """Abort the open transaction, whose records are copied again after the last commit is loaded."""
        ...

    def fenced(self, lane: LiveLane, error: Fenced) -> None:
        """Handle a broker that fences the lane's identity."""
        ...

    def pump(self, now: float) -> None:
        """Do time-based work."""
        ...


class LaneRunner:
    """Owner of the lanes and of their pending work. `transactions` makes the transaction manager."""

    def __init__(self, bench: EngineContext, transactions: Callable[[LaneRunner], Transactions]) -> None:
        self.bench = bench
        self.lanes: dict[LaneKey, LiveLane] = {}
        self.events: list[LaneEvent] = []
        self.log = LaneLog(lambda event: self.events.append(event), bench.loop.now)  # noqa: PLW0108 - the list is replaced
        self.to_start: dict[LiveLane, None] = {}
        self.stopping: dict[LiveLane, None] = {}
        """Drained lanes, which stop once their checkpoint is durable."""
        self.final: list[LaneReport] = []
        """Reports of stopped lanes, if reports are kept."""
        self.dirty: dict[LiveLane, None] = {}
        """Lanes with unsaved progress."""
        self.moved: dict[LiveLane, int] = {}
        """Durable positions not yet committed to the lanes' consumer groups."""
        self.failing: dict[LiveLane, LaneFailure] = {}
        """Recurring failures by lane; see `stalls`."""
        self.sources: dict[ClusterRef, Fetcher] = {}
        self.sinks: dict[ClusterRef, Sender] = {}
        self._rule = ProbeRule(bench.settings.probe_first_seconds, bench.settings.probe_longest_seconds)
        self._soon = ProbeRule(_SOON_SECONDS, _SOON_SECONDS)
        self._probes: list[tuple[int, int, LiveLane, int]] = []
        self._numbers = count()
        self._performers: dict[LaneAction, Callable[[LiveLane], None]] = {
            LaneAction.DETACH_READER: self._detach_reader,
            LaneAction.DETACH_WRITER: self._detach_writer,
            LaneAction.SHED: LiveLane.shed,
            LaneAction.LET_GO: self._let_go,
            LaneAction.FREE: self._free,
            LaneAction.SETTLE: self.settle,
            LaneAction.COMMIT: self._commit,
            LaneAction.START: self._start,
            LaneAction.READ_ON: self.read_on,
            LaneAction.PROBE: self._probe_later,
            LaneAction.AWAIT_CHECKPOINT: self._await_checkpoint,
            LaneAction.MARK_DIRTY: self.note_change,
            LaneAction.REPORT_PAUSED: self._report_paused,
            LaneAction.REPORT_RESUMED: self._report_resumed,
            LaneAction.REPORT_STOPPED: self._report_stopped,
        }
        self.transactions = transactions(self)

    def take(self, lane: LiveLane) -> None:
        """Start copying a lane that is new to this engine."""
        lane.started_at = self.bench.loop.now()
        self.lanes[lane.key] = lane
        self.to_start[lane] = None

    def take_events(self) -> list[LaneEvent]:
        """Return the lane events since the last call."""
        events, self.events = self.events, []
        return events

    def take_final(self) -> list[LaneReport]:
        """Return reports of lanes stopped since the last call."""
        final, self.final = self.final, []
        return final

    def start_together(self, lanes: Iterable[LiveLane]) -> Callable[[], list[LiveLane]]:
        """Begin to start many lanes. The result returns the lanes for which this start is still valid."""
        turns = [(lane, lane.turn) for lane in lanes]
        return lambda: [one for one, turn in turns if one.turn == turn and one.state is LaneState.STARTING]

    def source(self, lane: LiveLane) -> Fetcher:
        """Return the fetcher of the lane's source."""
        return self.sources[lane.spec.source]

    def sink(self, lane: LiveLane) -> Sender:
        """Return the sender of the lane's destination."""
        return self.sinks[lane.spec.destination]

    def handle(self, lane: LiveLane, event: LifecycleEvent) -> bool:
        """Apply the event to the lane and perform the resulting actions. Return False if outdated."""
        if event.generation is not None and event.generation != lane.turn:
            _log.debug("lane %s: %s is outdated", lane.key.partition, event.kind)
            return False
        before = Lifecycle(lane.state, lane.intent, lane.pause, lane.turn)
        after, actions = advance(before, event)
        lane.state, lane.intent, lane.pause, lane.turn = after
        if before.state is LaneState.STARTING and after.state is not LaneState.STARTING:
            self.to_start.pop(lane, None)
        for action in actions:
            try:
                self._performers[action](lane)
            except Exception as error:
                if event.kind is not EventKind.BROKE:
                    raise
                _log.error("lane %s: %s failed", lane.key.partition, action, exc_info=error)
        return True

    def _commit(self, lane: LiveLane) -> None:
        self.transactions.commit(lane)

    def _start(self, lane: LiveLane) -> None:
        self.to_start[lane] = None

    def _probe_later(self, lane: LiveLane) -> None:
        assert lane.pause is not None, "a lane pauses with a reason"
        heapq.heappush(self._probes, (lane.pause.probe_at_ms, next(self._numbers), lane, lane.turn))

    def _await_checkpoint(self, lane: LiveLane) -> None:
        self.stopping[lane] = None

    def _report_paused(self, lane: LiveLane) -> None:
        assert lane.pause is not None, "a lane pauses with a reason"
        self.log.waits(lane.spec, lane.pause.reason, lane.pause.cause)

    def _report_resumed(self, lane: LiveLane) -> None:
        self.log.copies(lane.key)

    def set_aside(self, lane: LiveLane, error: Exception) -> None:
        """Pause the lane because one of its steps failed, and free its memory."""
        problem = error if isinstance(error, HeadraceError) else self._unexpected(lane, error)
        try:
            if problem is error:
                self.pause(lane, problem, lasting=isinstance(error, Fenced))
                return
            lane.is_broken = True
            lane.recount()
            if lane.state is LaneState.PAUSED:  # already paused, so its in-memory state is discarded here
                self._break(lane, problem)
            else:
                self.pause(lane, problem)
        except Exception as worse:  # noqa: BLE001 - even pausing failed; the other lanes continue
            _log.error("lane %s: cannot pause", lane.key.partition, exc_info=worse)
            self._break(lane, problem)

    def _unexpected(self, lane: LiveLane, error: Exception) -> HeadraceError:
        problem = Unexpected(
            f"unexpected: {type(error).__name__}: {error}"[:_LONGEST_REASON],
            advice="see the traceback in the log and report it",
        )
        if lane.pause is None or problem.message not in lane.pause.reason:
            _log.error("lane %s: a step failed", lane.key.partition, exc_info=error)
        return problem

    def _break(self, lane: LiveLane, problem: HeadraceError) -> None:
        """Pause a lane whose pausing failed, whatever state it is in."""
        pause = pause_again(lane.pause, str(problem), self.bench.clock.now_ms(), self._rule)
        self.handle(lane, LifecycleEvent(EventKind.BROKE, pause))

    def guard(self, lane: LiveLane, step: Callable[[LiveLane], object]) -> None:
        """Run one step of a lane; a failure pauses only this lane."""
        try:
            step(lane)
        except Exception as error:  # noqa: BLE001 - only this lane is affected
            self.set_aside(lane, error)

    def later(self, lane: LiveLane, seconds: float, step: Callable[[LiveLane], object]) -> None:
        """Run a step of the lane after a delay, unless it restarts before."""
        turn = lane.turn
        self.bench.loop.call_later(seconds, lambda: self._if_valid(lane, turn, step))

    def _if_valid(self, lane: LiveLane, turn: int, step: Callable[[LiveLane], object]) -> None:
        if lane.turn == turn:
            self.guard(lane, step)

    def spawn(self, lane: LiveLane, steps: Coroutine[Any, Any, None]) -> None:
        """Run asynchronous steps of the lane in the background; see `run`."""
        self.bench.loop.spawn(self.run(lane, lane.turn, steps))

    async def run(self, lane: LiveLane, turn: int, steps: Coroutine[Any, Any, None]) -> None:
        """Run asynchronous steps of the lane's generation `turn`; stop them once the lane has restarted. A
        failure pauses only this lane, and nothing if it is of an earlier generation."""
        try:
            await RunWhile(lambda: lane.turn == turn, steps)
        except Exception as error:  # noqa: BLE001 - only this lane is affected
            if lane.turn == turn:
                self.set_aside(lane, error)
            else:
                known = isinstance(error, HeadraceError)
                level, trace = (logging.DEBUG, None) if known else (logging.ERROR, error)
                _log.log(
                    level, "lane %s: %s, after it has restarted", lane.key.partition, error, exc_info=trace
                )

    async def see_through(self, steps: Coroutine[Any, Any, T]) -> T:
        """Run steps to completion that must not be interrupted, even if the lane restarts."""
        return await self.bench.loop.spawn(steps)

    def pause(
        self, lane: LiveLane, error: HeadraceError, *, drain: bool = False, lasting: bool = False
    ) -> None:
        """Pause the lane. `drain`: send the queued batches first. `lasting`: do not retry."""
        pause = self._pause_of(lane, error, drain, lasting)
        self.handle(lane, LifecycleEvent(EventKind.FAILED_AHEAD if drain else EventKind.FAILED, pause))

    def _pause_of(self, lane: LiveLane, error: HeadraceError, drain: bool, lasting: bool) -> Pause:
        now_ms = self.bench.clock.now_ms()
        reason = f"{error} (source offset {lane.position if drain else lane.checkpoint})"
        rule = self._soon if error.retriable else self._rule
        cause = cause_of(error, lane.spec, self.bench.silent_clusters(self.bench.loop.now()))
        counts = not error.retriable
        return pause_again(lane.pause, reason, now_ms, rule, lasting=lasting, counts=counts, cause=cause)

    def pause_for_good(self, lane: LiveLane, error: Fenced) -> None:
        """Pause the lane permanently because another owner has taken it."""
        self.pause(lane, error, lasting=True)

    def restart(self, lane: LiveLane, why: str) -> None:
        """Restart the lane from its checkpoint."""
        if lane.state not in (LaneState.STOPPED, LaneState.PAUSED):
            _log.debug("lane %s restarts: %s", lane.key.partition, why)
            self.handle(lane, LifecycleEvent(EventKind.INVALIDATED))

    def give_way(self, lane: LiveLane) -> None:
        """Release unsent batches, to free memory for other lanes. They are read again later."""
        end = lane.position
        lane.shed()
        if lane.reader is not None:
            lane.reader.exclude(lane)
        if lane.position < end and lane.intent in (Intent.FINISH, Intent.PAUSE_WHEN_DRAINED):
            self.restart(lane, "unsent batches were released")

    def stop(self, lane: LiveLane) -> None:
        """Stop fetching, finish the batches in flight, and checkpoint."""
        self.handle(lane, LifecycleEvent(EventKind.STOP_ASKED))

    def read_on(self, lane: LiveLane) -> None:
        """Fetch from the lane's position, or finish at its end. Does nothing unless the lane is copying."""
        if not lane.may_read:
            return
        end = lane.spec.end_offset
        if end is not None and lane.position >= end:
            self.finish(lane)
        else:
            self.source(lane).attach(lane)

    def finish(self, lane: LiveLane) -> None:
        """Finish a lane that has read up to its end; it stops once everything is sent."""
        self.note_headway(lane)
        self.handle(lane, LifecycleEvent(EventKind.READ_ALL))

    def settle(self, lane: LiveLane) -> None:
        """Carry out the intent if no batch is in flight."""
        if lane.intent is not None and not lane.in_flight:
            self.handle(lane, LifecycleEvent(EventKind.SETTLING, in_hand=lane.in_hand))

    def give_up(self, lane: LiveLane) -> None:
        """Stop without sending the queued batches. None may be in flight."""
        self.handle(lane, LifecycleEvent(EventKind.GAVE_UP))

    def note_failure(
        self,
        lane: LiveLane,
        side: PauseCause,
        sentence: str,
        seconds: float = FAILURE_SECONDS,
        since: float | None = None,
    ) -> None:
        """Record a failure that is retried, with a response expected within `seconds`. `since`: start of the
        failed step in monotonic seconds, now by default."""
        now = self.bench.loop.now()
        known = self.failing.get(lane)
        if known is None or now > known.until:
            self.failing[lane] = LaneFailure(sentence, now if since is None else since, now + seconds, side)
        else:
            known.sentence, known.until, known.side = sentence, now + seconds, side

    def note_headway(self, lane: LiveLane) -> None:
        """Clear the pause of a lane that copies again."""
        if lane.pause is not None and lane.intent is None:
            self.handle(lane, LifecycleEvent(EventKind.HEADWAY))

    def probe(self, now_ms: int) -> None:
        """Retry the paused lanes whose probe is due."""
        while self._probes and self._probes[0][0] <= now_ms:
            _, _, lane, turn = heapq.heappop(self._probes)
            self.handle(lane, LifecycleEvent(EventKind.DUE, generation=turn))

    def wake(self, cluster: ClusterRef, since_ms: int) -> list[LiveLane]:
        """Retry and return the lanes that paused since `since_ms`, when an outage of the cluster began."""
        woken = [
            lane
            for lane in self.lanes.values()
            if lane.state is LaneState.PAUSED
            and cluster in (lane.spec.source, lane.spec.destination)
            and lane.pause is not None
            and lane.pause.is_woken(since_ms)
        ]
        for lane in woken:
            self.handle(lane, LifecycleEvent(EventKind.DUE))
        return woken

    def is_foreign(self, lane: LiveLane, stored: LaneProgress | None) -> bool:
        """Return whether another engine has stored this progress since the lane was loaded."""
        if stored is None or stored.version is None or stored.version == lane.stored:
            return False
        return stored.version[0] != self.bench.token

    def reload(self, lane: LiveLane, why: str) -> None:
        """Restart the lane from the stored progress."""
        lane.is_loaded = False
        self.dirty.pop(lane, None)
        self.restart(lane, why)

    def mark_dirty(self, lane: LiveLane) -> None:
        """Queue the lane for a checkpoint if its progress changed."""
        if lane.dirty:
            self.dirty[lane] = None
            if len(lane.gaps) > _MOST_GAPS:
                del lane.gaps[:-_MOST_GAPS]

    def note_change(self, lane: LiveLane) -> None:
        """Record changed progress. A stopped lane is not queued."""
        lane.dirty = True
        if lane.state is not LaneState.STOPPED:
            self.mark_dirty(lane)

    def take_change(self, lane: LiveLane) -> None:
        """Mark the lane's progress as being stored."""
        lane.dirty = False
        self.dirty.pop(lane, None)

    def note_moved(self, lane: LiveLane, position: int) -> None:
        """Queue a durable position for the lane's consumer group, if it has one. Positions that are not
        durable must not be committed: a consumer that continues from the group would miss records."""
        if lane.spec.consumer_group:
            self.moved[lane] = position

    def _report_stopped(self, lane: LiveLane) -> None:
        for waiting in (self.dirty, self.stopping, self.failing):
            waiting.pop(lane, None)
        self.lanes.pop(lane.key, None)
        self.log.stopped(lane.key)
        self.bench.release_progress(lane.spec.destination, lane.key)
        if self.bench.identity.keeps_reports:
            self.final.append(report_of(lane, self.bench.loop.now()))
        has_begun = lane.is_loaded and lane.position >= 0
        self.events.append(LaneStopped(lane.key, lane.checkpoint if has_begun else None))

    def _detach_reader(self, lane: LiveLane) -> None:
        source = self.sources.get(lane.spec.source)
        if source is not None:  # a lane may fail before its clusters are opened
            source.detach(lane)

    def _detach_writer(self, lane: LiveLane) -> None:
        sink = self.sinks.get(lane.spec.destination)
        if sink is not None:
            sink.detach(lane)

    def _let_go(self, lane: LiveLane) -> None:
        self._detach_writer(lane)
        is_in_transaction = lane.is_in_transaction
        if lane.is_ambiguous:
            lane.disown()
        lane.drop()
        if is_in_transaction:
            self.transactions.abandon(lane)
        if lane.is_broken:
            lane.is_broken = lane.is_loaded = False
            lane.disown()

    def _free(self, lane: LiveLane) -> None:
        lane.is_broken = lane.is_loaded = False
        try:
            if lane.is_in_transaction:
                self.transactions.abandon(lane)
        finally:
            lane.disown()
            lane.free_all()

"""Changes the state of lanes as decided by `mirror.lane.lifecycle`. No other module changes the state.

Everything that happens to a lane is an event for `handle`. Events of an earlier generation are dropped. The
new state is set before its actions run. If an action fails, the error handling therefore knows the target
state, and a stop is never lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Final, Protocol

from mirror.errors import Fenced, HeadraceError, Unexpected
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import EventKind, Intent, LaneAction, LaneState, LifecycleEvent, advance
from mirror.lane.parts.pause import ProbeRule, pause_again
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneStopped, PauseCause
from mirror.model.identifiers import ClusterRef
from mirror.replication.concurrency import RunWhile
from mirror.replication.context import EngineContext
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.reports.causes import cause_of
from mirror.replication.reports.lane_reports import report_of

_log = get_logger(__name__)
_LONGEST_REASON: Final = 1000
_SOON_SECONDS: Final = 0.5
"""Seconds until the next attempt after a cluster could not be reached."""
_CREATED_SECONDS: Final = 5.0
"""Maximum seconds between attempts while the leader has not created the destination topic."""


class Transactions(Protocol):
    """Interface of the transactions of exactly-once lanes."""

    def begin(self, lane: Lane) -> None:
        """Begin a transaction for a lane that has batches to send."""
        ...

    def commit(self, lane: Lane) -> None:
        """Commit the lane's transaction now, then perform the pending transition (stop, pause or restart)."""
        ...

    def invalidate(self, lane: Lane) -> None:
        """Prevent a commit of the lane's open transaction, if it has one."""
        ...

    def abandon(self, lane: Lane) -> None:
        """Abort the lane's open transaction. Its records are copied again."""
        ...

    def fenced(self, lane: Lane, error: Fenced) -> None:
        """Handle a broker that has fenced the lane's producer id."""
        ...

    def pump(self, now: float) -> None:
        """Begin, commit and abort the transactions that are due at `now` (monotonic seconds)."""
        ...


Performer = Callable[[Lane], None]


def still_starting(lanes: Iterable[Lane]) -> Callable[[], list[Lane]]:
    """Return a function that lists the lanes whose current start is not complete."""
    generations = [(lane, lane.generation) for lane in lanes]

    def remaining() -> list[Lane]:
        return [
            lane
            for lane, generation in generations
            if lane.generation == generation and lane.state is LaneState.STARTING
        ]

    return remaining


class LaneActions:
    """Performs the lifecycle actions that need no decision: on channels, buffers, pending work and reports.
    `abandon`: aborts the open transaction of a lane."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, abandon: Performer) -> None:
        self._context = context
        self._lanes = lanes
        self._unsaved = lanes.unsaved
        self._delivery = lanes.delivery
        self._identities = lanes.identities
        self._lane_log = lanes.log
        self._abandon = abandon

    def performers(self) -> Mapping[LaneAction, Performer]:
        """Map each lifecycle action to the function that performs it."""
        return {
            LaneAction.DETACH_READER: self._detach_reader,
            LaneAction.DETACH_WRITER: self._detach_writer,
            LaneAction.SHED: self._delivery.shed,
            LaneAction.DROP: self._delivery.drop,
            LaneAction.LET_GO: self._let_go,
            LaneAction.FREE: self._free,
            LaneAction.START: self._start,
            LaneAction.AWAIT_CHECKPOINT: self._await_checkpoint,
            LaneAction.MARK_DIRTY: self._unsaved.note_change,
            LaneAction.REPORT_PAUSED: self._report_paused,
            LaneAction.REPORT_RESUMED: self._report_resumed,
            LaneAction.REPORT_STOPPED: self._report_stopped,
        }

    def _detach_reader(self, lane: Lane) -> None:
        source = self._lanes.sources.get(lane.spec.source)
        if source is not None:  # a lane may fail before its clusters are opened
            source.detach(lane)

    def _detach_writer(self, lane: Lane) -> None:
        sink = self._lanes.sinks.get(lane.spec.destination)
        if sink is not None:
            sink.detach(lane)

    def _let_go(self, lane: Lane) -> None:
        self._detach_writer(lane)
        is_in_transaction = lane.ownership.is_in_transaction
        if lane.queue.is_ambiguous:
            self._identities.end(lane)
        self._delivery.drop(lane)
        if is_in_transaction:
            self._abandon(lane)
        if lane.is_broken:
            self._unsaved.discard(lane)
            self._identities.end(lane)

    def _free(self, lane: Lane) -> None:
        self._unsaved.discard(lane)
        try:
            if lane.ownership.is_in_transaction:
                self._abandon(lane)
        finally:
            self._identities.end(lane)
            self._delivery.free_all(lane)

    def _start(self, lane: Lane) -> None:
        self._lanes.to_start[lane] = None

    def _await_checkpoint(self, lane: Lane) -> None:
        self._lanes.stopping[lane] = None

    def _report_paused(self, lane: Lane) -> None:
        assert lane.pause is not None, "a lane pauses with a reason"
        self._lane_log.waits(lane.spec, lane.pause.reason, lane.pause.cause, lane.pause.offset)

    def _report_resumed(self, lane: Lane) -> None:
        self._lane_log.copies(lane.key)

    def _report_stopped(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        self._context.release_progress(lane.spec.destination, lane.key)
        if self._context.identity.keeps_reports:
            self._lanes.final.append(report_of(lane, self._context.loop.now()))
        has_begun = lane.is_loaded and lane.read.position >= 0
        self._lanes.report(LaneStopped(lane.key, lane.checkpoint if has_begun else None))


class LaneRunner:
    """Runs the lifecycle of lanes, and their operations. `transactions`: creates the transaction manager."""

    def __init__(
        self,
        context: EngineContext,
        lanes: LaneRegistry,
        transactions: Callable[[LaneRunner], Transactions],
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._unsaved = lanes.unsaved
        self._delivery = lanes.delivery
        settings = context.settings
        self._rule = ProbeRule(settings.probe_first_seconds, settings.probe_longest_seconds)
        self._soon = ProbeRule(_SOON_SECONDS, _SOON_SECONDS)
        longest = min(settings.probe_longest_seconds, _CREATED_SECONDS)
        self._created_soon = ProbeRule(settings.probe_first_seconds, longest)
        self._probes: list[tuple[float, int, Lane, int]] = []
        self._numbers = count()
        self.transactions = transactions(self)
        actions = LaneActions(context, lanes, self.transactions.abandon)
        self._performers: dict[LaneAction, Performer] = {
            **actions.performers(),
            LaneAction.SETTLE: self.settle,
            LaneAction.COMMIT: self.transactions.commit,
            LaneAction.READ_ON: self.read_on,
            LaneAction.PROBE: self._probe_later,
        }

    def handle(self, lane: Lane, event: LifecycleEvent) -> bool:
        """Apply a lifecycle event, and perform the resulting actions. Return False if it is outdated."""
        if event.generation is not None and event.generation != lane.generation:
            _log.debug("outdated event skipped", **lane.key.log_fields, kind=event.kind.value)
            return False
        before = lane.lifecycle
        after, actions = advance(before, event)
        lane.lifecycle = after
        if before.state is LaneState.STARTING and after.state is not LaneState.STARTING:
            self._lanes.to_start.pop(lane, None)
        for action in actions:
            try:
                self._performers[action](lane)
            except Exception as error:
                if event.kind is not EventKind.BROKE:
                    raise
                _log.error("lane action failed", **lane.key.log_fields, action=action.value, exc_info=error)
        return True

    def _probe_later(self, lane: Lane) -> None:
        assert lane.pause is not None, "a lane pauses with a reason"
        due = self._context.loop.now() + lane.pause.delay_ms / 1000
        heapq.heappush(self._probes, (due, next(self._numbers), lane, lane.generation))

    def set_aside(self, lane: Lane, error: Exception) -> None:
        """Pause a lane after an exception in one of its operations, and free its memory."""
        problem = error if isinstance(error, HeadraceError) else _unexpected(lane, error)
        try:
            if problem is error:
                self.pause(lane, problem, lasting=isinstance(error, Fenced))
                return
            self._delivery.invalidate(lane)
            if lane.state is LaneState.PAUSED:  # already paused: discard its state in memory
                self._break(lane, problem)
            else:
                self.pause(lane, problem)
        except Exception as worse:  # noqa: BLE001 - even pausing failed; the other lanes continue
            _log.error("cannot pause lane", **lane.key.log_fields, exc_info=worse)
            self._break(lane, problem)

    def _break(self, lane: Lane, problem: HeadraceError) -> None:
        """Pause a lane in any state, because the normal pause has failed."""
        pause = pause_again(lane.pause, str(problem), self._context.clock.now_ms(), self._rule)
        self.handle(lane, LifecycleEvent(EventKind.BROKE, pause))

    def guard(self, lane: Lane, step: Callable[[Lane], object]) -> None:
        """Run one operation of a lane. An exception pauses only this lane."""
        try:
            step(lane)
        except Exception as error:  # noqa: BLE001 - only this lane is affected
            self.set_aside(lane, error)

    def later(self, lane: Lane, seconds: float, step: Callable[[Lane], object]) -> None:
        """Run an operation of the lane after a delay, unless the lane restarts before."""
        generation = lane.generation

        def run_if_valid() -> None:
            if lane.generation == generation:
                self.guard(lane, step)

        self._context.loop.call_later(seconds, run_if_valid)

    def spawn(self, lane: Lane, steps: Coroutine[Any, Any, None]) -> None:
        """Run asynchronous operations of the lane in the background; see `run`."""
        self._context.loop.spawn(self.run(lane, lane.generation, steps))

    async def run(self, lane: Lane, generation: int, steps: Coroutine[Any, Any, None]) -> None:
        """Run asynchronous operations of a lane that belong to one `generation`. They end when the lane
        restarts. A failure pauses only this lane. A failure in an earlier generation has no effect."""
        try:
            await RunWhile(lambda: lane.generation == generation, steps)
        except Exception as error:  # noqa: BLE001 - only this lane is affected
            if lane.generation == generation:
                self.set_aside(lane, error)
            else:
                known = isinstance(error, HeadraceError)
                log, trace = (_log.debug, None) if known else (_log.error, error)
                log("outdated step failed", **lane.key.log_fields, reason=str(error), exc_info=trace)

    def pause(self, lane: Lane, error: HeadraceError, *, drain: bool = False, lasting: bool = False) -> None:
        """Pause the lane. `drain`: send the queued batches first. `lasting`: do not retry automatically."""
        now_ms, silent = self._context.clock.now_ms(), self._context.silent_clusters(self._context.loop.now())
        cause = cause_of(error, lane.spec, silent)
        rule = self._created_soon if cause is PauseCause.NO_TOPIC else self._rule
        rule = self._soon if error.retriable else rule
        counts = not error.retriable
        pause = pause_again(lane.pause, str(error), now_ms, rule, lasting=lasting, counts=counts, cause=cause)
        pause = replace(pause, offset=lane.read.position if drain else lane.checkpoint)
        self.handle(lane, LifecycleEvent(EventKind.FAILED_AHEAD if drain else EventKind.FAILED, pause))

    def restart(self, lane: Lane, why: str) -> None:
        """Restart the lane from its checkpoint."""
        if lane.state not in (LaneState.STOPPED, LaneState.PAUSED):
            _log.debug("lane restarts", **lane.key.log_fields, reason=why)
            self.handle(lane, LifecycleEvent(EventKind.INVALIDATED))

    def give_way(self, lane: Lane) -> None:
        """Drop the lane's unsent batches to free memory for other lanes. They are read again later."""
        end = lane.read.position
        self._delivery.shed(lane)
        if lane.reader is not None:
            lane.reader.exclude(lane)
        if lane.read.position < end and lane.intent in (Intent.FINISH, Intent.PAUSE_WHEN_DRAINED):
            self.restart(lane, "unsent batches were released")

    def stop(self, lane: Lane) -> None:
        """Stop fetching for the lane, finish its batches in flight, and store its checkpoint."""
        self.handle(lane, LifecycleEvent(EventKind.STOP_ASKED))

    def read_on(self, lane: Lane) -> None:
        """Start to fetch from the position of a copying lane, or finish a lane that is at its end offset."""
        if not lane.may_read:
            return
        end = lane.spec.end_offset
        if end is not None and lane.read.position >= end:
            self.finish(lane)
        else:
            self._lanes.source(lane).attach(lane)

    def finish(self, lane: Lane) -> None:
        """Finish a lane that has reached its end offset. The lane stops when all batches are acknowledged."""
        self.note_headway(lane)
        self.handle(lane, LifecycleEvent(EventKind.READ_ALL))

    def settle(self, lane: Lane) -> None:
        """Perform the pending transition (stop, pause or restart) if no batch is in flight."""
        if lane.intent is not None and not lane.queue.in_flight:
            self.handle(lane, LifecycleEvent(EventKind.SETTLING, in_hand=lane.in_hand))

    def note_headway(self, lane: Lane) -> None:
        """Clear the pause of a lane that copies records again."""
        if lane.pause is not None and lane.intent is None:
            self.handle(lane, LifecycleEvent(EventKind.HEADWAY))

    def probe(self, now: float) -> None:
        """Restart the paused lanes whose next retry is due at `now` (monotonic seconds)."""
        while self._probes and self._probes[0][0] <= now:
            _, _, lane, generation = heapq.heappop(self._probes)
            self.handle(lane, LifecycleEvent(EventKind.DUE, generation=generation))

    def wake(self, cluster: ClusterRef, since_ms: int) -> list[Lane]:
        """Restart the lanes paused by an outage of the cluster since `since_ms`, and return them."""
        woken = [
            lane
            for lane in self._lanes.by_key.values()
            if lane.state is LaneState.PAUSED
            and cluster in (lane.spec.source, lane.spec.destination)
            and lane.pause is not None
            and lane.pause.is_woken(since_ms)
        ]
        for lane in woken:
            self.handle(lane, LifecycleEvent(EventKind.DUE))
        return woken

    def reload(self, lane: Lane, why: str) -> None:
        """Restart the lane from the progress stored at the destination."""
        if not lane.is_broken:
            self._unsaved.discard(lane)
        self.restart(lane, why)


def _unexpected(lane: Lane, error: Exception) -> HeadraceError:
    problem = Unexpected(
        f"unexpected error: {type(error).__name__}: {error}"[:_LONGEST_REASON],
        advice="see the traceback in the log and report it",
    )
    if lane.pause is None or problem.message not in lane.pause.reason:
        _log.error("lane operation failed", **lane.key.log_fields, exc_info=error)
    return problem

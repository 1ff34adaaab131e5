"""Changes of state of lanes: pause, try again, begin anew, stop. One place, so that they cannot cross.

Buffers that a request still reads from must not be let go. So every change is an intent first, and is
carried out by `settle` when nothing of the lane is outstanding.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from mirror.errors import Fenced, HeadraceError, Unexpected
from mirror.lane.lane import LaneState
from mirror.lane.pausing import ProbeRule, pause_again
from mirror.lane.progress import LaneProgress
from mirror.model.identifiers import ClusterRef
from mirror.ports import LaneEvent, LaneKey, LanePaused, LaneResumed
from mirror.replication.channels.fetcher import Fetcher
from mirror.replication.channels.sender import Sender
from mirror.replication.context import EngineContext
from mirror.replication.live_lane import Intent, LiveLane
from mirror.replication.reports.lane_reports import LaneReport, report_of

_log = logging.getLogger(__name__)
_MOST_GAPS: Final = 20
_LONGEST_REASON: Final = 1000
_FAILURE_SECONDS: Final = 3.0
_SOON_SECONDS: Final = 0.5
"""Until the next try when a cluster could not be reached."""


@dataclass(slots=True)
class Failure:
    """What has failed in a lane since `since`; it counts as over after `until`, in monotonic seconds."""

    sentence: str
    since: float
    until: float


class Steering:
    """Holds the lanes and what is to happen to them."""

    def __init__(self, bench: EngineContext) -> None:
        self.bench = bench
        self.lanes: dict[LaneKey, LiveLane] = {}
        self.events: list[LaneEvent] = []
        self.to_start: dict[LiveLane, None] = {}
        self.stopping: dict[LiveLane, None] = {}
        """Drained; they are gone when their checkpoint is durable."""
        self.final: list[LaneReport] = []
        """Lanes that have stopped, when reports of them are wanted."""
        self.dirty: dict[LiveLane, None] = {}
        """Have something new to store."""
        self.moved: dict[LiveLane, int] = {}
        """Positions that are durable and that the lanes' consumer groups do not show yet."""
        self.failing: dict[LiveLane, Failure] = {}
        """What is tried again and again; see `stalls`."""
        self.sources: dict[ClusterRef, Fetcher] = {}
        self.sinks: dict[ClusterRef, Sender] = {}
        self.on_abandoned: Callable[[LiveLane], None] = lambda _lane: None
        """Told when a lane lets go of a transaction that is not committed."""
        self.on_drained: Callable[[LiveLane], None] = lambda _lane: None
        """Told when a lane has to commit before its intent can be carried out."""
        self.on_fenced: Callable[[LiveLane, Fenced], None] = self.pause_for_good
        """Told when a broker says that another owner has the lane."""
        self._rule = ProbeRule(bench.settings.probe_first_seconds, bench.settings.probe_longest_seconds)
        self._soon = ProbeRule(_SOON_SECONDS, _SOON_SECONDS)
        self._probes: list[tuple[int, int, LiveLane, int]] = []
        self._numbers = count()

    def source(self, lane: LiveLane) -> Fetcher:
        """Where the lane reads."""
        return self.sources[lane.spec.source]

    def sink(self, lane: LiveLane) -> Sender:
        """Where the lane writes."""
        return self.sinks[lane.spec.destination]

    def set_aside(self, lane: LiveLane, error: Exception, turn: int | None = None) -> None:
        """A step of the lane has failed: pause it with the reason and free what it holds, whatever failed.
        `turn`: of the lane when the step began; a step that no longer counts pauses nothing."""
        if turn is not None and lane.turn != turn:
            _log.debug("lane %s: a step that no longer counts has failed: %s", lane.key.partition, error)
            return
        if isinstance(error, HeadraceError):
            self.pause(lane, error, lasting=isinstance(error, Fenced))
            return
        problem = Unexpected(
            f"unexpected: {type(error).__name__}: {error}"[:_LONGEST_REASON],
            advice="the log has the traceback; report it",
        )
        if lane.pause is None or problem.message not in lane.pause.reason:
            _log.error("lane %s: a step failed", lane.key.partition, exc_info=error)
        lane.is_broken = True
        is_stopping = lane.intent is Intent.STOP
        try:
            lane.recount()
            self.pause(lane, problem)
        except Exception as worse:  # noqa: BLE001 - not even pausing works; the other lanes continue
            _log.error("lane %s: cannot be paused", lane.key.partition, exc_info=worse)
            self._force_pause(lane, problem, is_stopping=is_stopping)

    def _force_pause(self, lane: LiveLane, problem: HeadraceError, *, is_stopping: bool) -> None:
        """Pause a lane whose own steps for that fail, whatever state it is in."""
        lane.turn += 1
        for step in (self._detach_reader, self._detach_writer, LiveLane.free_all):
            try:
                step(lane)
            except Exception as error:  # noqa: BLE001
                _log.error("lane %s: letting go fails", lane.key.partition, exc_info=error)
        lane.intent, lane.identity, lane.needs_fence = None, None, True
        lane.is_broken = lane.is_loaded = False
        lane.pause = pause_again(lane.pause, str(problem), self.bench.clock.now_ms(), self._rule)
        if is_stopping:
            lane.intent, lane.state = Intent.STOP, LaneState.DRAINING
            self.stopping[lane] = None
            return
        lane.state = LaneState.PAUSED
        self.events.append(LanePaused(lane.key, lane.pause.reason))
        heapq.heappush(self._probes, (lane.pause.probe_at_ms, next(self._numbers), lane, lane.turn))

    def guard(self, lane: LiveLane, step: Callable[[LiveLane], object]) -> None:
        """Do one step of one lane; a failure sets this lane aside and no other."""
        try:
            step(lane)
        except Exception as error:  # noqa: BLE001 - it concerns one lane
            self.set_aside(lane, error)

    def later(self, lane: LiveLane, seconds: float, step: Callable[[LiveLane], object]) -> None:
        """Do a step of the lane after some time, unless it has begun anew by then."""
        turn = lane.turn
        self.bench.loop.call_later(seconds, lambda: self._if_valid(lane, turn, step))

    def _if_valid(self, lane: LiveLane, turn: int, step: Callable[[LiveLane], object]) -> None:
        if lane.turn == turn:
            self.guard(lane, step)

    def spawn(self, lane: LiveLane, steps: Coroutine[Any, Any, None]) -> None:
        """Run steps of the lane that wait for something; a failure sets this lane aside and no other."""
        self.bench.loop.spawn(self._run(lane, lane.turn, steps))

    async def _run(self, lane: LiveLane, turn: int, steps: Coroutine[Any, Any, None]) -> None:
        try:
            await steps
        except Exception as error:  # noqa: BLE001 - it concerns one lane
            self.set_aside(lane, error, turn)

    def pause(
        self, lane: LiveLane, error: HeadraceError, *, drain: bool = False, lasting: bool = False
    ) -> None:
        """The lane cannot go on now. `drain`: first send what is in hand. `lasting`: do not try again."""
        if lane.state in (LaneState.STOPPED, LaneState.PAUSED):
            return
        now_ms = self.bench.clock.now_ms()
        reason = f"{error} (source offset {lane.position if drain else lane.checkpoint})"
        fresh = lane.pause is None or lane.pause.reason != reason
        rule = self._soon if error.retriable else self._rule
        lane.pause = pause_again(
            lane.pause, reason, now_ms, rule, lasting=lasting, counts=not error.retriable
        )
        self._detach_reader(lane)
        if fresh:
            _log.warning("lane %s pauses: %s", lane.key.partition, reason)
            self.events.append(LanePaused(lane.key, reason))
        if lane.intent is not Intent.STOP:
            lane.intent = Intent.PAUSE_WHEN_DRAINED if drain else Intent.PAUSE
        self.settle(lane)

    def pause_for_good(self, lane: LiveLane, error: Fenced) -> None:
        """Another owner has the lane."""
        self.pause(lane, error, lasting=True)

    def restart(self, lane: LiveLane, why: str) -> None:
        """Begin anew from the checkpoint."""
        if lane.state in (LaneState.STOPPED, LaneState.PAUSED):
            return
        _log.info("lane %s begins anew: %s", lane.key.partition, why)
        self._detach_reader(lane)
        if lane.intent is not Intent.STOP:
            lane.intent = Intent.RESTART
        self.settle(lane)

    def stop(self, lane: LiveLane) -> None:
        """Read no more, finish what is under way, checkpoint."""
        if lane.state is LaneState.STOPPED or lane.intent is Intent.STOP:
            return
        was_idle = lane.state in (LaneState.PAUSED, LaneState.STARTING)
        self.to_start.pop(lane, None)
        self._detach_reader(lane)
        lane.intent = Intent.STOP
        lane.shed()
        if was_idle:
            self._stopped(lane)
        else:
            lane.state = LaneState.DRAINING
            self.settle(lane)

    def read_on(self, lane: LiveLane) -> None:
        """Read from the lane's position on, or finish when there is nothing more that it shall read."""
        end = lane.spec.end_offset
        if end is not None and lane.position >= end:
            self.finish(lane)
        else:
            self.source(lane).attach(lane)

    def finish(self, lane: LiveLane) -> None:
        """The lane has read all that it shall; it stops when that is sent."""
        self.source(lane).detach(lane)
        self.note_headway(lane)
        lane.intent = lane.intent or Intent.FINISH
        lane.state = LaneState.DRAINING
        self.settle(lane)

    def settle(self, lane: LiveLane) -> None:
        """Carry out the intent if nothing is outstanding."""
        intent = lane.intent
        if intent is None or lane.in_flight:
            return
        if intent is Intent.STOP and (lane.is_fenced or lane.is_broken or lane.has_failed_transaction):
            self.give_up(lane)
        elif self._has_to_commit(lane):
            self.on_drained(lane)
        elif intent in (Intent.FINISH, Intent.STOP):
            if lane.is_drained:
                self._stopped(lane)
            elif intent is Intent.STOP and lane.trouble is not None:
                self.give_up(lane)
        elif intent is Intent.PAUSE_WHEN_DRAINED:
            if lane.is_drained or lane.trouble is not None:
                self._paused(lane)
        elif intent is Intent.PAUSE:
            self._paused(lane)
        else:
            self._let_go(lane)
            lane.state = LaneState.STARTING
            self.to_start[lane] = None

    def _has_to_commit(self, lane: LiveLane) -> bool:
        if lane.intent is Intent.RESTART or lane.is_broken or lane.has_failed_transaction:
            return False
        return lane.is_drained and lane.is_in_transaction

    def give_up(self, lane: LiveLane) -> None:
        """Stop without what is in hand. Nothing is outstanding."""
        self._let_go(lane)
        self._stopped(lane)

    def note_failure(
        self, lane: LiveLane, sentence: str, seconds: float = _FAILURE_SECONDS, since: float | None = None
    ) -> None:
        """Something has failed and is tried again, with an answer within `seconds`. `since`: when it was
        begun, in monotonic seconds; now by default."""
        now = self.bench.loop.now()
        known = self.failing.get(lane)
        if known is None or now > known.until:
            self.failing[lane] = Failure(sentence, now if since is None else since, now + seconds)
        else:
            known.sentence, known.until = sentence, now + seconds

    def note_headway(self, lane: LiveLane) -> None:
        """The lane copies (again)."""
        lane.retries = 0
        if lane.pause is not None and lane.intent is None:
            lane.pause = None
            lane.dirty = True
            self.dirty[lane] = None
            self.events.append(LaneResumed(lane.key))

    def probe(self, now_ms: int) -> None:
        """Let those paused lanes try again whose time has come."""
        while self._probes and self._probes[0][0] <= now_ms:
            _, _, lane, turn = heapq.heappop(self._probes)
            if lane.turn == turn and lane.state is LaneState.PAUSED:
                self._try_again(lane)

    def wake(self, cluster: ClusterRef, since_ms: int) -> list[LiveLane]:
        """The cluster is back from an outage that began then: let the lanes try again that have paused since.
        Returns those."""
        woken = [
            lane
            for lane in self.lanes.values()
            if lane.state is LaneState.PAUSED
            and cluster in (lane.spec.source, lane.spec.destination)
            and lane.pause is not None
            and lane.pause.is_woken(since_ms)
        ]
        for lane in woken:
            self._try_again(lane)
        return woken

    def _try_again(self, lane: LiveLane) -> None:
        lane.state = LaneState.STARTING
        self.to_start[lane] = None

    def is_foreign(self, lane: LiveLane, stored: LaneProgress | None) -> bool:
        """Whether another engine has stored this since the lane was loaded."""
        if stored is None or stored.version is None or stored.version == lane.stored:
            return False
        return stored.version[0] != self.bench.token

    def reload(self, lane: LiveLane, why: str) -> None:
        """Begin anew from what is stored now."""
        lane.is_loaded = False
        self.dirty.pop(lane, None)
        self.restart(lane, why)

    def mark_dirty(self, lane: LiveLane) -> None:
        """The lane has news for its progress record."""
        if lane.dirty:
            self.dirty[lane] = None
            if len(lane.gaps) > _MOST_GAPS:
                del lane.gaps[:-_MOST_GAPS]

    def note_moved(self, lane: LiveLane, position: int) -> None:
        """The lane's position is durable; its consumer group, if it has one, shall show it. Never more than
        that: whoever goes on from the group must not miss what was not stored or committed."""
        if lane.spec.consumer_group:
            self.moved[lane] = position

    def forget(self, lane: LiveLane) -> None:
        """The lane is over."""
        lane.state = LaneState.STOPPED
        lane.turn += 1
        self.dirty.pop(lane, None)
        self.stopping.pop(lane, None)
        self.to_start.pop(lane, None)
        self.failing.pop(lane, None)
        self.lanes.pop(lane.key, None)
        self.bench.release_progress(lane.spec.destination, lane.key)
        if self.bench.identity.keeps_reports:
            self.final.append(report_of(lane, self.bench.loop.now()))

    def _detach_reader(self, lane: LiveLane) -> None:
        source = self.sources.get(lane.spec.source)
        if source is not None:  # a lane may fail before its clusters can be opened
            source.detach(lane)

    def _detach_writer(self, lane: LiveLane) -> None:
        sink = self.sinks.get(lane.spec.destination)
        if sink is not None:
            sink.detach(lane)

    def _paused(self, lane: LiveLane) -> None:
        self._let_go(lane)
        lane.state = LaneState.PAUSED
        lane.dirty = True
        self.mark_dirty(lane)
        pause = lane.pause
        assert pause is not None, "a lane pauses with a reason"
        if not pause.lasting:
            heapq.heappush(self._probes, (pause.probe_at_ms, next(self._numbers), lane, lane.turn))

    def _stopped(self, lane: LiveLane) -> None:
        lane.turn += 1
        lane.intent = Intent.STOP  # whether it had finished or not: nothing may change its mind
        self._detach_writer(lane)
        lane.state = LaneState.DRAINING
        self.stopping[lane] = None

    def _let_go(self, lane: LiveLane) -> None:
        lane.turn += 1
        lane.intent = None
        self._detach_writer(lane)
        if lane.is_ambiguous:
            lane.needs_fence = True
            lane.identity = None
        lane.drop()
        if lane.is_in_transaction:
            self.on_abandoned(lane)
        if lane.is_broken:
            lane.is_broken = lane.is_loaded = False
            lane.needs_fence = True
            lane.identity = None

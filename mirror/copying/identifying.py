"""Making a lane ready to write: its producer id, fencing, the comparison after a crash.

Done when the lane has its first batch to send, so that idle partitions cost the brokers nothing. What
has to be true before the first batch of an owner goes out:
1. the stored progress says that somebody writes (`clean` is false), so that the next owner will look;
2. former owners that may still have a batch under way are fenced;
3. what they have written behind the checkpoint is known (effectively-once) or undone (exactly-once).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from mirror.copying.cluster import Cluster
from mirror.copying.identity import fence, take_identity
from mirror.copying.live_lane import LiveLane, TransactionState, identity_name
from mirror.copying.slots import Slots
from mirror.copying.steering import Steering
from mirror.copying.tail import compare_tail
from mirror.errors import HeadraceError, Unreachable
from mirror.lane.lane import LaneState
from mirror.lane.progress import entries_of
from mirror.model.policy import Guarantee
from mirror.wire.batch import ProducerStamp
from mirror.wire.control.offsets import LATEST

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 64
_COMPARISONS: Final = 8
"""Each holds some MiB of both sides, outside of the budget."""


class Identifying:
    """Gives lanes their identity, a limited number at a time."""

    def __init__(self, steering: Steering) -> None:
        self._steering = steering
        self._bench = steering.bench
        self._waiting: list[tuple[LiveLane, int]] = []
        self._running = 0
        self._comparing = Slots(_COMPARISONS)
        self.on_ready: Callable[[LiveLane], None] = lambda _lane: None

    def identify(self, lane: LiveLane) -> None:
        """See to it that the lane gets an identity; it sends as soon as it has one."""
        if lane.identity is None and not lane.is_identifying and lane.may_drain:
            lane.is_identifying = True
            self._waiting.append((lane, lane.turn))
            self._pump()

    def _pump(self) -> None:
        while self._waiting and self._running < _AT_ONCE:
            lane, turn = self._waiting.pop(0)
            self._running += 1
            self._bench.loop.spawn(self._run(lane, turn))

    async def _run(self, lane: LiveLane, turn: int) -> None:
        try:
            await self._make_ready(lane, turn)
        except HeadraceError as error:
            if lane.turn == turn:
                self._steering.pause(lane, error)
        finally:
            lane.is_identifying = False
            self._running -= 1
            if lane.queue:
                self.identify(lane)  # it has begun anew meanwhile, and what it has read waits for this
            self._pump()

    async def _make_ready(self, lane: LiveLane, turn: int) -> None:
        target = self._steering.sink(lane).cluster
        name = identity_name(lane.key)
        patience = self._bench.settings.transaction_timeout_seconds
        guarantee = lane.spec.policy.guarantee
        transactional = guarantee is Guarantee.EXACTLY_ONCE
        stamp = await take_identity(target, name, patience, transactional=transactional)
        if lane.turn != turn:
            return
        if transactional:
            if not await self._is_at_committed_progress(lane, turn):
                return
            lane.transaction = TransactionState()
            lane.target_next = None
            lane.is_held = True
        elif guarantee is Guarantee.EFFECTIVELY_ONCE:
            await self._look_behind(lane, turn, target, stamp)
        if lane.turn == turn:
            lane.needs_fence = False
            lane.identify(stamp)
            self.on_ready(lane)

    async def _look_behind(self, lane: LiveLane, turn: int, target: Cluster, stamp: ProducerStamp) -> None:
        if lane.needs_fence:
            await fence(target, identity_name(lane.key), stamp, lane.target)
        end = await self._end(target, lane)
        if lane.turn != turn:
            return
        # The fence's marker is written in the broker's own time: one offset more may be a record as well.
        if lane.needs_fence and lane.target_next is not None and end > lane.target_next:
            await self._compare(lane, turn, target, end)
        if lane.turn != turn:
            return
        lane.target_next = end
        if lane.is_clean:
            await self._mark_as_written_to(lane)

    async def _compare(self, lane: LiveLane, turn: int, target: Cluster, end: int) -> None:
        lane.state = LaneState.RECOVERING
        self._steering.source(lane).detach(lane)
        lane.drop()
        async with self._comparing.one():
            if lane.turn != turn:
                return
            found = await compare_tail(self._steering.source(lane).cluster, target, lane, end)
        if lane.turn != turn:
            return
        lane.find(found, end)
        self._steering.mark_dirty(lane)
        _log.info(
            "lane %s: %d offsets were at the destination already, going on at %d",
            lane.key.partition,
            sum(stretch.length for stretch in found),
            lane.position,
        )
        lane.state = LaneState.COPYING
        if lane.intent is None:
            self._steering.read_on(lane)
        else:
            self._steering.settle(lane)  # nothing is in hand any more, and no answer comes that would do it

    async def _end(self, target: Cluster, lane: LiveLane) -> int:
        answer = (await target.offsets({lane.target: LATEST}))[lane.target]
        if answer.error:
            raise Unreachable(f"the end of {lane.target} at {target.name} is not known now")
        return answer.offset

    async def _mark_as_written_to(self, lane: LiveLane) -> None:
        now_ms = self._bench.clock.now_ms()
        entries, sealed = entries_of(lane.key, lane.progress(), now_ms)
        await self._bench.progress(lane.spec.destination).save(entries, now_ms)
        lane.offset_map.sealed = max(lane.offset_map.sealed, sealed)
        lane.is_clean = False

    async def _is_at_committed_progress(self, lane: LiveLane, turn: int) -> bool:
        """With the id taken, what the former owner has committed is final; go back to it if need be."""
        log = self._bench.progress(lane.spec.destination)
        progress = (await log.load([lane.key]))[lane.key]
        if lane.turn != turn or progress is None or progress.next_offset == lane.checkpoint:
            return lane.turn == turn
        lane.is_loaded = False
        self._steering.restart(lane, f"committed progress is at {progress.next_offset}")
        return False

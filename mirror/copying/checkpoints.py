"""Storing progress: every few seconds for what has moved, at once for lanes that stop.

Nothing is flushed for it: what a lane stores is what has been acknowledged so far, without a gap. Lanes in
transactions store with their commits (`committing.py`), only their clean end is written here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from mirror.copying.live_lane import LiveLane
from mirror.copying.steering import Steering
from mirror.errors import HeadraceError
from mirror.lane.lane import LaneState
from mirror.lane.progress import Entry, entries_of, forgotten_chunks
from mirror.model.identifiers import ClusterRef
from mirror.model.policy import Guarantee
from mirror.model.topics import TopicPartition
from mirror.ports import LaneStopped
from mirror.wire import fetch
from mirror.wire.control.cluster import GROUP
from mirror.wire.control.offsets import commit_offsets

_log = logging.getLogger(__name__)
_GROUP_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 10.0


class Checkpoints:
    """Writes progress records and commits the positions to consumer groups of the source."""

    def __init__(self, steering: Steering) -> None:
        self._steering = steering
        self._bench = steering.bench
        self._interval = steering.bench.identity.checkpoint_interval_seconds
        self._next = steering.bench.loop.now() + self._interval
        self._next_groups = self._next
        self._is_saving = False
        self._told, self._retry = "", _RETRY_SECONDS

    def pump(self, now: float) -> None:
        """Begin to store if it is time, or if lanes wait for it to stop."""
        if self._is_saving or not (self._steering.stopping or now >= self._next):
            return
        self._next = now + self._interval
        stopping = list(self._steering.stopping)
        dirty = [lane for lane in self._steering.dirty if not is_transactional(lane) and lane.is_loaded]
        lanes = dict.fromkeys([*dirty, *stopping])
        for lane in dirty:
            del self._steering.dirty[lane]
            lane.dirty = False
        if lanes:
            self._is_saving = True
            self._bench.loop.spawn(self._save(list(lanes), stopping))
        if now >= self._next_groups:
            self._next_groups = now + _GROUP_SECONDS
            self._bench.loop.spawn(self.commit_groups())

    async def _save(self, lanes: Sequence[LiveLane], stopping: Sequence[LiveLane]) -> None:
        try:
            await self._check_topics(lanes)
            await self._bench.loop.together(
                self._save_to(destination, [lane for lane in lanes if lane.spec.destination == destination])
                for destination in {lane.spec.destination for lane in lanes}
            )
        except HeadraceError as error:
            self._put_off(lanes, str(error))
            if stopping:
                await self._bench.loop.sleep(_RETRY_SECONDS)
        else:
            self._told, self._retry = "", _RETRY_SECONDS
            for lane in stopping:
                self._steering.forget(lane)
                started = lane.is_loaded and lane.position >= 0
                self._steering.events.append(LaneStopped(lane.key, lane.checkpoint if started else None))
        finally:
            self._is_saving = False

    def _put_off(self, lanes: Sequence[LiveLane], reason: str) -> None:
        if reason != self._told:
            _log.warning("progress cannot be stored now: %s", reason)
            self._told = reason
        for lane in lanes:
            lane.dirty = True
            self._steering.mark_dirty(lane)
        self._next = self._bench.loop.now() + self._retry
        self._retry = min(self._retry * 2, _LONGEST_RETRY_SECONDS)

    async def _save_to(self, destination: ClusterRef, lanes: Iterable[LiveLane]) -> None:
        now_ms = self._bench.clock.now_ms()
        entries: list[Entry] = []
        written: list[tuple[LiveLane, int, int]] = []
        for lane in lanes:
            if not lane.is_loaded or lane.position < 0:
                continue
            clean = lane in self._steering.stopping and not lane.is_ambiguous and not lane.needs_fence
            before = lane.offset_map.first_index
            lane.offset_map.prune(lane.log_start)
            entries += forgotten_chunks(lane.key, before, lane.offset_map.first_index)
            mine, upto = entries_of(lane.key, lane.progress(clean=clean or lane.is_clean), now_ms)
            entries += mine
            written.append((lane, upto, lane.checkpoint))
        await self._bench.progress(destination).save(entries, now_ms)
        for lane, upto, position in written:
            lane.offset_map.sealed = max(lane.offset_map.sealed, upto)
            self._steering.note_moved(lane, position)

    async def _check_topics(self, lanes: Sequence[LiveLane]) -> None:
        """Where topics go by name, a topic that was created anew is only seen by looking for it; nothing
        of it may be counted as the old one's."""
        for source in {lane.spec.source for lane in lanes}:
            mine = [lane for lane in lanes if lane.spec.source == source and lane.state is LaneState.COPYING]
            cluster = self._bench.cluster(source)
            if not mine or cluster.newest(fetch.API) >= fetch.BY_ID_FROM:
                continue
            await cluster.refresh({lane.key.partition.topic for lane in mine})
            for lane in mine:
                identity = cluster.topic_id(lane.key.partition.topic)
                if lane.source.topic_id and identity != lane.source.topic_id:
                    self._steering.restart(lane, "the source topic was deleted or created again")

    async def commit_groups(self) -> None:
        """Show the positions to ordinary tools. Nothing depends on it, so a failure is only logged."""
        moved, self._steering.moved = self._steering.moved, {}
        by_group: dict[tuple[ClusterRef, str], dict[TopicPartition, int]] = {}
        for lane, position in moved.items():
            offsets = by_group.setdefault((lane.spec.source, lane.spec.consumer_group), {})
            offsets[lane.key.partition] = position
        for (source, group), offsets in by_group.items():
            cluster = self._bench.cluster(source)
            try:
                codes = await cluster.ask_coordinator(
                    GROUP, group, commit_offsets(group, offsets), lambda found: max(found.values(), default=0)
                )
            except HeadraceError as error:
                _log.warning("the positions of group %s cannot be committed: %s", group, error)
                continue
            if any(codes.values()):
                _log.warning("the positions of group %s are refused: %s", group, set(codes.values()) - {0})


def is_transactional(lane: LiveLane) -> bool:
    """Whether the lane stores its progress in transactions."""
    return lane.spec.policy.guarantee is Guarantee.EXACTLY_ONCE

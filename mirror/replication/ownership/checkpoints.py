"""Stores checkpoints: writes the progress of lanes to the progress topic.

Progress is stored every few seconds, at the lane's own interval if it has one, and immediately when a lane
stops. Checkpoints do not wait for batches in flight: a lane stores the offset below which all records are
acknowledged. Lanes with transactions store progress in their commits (`transactions.py`); this module writes
only their clean end. Each destination has a separate schedule, so that an outage of one does not delay the
others. The same applies to sources whose topics must be checked before progress is stored.

Only the owner of a lane may store its progress. The producer epoch proves ownership to readers. A lane
without a producer id checks the stored progress before it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from mirror.errors import CorruptData, HeadraceError, RecordRejected, RecordTooLarge
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import EventKind, LaneState, LifecycleEvent
from mirror.lane.progress import Entry, main_key
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import PauseCause
from mirror.model.datastreams.policy import Guarantee
from mirror.model.identifiers import ClusterRef
from mirror.protocol import fetch
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.ownership.group_commits import GroupCommits
from mirror.replication.ownership.unproven_lanes import UnprovenLanes

_log = get_logger(__name__)
_GROUP_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 10.0

_UNACCEPTABLE: Final = (CorruptData, RecordRejected, RecordTooLarge)
"""Errors that are caused by the records of one lane."""

Saved = tuple[Lane, Callable[[], None], int]
"""A lane, the function to call after the write, and the checkpoint."""


class _Destination:
    """Schedule of progress writes to one cluster. `is_early`: the current write contains only lanes with
    their own interval. `reported`: the last reported failure. `failed`: the lanes whose last write failed
    although other writes succeeded, with the reasons."""

    def __init__(self) -> None:
        self.due = 0.0
        self.is_saving = self.is_early = False
        self.reported = ""
        self.failed: Mapping[Lane, Exception] = {}
        self.retry = _RETRY_SECONDS


class Checkpoints:
    """Writes the progress of lanes when due. `groups`: commits the positions of lanes at the source."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._unsaved = lanes.unsaved
        self._failures = lanes.failures
        self._interval = context.identity.checkpoint_interval_seconds
        self._next = self._next_groups = context.loop.now() + self._interval
        self._destinations: dict[ClusterRef, _Destination] = {}
        self._waiting: set[ClusterRef] = set()  # a write of all lanes waits for an early write
        self._unproven = UnprovenLanes(context, lanes, runner)
        self.groups = GroupCommits(context, lanes.unsaved)

    def pump(self, now: float) -> None:
        """Start the progress writes that are due, and those of lanes that are stopping."""
        urgent = {lane.spec.destination for lane in self._lanes.stopping if self._may_hurry_lane(lane)}
        if urgent or now >= self._next:
            self._store(now, urgent)
        if self._lanes.paced:
            self._store_early(now)
        if now >= self._next_groups:
            self._next_groups = now + _GROUP_SECONDS
            self._context.loop.spawn(self.groups.commit())

    def hurry(self, name: ClusterRef) -> None:
        """Retry failed progress writes soon, because an outage of the cluster is over."""
        destination = self._destinations.get(name)
        if destination is not None and destination.reported:
            destination.retry = _RETRY_SECONDS
            destination.due = 0.0
            self._next = self._context.loop.now()

    def _may_hurry(self, name: ClusterRef) -> bool:
        destination = self._destinations.get(name)
        return destination is None or not (destination.is_saving or destination.reported)

    def _may_hurry_lane(self, lane: Lane) -> bool:
        name = lane.spec.destination
        return self._may_hurry(name) and not (
            name in self._destinations and lane in self._destinations[name].failed
        )

    def _store(self, now: float, urgent: set[ClusterRef]) -> None:
        self._next = now + self._interval
        self._waiting.clear()
        lanes: dict[ClusterRef, dict[Lane, None]] = {}
        for lane in self._lanes.stopping:
            lanes.setdefault(lane.spec.destination, {})[lane] = None
        for lane in self._unsaved.dirty:
            if not is_transactional(lane) and lane.is_loaded:
                lanes.setdefault(lane.spec.destination, {})[lane] = None
        for name, mine in lanes.items():
            destination = self._destinations.setdefault(name, _Destination())
            if name in urgent or (now >= destination.due and not destination.is_saving):
                destination.due = self._next
                destination.is_saving, destination.is_early = True, False
                self._context.loop.spawn(self._save(name, destination, list(mine)))
            elif not destination.is_saving or destination.is_early:
                self._next = min(self._next, destination.due)
                if now >= destination.due:
                    self._waiting.add(name)

    def _store_early(self, now: float) -> None:
        """Start the due progress writes of lanes with their own interval. Writes of all lanes come first if
        they wait or have failed."""
        lanes: dict[ClusterRef, list[Lane]] = {}
        for lane, due in self._lanes.paced.items():
            if now >= due and lane in self._unsaved.dirty and not is_transactional(lane) and lane.is_loaded:
                lanes.setdefault(lane.spec.destination, []).append(lane)
        for name, mine in lanes.items():
            destination = self._destinations.setdefault(name, _Destination())
            if self._may_hurry(name) and name not in self._waiting:
                destination.is_saving = destination.is_early = True
                self._lanes.paced.update((lane, now + lane.spec.checkpoint_seconds) for lane in mine)
                self._context.loop.spawn(self._save(name, destination, mine))

    async def _save(self, name: ClusterRef, destination: _Destination, lanes: Sequence[Lane]) -> None:
        dirty = {lane for lane in lanes if lane in self._unsaved.dirty}
        stopping = [lane for lane in lanes if lane in self._lanes.stopping]
        failed: Mapping[Lane, Exception]
        for lane in dirty:
            self._unsaved.take_change(lane)
        try:
            checked = await self._check_topics(lanes)
            failed = await self._save_to(name, [lane for lane in checked if self._has_news(lane, dirty)])
            self._note_unsafe_topic(name, lanes)
            destination.reported, destination.retry = "", _RETRY_SECONDS
            kept = (destination.failed.keys() & self._unsaved.dirty.keys()) - set(lanes)
            destination.failed = {**{lane: destination.failed[lane] for lane in kept}, **failed}
        except Exception as error:  # noqa: BLE001 - the other destinations and the lanes continue
            if not isinstance(error, HeadraceError):
                _log.exception("cannot store progress", cluster=name)
            self._put_off(name, destination, error)
            failed = {lane: error for lane in lanes if self._has_news(lane, dirty)}
        for lane, reason in failed.items():
            self._unsaved.note_change(lane)
            sentence = f"cannot store progress: {str(reason) or type(reason).__name__}"
            seconds = max(destination.retry, self._interval) * 2
            self._failures.note(lane, PauseCause.DESTINATION_AWAY, sentence, seconds)
        for lane in [lane for lane in stopping if lane not in failed]:
            self._runner.handle(lane, LifecycleEvent(EventKind.STORED))
        destination.is_saving = False

    def _note_unsafe_topic(self, name: ClusterRef, lanes: Sequence[Lane]) -> None:
        """Report lanes whose stored progress will expire, because of the settings of the progress topic."""
        problem = self._context.progress_problem(name)
        for lane in lanes if problem is not None else ():
            self._failures.note(lane, PauseCause.OTHER, str(problem), self._interval * 2)

    def _has_news(self, lane: Lane, dirty: Set[Lane]) -> bool:
        """Return whether the lane has unsaved progress that may be stored now."""
        if not _may_be_stored(lane):
            return False
        return lane in dirty or (not lane.progress.clean and not is_transactional(lane))

    def _put_off(self, name: ClusterRef, destination: _Destination, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        if reason != destination.reported:
            _log.warning("cannot store progress", cluster=name, reason=reason)
            destination.reported = reason
        destination.due = self._context.loop.now() + destination.retry
        self._next = min(self._next, destination.due)
        destination.retry = min(destination.retry * 2, _LONGEST_RETRY_SECONDS)

    async def _save_to(self, name: ClusterRef, lanes: Sequence[Lane]) -> dict[Lane, Exception]:
        """Write the progress of these lanes. Return the lanes whose progress was not stored although other
        partitions of the progress topic work. Raises the error of an outage."""
        failed: dict[Lane, Exception] = {}
        unproven = {lane for lane in lanes if not lane.ownership.has_owned or is_transactional(lane)}
        if unproven:
            foreign, unreadable = await self._unproven.check(name, unproven)
            failed.update(unreadable)
            lanes = [lane for lane in lanes if lane not in foreign and lane not in unreadable]
        now_ms = self._context.clock.now_ms()
        entries: list[Entry] = []
        written: list[Saved] = []
        for lane in filter(_may_be_stored, lanes):  # the source log may have changed
            try:
                entries += self._entries(lane, now_ms, written)
            except Exception as error:  # noqa: BLE001 - the progress of the other lanes is stored
                self._runner.set_aside(lane, error)
        errors = await self._context.progress(name).save_each(entries, now_ms)
        if errors:
            written, unwritten = self._divide(name, written, errors)
            failed.update(await self._save_rest(name, unwritten))
        for lane, note_stored, position in written:
            note_stored()
            self._unsaved.note_moved(lane, position)
        return failed

    def _entries(self, lane: Lane, now_ms: int, written: list[Saved]) -> list[Entry]:
        is_owned = lane.ownership.identity is not None
        clean = lane in self._lanes.stopping and is_owned and not lane.queue.is_ambiguous
        entries, note_stored = self._unsaved.records_of(lane, now_ms, clean=clean or lane.progress.clean)
        written.append((lane, note_stored, lane.checkpoint))
        return entries

    def _divide(
        self, name: ClusterRef, written: list[Saved], errors: Mapping[int, HeadraceError]
    ) -> tuple[list[Saved], dict[Lane, HeadraceError]]:
        """Return the records that were stored, and the other lanes with the errors. Raises the error of an
        outage: if no record was stored, and a missing leader is not the reason."""
        log = self._context.progress(name)
        places = {lane: log.partition_of(main_key(lane.key)) for lane, _, _ in written}
        unwritten = {lane: errors[number] for lane, number in places.items() if number in errors}
        error = next(iter(errors.values()))
        is_outage = len(unwritten) == len(written) and not all(map(log.is_offline, errors))
        if is_outage and not isinstance(error, _UNACCEPTABLE):
            raise error
        return [saved for saved in written if saved[0] not in unwritten], unwritten

    async def _save_rest(
        self, name: ClusterRef, unwritten: Mapping[Lane, HeadraceError]
    ) -> dict[Lane, Exception]:
        """Pause the lane whose records the destination rejects. Return the lanes that failed otherwise."""
        refused = [lane for lane, error in unwritten.items() if isinstance(error, _UNACCEPTABLE)]
        failed: dict[Lane, Exception] = {
            lane: error for lane, error in unwritten.items() if lane not in refused
        }
        if len(refused) == 1:
            self._unsaved.note_change(refused[0])
            self._runner.set_aside(refused[0], unwritten[refused[0]])
        elif refused:
            for half in (refused[: len(refused) // 2], refused[len(refused) // 2 :]):
                failed.update(await self._save_to(name, half))
        return failed

    async def _check_topics(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Return the lanes whose progress may be stored because their source topic was not recreated.

        If the source identifies topics by name, only new metadata shows that a topic was recreated. Offsets
        in the new topic must not be stored as progress in the old topic.
        """
        by_source: dict[ClusterRef, list[Lane]] = {}
        for lane in lanes:
            by_source.setdefault(lane.spec.source, []).append(lane)
        found: list[list[Lane]] = await self._context.loop.together(
            self._check_source(source, mine) for source, mine in by_source.items()
        )
        return [lane for part in found for lane in part]

    async def _check_source(self, source: ClusterRef, lanes: list[Lane]) -> list[Lane]:
        copying = {lane for lane in lanes if lane.state is LaneState.COPYING}
        if not copying:  # its cluster may be impossible to open
            return lanes
        cluster = self._context.cluster(source)
        if not 0 <= cluster.newest(fetch.API) < fetch.BY_ID_FROM:
            return lanes
        try:
            await cluster.refresh({lane.key.partition.topic for lane in copying})
        except HeadraceError as error:
            _log.info("progress not stored yet", source=source, reason=str(error))
            for lane in copying:
                self._unsaved.note_change(lane)
            return [lane for lane in lanes if lane not in copying]
        for lane in copying:
            identity = cluster.topic_id(lane.key.partition.topic)
            if lane.progress.source.topic_id and identity != lane.progress.source.topic_id:
                self._runner.restart(lane, "the source topic was deleted or recreated")
        return lanes


def _may_be_stored(lane: Lane) -> bool:
    """Return whether the lane has progress that may be stored."""
    return lane.is_loaded and lane.read.position >= 0 and not lane.is_fenced and not lane.is_broken


def is_transactional(lane: Lane) -> bool:
    """Return whether the lane stores its progress within transactions."""
    return lane.spec.policy.guarantee is Guarantee.EXACTLY_ONCE

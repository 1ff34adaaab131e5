"""Finds the start positions of lanes that have no stored progress but may have been copied before.

Used for lanes that start at committed offsets of a consumer group, or at the end although they were copied
before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirror.client.cluster import Cluster
from mirror.client.producer_identity import has_identity
from mirror.errors import CorruptData, DataLossDetected, HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.parts.ownership import identity_name
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import OnLoss
from mirror.model.topics import TopicPartition
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.offsets import Answers, committed_offsets
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry


class StartPositionFinder:
    """Finds the start positions of lanes without stored progress."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._unsaved = lanes.unsaved

    async def take_over(self, starting: Callable[[], list[Lane]]) -> None:
        """Start lanes at the committed offsets of their consumer groups.

        `starting`: returns the lanes whose current start is incomplete. Committed offsets of a recreated
        topic are invalid. Lanes of an unreadable group are paused, because any other position would lose or
        repeat records.
        """
        await self._begin_at(starting, _is_due)

    async def _begin_at(self, starting: Callable[[], list[Lane]], is_due: Callable[[Lane], bool]) -> None:
        for group in dict.fromkeys(lane.spec.consumer_group for lane in starting() if is_due(lane)):
            members = [lane for lane in starting() if is_due(lane) and lane.spec.consumer_group == group]
            if not members:
                continue
            cluster, places = self._lanes.source(members[0]).cluster, [lane.key.partition for lane in members]
            try:
                answers = await _committed(cluster, group, places)
            except HeadraceError as error:
                for lane in _of_group(members, starting()):
                    self._runner.pause(lane, error)
                continue
            for lane in _of_group(members, starting()):
                self._begin(lane, answers)

    async def continue_latest(self, starting: Callable[[], list[Lane]]) -> None:
        """Prevent lanes with lost progress from starting at the end of the log, which would skip records.

        Such a lane starts at the committed offset of its own consumer group. Without a committed offset, a
        lane that was copied before is paused, unless `on-loss` is `continue`.
        """
        for lane in [lane for lane in starting() if _begins_at_end(lane) and self._may_have_progress(lane)]:
            self._runner.pause(
                lane,
                CorruptData(
                    f"progress of {lane.key.partition} may be in a corrupt batch of the progress topic",
                    advice="choose another start position, or rewrite the progress record",
                ),
            )
        await self._begin_at(starting, _has_own_group)
        lanes = [lane for lane in starting() if _begins_at_end(lane)]
        if not lanes:
            return
        cluster = self._lanes.sink(lanes[0]).cluster
        known = await cluster.loop.together(_was_copied(cluster, lane) for lane in lanes)
        answers = dict(zip(lanes, known, strict=True))
        for lane in _of_group(lanes, starting()):
            answer = answers[lane]
            if isinstance(answer, HeadraceError):
                self._runner.pause(lane, answer)
            elif answer:
                self._note_lost_progress(lane)

    def _note_lost_progress(self, lane: Lane) -> None:
        loss = DataLossDetected(
            f"{lane.key.partition} was copied before and its progress is lost: records written since would be"
            " skipped",
            advice="start from earliest, or set on-loss = continue to accept the loss",
        )
        if lane.spec.policy.on_loss is OnLoss.CONTINUE:
            self._unsaved.note_gap(lane, loss.message)
        else:
            self._runner.pause(lane, loss)

    def _may_have_progress(self, lane: Lane) -> bool:
        return self._context.progress(lane.spec.destination).is_damaged

    def _begin(self, lane: Lane, answers: Answers) -> None:
        answer = answers.get(lane.key.partition)
        if answer is None:
            return  # the group has no committed offset
        if answer.error:
            group, place = lane.spec.consumer_group, lane.key.partition
            right = f"Describe on group {group} and on topic {place.topic}"
            doing = f"cannot read the offset of group {group} for {place}"
            self._runner.pause(lane, self._lanes.source(lane).cluster.error(answer.error, doing, right))
        else:
            self._unsaved.begin(lane, answer.offset)


async def _was_copied(cluster: Cluster, lane: Lane) -> bool | HeadraceError:
    """Return whether the lane has had an owner before, or the error that the coordinator reports."""
    try:
        return await has_identity(cluster, identity_name(lane.key))
    except HeadraceError as error:
        return error


def begins_at_offset(lane: Lane) -> bool:
    """Return whether a lane without progress starts at an offset from the datastream's definition."""
    return lane.read.position < 0 and not lane.progress.life and lane.spec.start_offset is not None


def _begins_at_end(lane: Lane) -> bool:
    """Return whether a lane without progress starts at the end of its partition."""
    is_new = lane.read.position < 0 and not lane.progress.life and lane.progress.owner is None
    return is_new and lane.spec.start is StartPosition.LATEST


def _has_own_group(lane: Lane) -> bool:
    """Return whether no other lane commits to this lane's consumer group."""
    return _begins_at_end(lane) and lane.spec.consumer_group == lane.key.group


def _of_group(members: Iterable[Lane], starting: Iterable[Lane]) -> list[Lane]:
    still = set(starting)
    return [lane for lane in members if lane in still]


def _is_due(lane: Lane) -> bool:
    """Return whether the lane must still start at the committed offset of its consumer group."""
    is_asked = lane.spec.start.is_committed and bool(lane.spec.consumer_group)
    return is_asked and lane.read.position < 0 and not lane.progress.life


async def _committed(cluster: Cluster, group: str, partitions: Sequence[TopicPartition]) -> Answers:
    call = committed_offsets(group, partitions)
    found = await cluster.coordinators.ask(GROUP, group, call, lambda answer: answer.worst)
    if found.error:
        right = f"Describe on group {group} and on its topics"
        raise cluster.error(found.error, f"cannot read the offsets of group {group} on {cluster.name}", right)
    return found.offsets

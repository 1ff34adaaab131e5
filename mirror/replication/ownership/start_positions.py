"""Start positions that depend on the past: what a consumer group committed, and whether a lane that is to
begin at the end has been copied before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirror.client.cluster import Cluster
from mirror.client.producer_identity import has_identity
from mirror.errors import CorruptData, DataLossDetected, HeadraceError
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import OnLoss
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import error_of
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.offsets import Answers, committed_offsets
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.live_lane import LiveLane, identity_name


async def take_over(runner: LaneRunner, starting: Callable[[], list[LiveLane]]) -> None:
    """Let those begin that ask for their group's offsets. `starting`: the lanes that a start still concerns.

    A re-created topic has nothing to take over. A group that cannot be read pauses its lanes:
    to begin anywhere else would lose records or repeat them.
    """
    await _begin_at(runner, starting, _asks)


async def _begin_at(
    runner: LaneRunner, starting: Callable[[], list[LiveLane]], asks: Callable[[LiveLane], bool]
) -> None:
    for group in dict.fromkeys(lane.spec.consumer_group for lane in starting() if asks(lane)):
        members = [lane for lane in starting() if asks(lane) and lane.spec.consumer_group == group]
        if not members:
            continue
        cluster, places = runner.source(members[0]).cluster, [lane.key.partition for lane in members]
        try:
            answers = await _committed(cluster, group, places)
        except HeadraceError as error:
            for lane in _of(members, starting()):
                runner.pause(lane, error)
            continue
        for lane in _of(members, starting()):
            _begin(runner, lane, answers)


async def continue_latest(runner: LaneRunner, starting: Callable[[], list[LiveLane]]) -> None:
    """Keep lanes whose progress is lost from beginning at the end, which would skip records.

    They begin where their own consumer group stands, and pause where it says nothing but an owner has
    written before.
    """
    for lane in [one for one in starting() if _begins_at_end(one) and _may_have_progress(runner, one)]:
        runner.pause(
            lane,
            CorruptData(
                f"the progress of {lane.key.partition} may be in a damaged batch of the progress topic",
                advice="choose another start, or write a good record of it",
            ),
        )
    await _begin_at(runner, starting, _has_own_group)
    lanes = [lane for lane in starting() if _begins_at_end(lane)]
    if not lanes:
        return
    cluster = runner.sink(lanes[0]).cluster
    known = await cluster.loop.together(has_identity(cluster, identity_name(lane.key)) for lane in lanes)
    for lane in _of([lane for lane, is_known in zip(lanes, known, strict=True) if is_known], starting()):
        _note_lost_progress(runner, lane)


def _note_lost_progress(runner: LaneRunner, lane: LiveLane) -> None:
    loss = DataLossDetected(
        f"{lane.key.partition} was copied before and its progress is lost: what was written since would be"
        " skipped",
        advice="choose the start earliest, or continue behind the loss with on-loss = continue",
    )
    if lane.spec.policy.on_loss is OnLoss.CONTINUE:
        lane.gaps.append(loss.message)
    else:
        runner.pause(lane, loss)


def begins_at_offset(lane: LiveLane) -> bool:
    """Return whether a lane without progress begins at an offset that its datastream names."""
    return lane.position < 0 and not lane.life and lane.spec.start_offset is not None


def _begins_at_end(lane: LiveLane) -> bool:
    """Return whether a lane without progress of its own is to begin at the end of its partition."""
    is_new = lane.position < 0 and not lane.life and lane.owner is None
    return is_new and lane.spec.start is StartPosition.LATEST


def _may_have_progress(runner: LaneRunner, lane: LiveLane) -> bool:
    return runner.bench.progress(lane.spec.destination).is_damaged


def _has_own_group(lane: LiveLane) -> bool:
    """Return whether the committed position would be the lane's own, not that of a group that others use."""
    return _begins_at_end(lane) and lane.spec.consumer_group == lane.key.group


def _of(members: Iterable[LiveLane], starting: Iterable[LiveLane]) -> list[LiveLane]:
    still = set(starting)
    return [lane for lane in members if lane in still]


def _asks(lane: LiveLane) -> bool:
    """Whether it begins where its consumer group has committed."""
    is_asked = lane.spec.start.is_committed and bool(lane.spec.consumer_group)
    return is_asked and lane.position < 0 and not lane.life


def _begin(runner: LaneRunner, lane: LiveLane, answers: Answers) -> None:
    answer = answers.get(lane.key.partition)
    if answer is None:
        return  # the group has committed nothing of it
    if answer.error:
        what = f"reading what group {lane.spec.consumer_group} committed of {lane.key.partition}"
        runner.pause(lane, error_of(answer.error, what))
    else:
        lane.begin(answer.offset)
        runner.mark_dirty(lane)


async def _committed(cluster: Cluster, group: str, partitions: Sequence[TopicPartition]) -> Answers:
    call = committed_offsets(group, partitions)
    found = await cluster.ask_coordinator(GROUP, group, call, lambda answer: answer.worst)
    if found.error:
        raise error_of(found.error, f"reading what group {group} committed at {cluster.name}")
    return found.offsets

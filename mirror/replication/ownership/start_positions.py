"""Where another mirror stood: lanes that take over from it begin at what its consumer group committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import error_of
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.offsets import Answers, committed_offsets
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.live_lane import LiveLane


async def take_over(runner: LaneRunner, starting: Callable[[], list[LiveLane]]) -> None:
    """Let those begin that ask for their group's offsets. `starting`: the lanes that a start still concerns.

    A re-created topic has nothing to take over. A group that cannot be read pauses its lanes:
    to begin anywhere else would lose records or repeat them.
    """
    for group in dict.fromkeys(lane.spec.consumer_group for lane in starting() if _asks(lane)):
        members = [lane for lane in starting() if _asks(lane) and lane.spec.consumer_group == group]
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

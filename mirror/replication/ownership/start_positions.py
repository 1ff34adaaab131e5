"""Where another mirror stood: lanes that take over from it begin at what its consumer group committed."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import error_of
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.offsets import Answers, committed_offsets
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.live_lane import LiveLane


async def take_over(runner: LaneRunner, cluster: Cluster, lanes: Sequence[LiveLane]) -> list[LiveLane]:
    """Let those begin that ask for their group's offsets; returns those that have no position yet.

    A re-created topic has nothing to take over. A group that cannot be read pauses its lanes:
    to begin anywhere else would lose records or repeat them.
    """
    waiting: list[LiveLane] = []
    by_group: dict[str, list[LiveLane]] = {}
    for lane in lanes:
        if lane.position < 0 and not lane.life and lane.spec.start.is_committed and lane.spec.consumer_group:
            by_group.setdefault(lane.spec.consumer_group, []).append(lane)
        elif lane.position < 0:
            waiting.append(lane)
    for group, members in by_group.items():
        try:
            answers = await _committed(cluster, group, [lane.key.partition for lane in members])
        except HeadraceError as error:
            for lane in members:
                runner.pause(lane, error)
            continue
        waiting += [lane for lane in members if not _begin(runner, lane, answers)]
    return waiting


def _begin(runner: LaneRunner, lane: LiveLane, answers: Answers) -> bool:
    """False when the group has committed nothing of the lane's partition."""
    answer = answers.get(lane.key.partition)
    if answer is None:
        return False
    if answer.error:
        what = f"reading what group {lane.spec.consumer_group} committed of {lane.key.partition}"
        runner.pause(lane, error_of(answer.error, what))
    else:
        lane.begin(answer.offset)
        runner.mark_dirty(lane)
    return True


async def _committed(cluster: Cluster, group: str, partitions: Sequence[TopicPartition]) -> Answers:
    call = committed_offsets(group, partitions)
    found = await cluster.ask_coordinator(GROUP, group, call, lambda answer: answer.worst)
    if found.error:
        raise error_of(found.error, f"reading what group {group} committed at {cluster.name}")
    return found.offsets

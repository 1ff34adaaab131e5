"""/v1/datastreams/{name}/progress: the last stored progress of a datastream's partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.fleet.dependencies import NamePath, ReadsDep, ServicesDep, SlowCallsDep
from api.http.problems import AnswerModel, problems
from api.http.slow_calls import large_response
from api.services import Services
from mirror.coordination.reconcile import copied
from mirror.instance.backlog.partitions import UncopiedPartition, UncopiedState, paused_of
from mirror.instance.backlog.watch import UncopiedLane
from mirror.jobs.stored_lanes import StoredLanes, progress_document
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"])


class NotCopied(AnswerModel):
    """State of a partition whose records after the stored checkpoint are not copied.

    Unknown numbers are null; only the leader knows the numbers.
    """

    state: str
    """State of the partition: paused, unplaced or left out."""
    reason: str
    requested_by: str
    since_ms: int | None
    offsets: int | None
    """Number of uncopied offsets."""
    retained: int | None
    """Number of records at the source that are already copied. Retention deletes the copied records before
    uncopied records."""
    lost: int | None
    """Number of records that retention has deleted before they were copied."""

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane) -> NotCopied:
        """Return the state of an uncopied partition as a response."""
        uncopied = lane.what
        return cls(
            state=uncopied.state,
            reason=uncopied.reason,
            requested_by=uncopied.requested_by,
            since_ms=uncopied.since_ms,
            offsets=lane.lag_records,
            retained=lane.retained_records,
            lost=lane.lost_records,
        )


class StoredPartition(AnswerModel):
    """A partition and its last stored checkpoint."""

    topic: str
    partition: int
    destination_topic: str
    start_offset: int | None
    """Offset at which the ledger starts; null if no progress is stored."""
    next_offset: int | None
    """Checkpoint: every lower offset has a class; null if no progress is stored."""


class LaneProgressAnswer(StoredPartition):
    """Last stored progress of one partition; docs/data-plane/offsets.md explains the classes of `offsets`."""

    offsets: dict[str, int]
    """Number of source offsets by class; the numbers add up to `next_offset` minus `start_offset`."""
    is_balanced: bool | None
    map_runs: int
    """Number of runs of the offset map."""
    life: int
    """Number of earlier source topics with the same name."""
    paused: str
    """Reason why the partition paused itself; empty if it is not paused."""
    gaps: list[str]
    """Descriptions of losses, newest last."""
    destination_is_current: bool | None = None
    """True if the progress belongs to the current destination topic; false if the destination topic with the
    mirrored records was deleted; null if unknown."""
    not_copied: NotCopied | None = None
    """Reason why the offsets from `next_offset` on are not copied; null if they are copied."""
    offset_map: list[tuple[int, int, int]] | None = None
    """Runs of the offset map (source offset, destination offset, length), if requested."""

    @classmethod
    def without_progress(cls, partition: TopicPartition, destination_topic: str) -> LaneProgressAnswer:
        """Return the response for a partition without stored progress."""
        return cls(
            topic=partition.topic,
            partition=partition.partition,
            destination_topic=destination_topic,
            start_offset=None,
            next_offset=None,
            offsets={},
            is_balanced=None,
            map_runs=0,
            life=0,
            paused="",
            gaps=[],
        )

    @classmethod
    def from_progress(
        cls, key: LaneKey, lane_progress: LaneProgress, *, with_map: bool
    ) -> LaneProgressAnswer:
        """Return the stored progress of a partition as a response."""
        return cls(**progress_document(key, lane_progress, with_map=with_map))


def progress_of(
    datastream: Datastream, stored: StoredLanes, services: Services, *, with_map: bool
) -> list[LaneProgressAnswer]:
    """Return the stored progress of each partition that the datastream copies to its destination topics.

    The list also contains each uncopied partition known to this instance.
    """
    found: dict[TopicPartition, LaneProgressAnswer] = {}
    for key, progress in lanes_of(datastream, stored).lanes.items():
        answer = LaneProgressAnswer.from_progress(key, progress, with_map=with_map)
        answer.destination_is_current = stored.is_current(progress)
        found[key.partition] = answer
    uncopied = _uncopied(datastream, found, services)
    for partition in uncopied.keys() - found.keys():
        topic = datastream.naming.destination(partition.topic)
        found[partition] = LaneProgressAnswer.without_progress(partition, topic)
    for partition, lane in uncopied.items():
        found[partition].not_copied = NotCopied.from_uncopied(lane)
    return [found[partition] for partition in sorted(found)]


def lanes_of(datastream: Datastream, stored: StoredLanes) -> StoredLanes:
    """Return the stored lanes that copy this datastream's topics to its destination topics.

    Lanes of other datastreams that share its tasks, or of a former datastream with the same name, are
    excluded.
    """
    naming, selection = datastream.naming, datastream.selection
    lanes = {
        key: progress
        for key, progress in stored.lanes.items()
        if selection.matches(key.partition.topic)
        and progress.target_topic in ("", naming.destination(key.partition.topic))
    }
    return replace(stored, lanes=lanes)


def _uncopied(
    datastream: Datastream, found: dict[TopicPartition, LaneProgressAnswer], services: Services
) -> dict[TopicPartition, UncopiedLane]:
    """Map each partition of a datastream that is not copied to its state.

    The leader knows all uncopied partitions; other instances know only the partitions that are uncopied
    according to the definition and the plan.
    """
    if services.status.is_leading:
        mine = (lane for lane in services.status.uncopied if lane.what.datastream == datastream.name)
        return {lane.what.partition: lane for lane in mine}
    members = [other for other in services.status.datastreams if other.group == datastream.group]
    planned = copied(services.plan(), datastream.group, members)
    paused = paused_of(datastream, found.keys() - planned if datastream.status.is_halted else found)
    missing = found.keys() - planned - paused.keys() if datastream.status.is_mirrored else set()
    why, name, group = "no task", datastream.name, datastream.group
    unplaced = {
        place: UncopiedPartition(name, group, place, UncopiedState.UNPLACED, why) for place in missing
    }
    return {partition: UncopiedLane(uncopied, None) for partition, uncopied in {**paused, **unplaced}.items()}


@router.get("/{name}/progress", response_model=list[LaneProgressAnswer], responses=problems(404, 409))
async def progress(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    slow_calls: SlowCallsDep,
    response: Response,
    offset_map: Annotated[bool, Query(description="include all runs of the offset maps")] = False,
) -> Response:
    """Return the last stored checkpoints, offset classes and offset maps.

    The response covers all partitions of the datastream's group that are copied to the datastream's
    destination. Copies by a former datastream with the same name to other topics are not shown.
    """

    def read() -> list[LaneProgressAnswer]:
        datastream = reads.stored(DatastreamName(name)).datastream
        stored = services.progress(datastream.destination, datastream.group)
        return progress_of(datastream, stored, services, with_map=offset_map)

    return await slow_calls.run(lambda: large_response(read(), response))

"""/v1/datastreams/{name}/lag and …/gaps"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from fastapi.concurrency import run_in_threadpool

from api.datastreams.answers import NamePath
from api.dependencies import FleetDep, ReadsDep, ServicesDep, SlowCallsDep
from api.endpoints.partitions.ledgers import progress_of
from api.fleet.all_instances import AllInstances
from api.fleet.leader import leader_of
from api.loads.leaders import owners_of
from api.schemas.lags import DatastreamGaps, DatastreamLag, LagOrder, LagQuery, PartitionGaps, PartitionLag
from api.schemas.lanes import LaneAnswer
from api.schemas.problems import problems
from api.schemas.progress import LaneProgressAnswer
from mirror.instance.uncopied.partitions import UncopiedState
from mirror.instance.workers.lane_table import LanePhase
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"], responses=problems(404, 409))

_UNKNOWN: Final = "unknown"
LanesByInstance = Mapping[InstanceName, Sequence[LaneAnswer]]
"""Lanes reported by each instance that responded; the leader's include uncopied partitions."""


def _query(
    text: Annotated[str, Query(description="only partitions whose name contains this text")] = "",
    state: Annotated[str | None, Query(description="only partitions in this state of movement")] = None,
    instance: Annotated[str | None, Query(description="only partitions of this instance")] = None,
    sort: Annotated[LagOrder, Query(description="sort key; unknown values come first")] = LagOrder.NAME,
    descending: Annotated[bool, Query(description="largest value first")] = False,
    offset: Annotated[int, Query(ge=0, description="number of partitions to skip")] = 0,
    limit: Annotated[int | None, Query(ge=1, description="maximum number of partitions")] = None,
) -> LagQuery:
    return LagQuery(text, state, instance, sort, descending, offset, limit)


@router.get("/{name}/lag")
async def lag(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    wanted: Annotated[LagQuery, Depends(_query)],
) -> DatastreamLag:
    """Return the lag of each partition, as reported by the instances that responded; numbers of other
    instances' partitions are null. The filters select partitions; sums cover all."""
    datastream = (await run_in_threadpool(reads.stored, DatastreamName(name))).datastream
    plan, live = await run_in_threadpool(reads.plan), await run_in_threadpool(reads.live)
    replies = await AllInstances(services, fleet, live).lanes(datastream.group)
    heard = {name: one.value for name, one in replies.items() if one.value is not None}
    leader = leader_of(services, live)
    return await run_in_threadpool(lambda: lag_of(datastream, plan, heard, leader).narrowed(wanted))


def lag_of(datastream: Datastream, plan: Plan, heard: LanesByInstance, leader: InstanceName | None) -> DatastreamLag:
    """Compute the lag from the reports of instances."""
    owners = owners_of(datastream, plan)
    said = _lane_answers(datastream, heard)
    idle = {place for instance, place in said if instance is None}
    found = [_partition_lag(place, owners.get(place), said, heard) for place in sorted(owners.keys() | idle)]
    wanted = {task.instance for task in owners.values()} | {leader}
    silent = {one for one in wanted if one is not None and one not in heard}
    is_complete = leader is not None and leader in heard
    return DatastreamLag.from_partitions(
        datastream.name, datastream.status, silent, found, is_complete=is_complete
    )


_LaneAnswers = Mapping[tuple[InstanceName | None, TopicPartition], LaneAnswer]
"""Lane by instance and partition; instance None: an uncopied partition, reported by the leader."""


def _lane_answers(datastream: Datastream, heard: LanesByInstance) -> _LaneAnswers:
    return {
        (instance if lane.task is not None else None, place): lane
        for instance, lanes in heard.items()
        for lane in lanes
        if lane.datastream == datastream.group
        and datastream.selection.matches((place := TopicPartition.parse(lane.partition)).topic)
    }


def _partition_lag(
    place: TopicPartition, owner: TaskPlacement | None, said: _LaneAnswers, heard: LanesByInstance
) -> PartitionLag:
    lane = said.get((owner.instance, place)) if owner and owner.instance else None
    lane = lane or said.get((None, place))
    if lane is not None:
        return PartitionLag.from_lane(place, owner, lane)
    assert owner is not None, "only the leader reports a partition without a task"
    if owner.instance is None:
        return PartitionLag.unreported(place, owner, UncopiedState.UNPLACED, f"task {owner.task} is not running")
    if owner.instance in heard:
        return PartitionLag.unreported(place, owner, LanePhase.WAITING, "not started by its instance yet")
    return PartitionLag.unreported(place, owner, _UNKNOWN, f"instance {owner.instance} did not respond")


@router.get("/{name}/gaps")
async def gaps(name: NamePath, services: ServicesDep, slow_calls: SlowCallsDep) -> DatastreamGaps:
    """Return records that are missing at the destination and will not be copied without an operator's action:
    lost, filtered, dead-lettered, rejected, truncated, paused; as last stored. Partitions without gaps are
    omitted."""

    def read() -> DatastreamGaps:
        datastream = services.control.get(DatastreamName(name))
        stored = services.progress(datastream.destination, datastream.group)
        answers = progress_of(datastream, stored, services, with_map=False)
        found = [(one, stored.lanes.get(_key(datastream, one))) for one in answers]
        known = {TopicPartition(one.topic, one.partition) for one, lane in found if lane is not None}
        rows = [PartitionGaps.from_answer(one, lane) for one, lane in found]
        return DatastreamGaps(
            name=name,
            looked_at=len(known),
            unknown=[str(one) for one in sorted(owners_of(datastream, services.plan()).keys() - known)],
            partitions=[one for one in rows if one.is_remarkable],
        )

    return await slow_calls.run(read)


def _key(datastream: Datastream, one: LaneProgressAnswer) -> LaneKey:
    return LaneKey(datastream.group, TopicPartition(one.topic, one.partition))

"""/v1/datastreams/{name}/lag and …/gaps: lag, and records missing at the destination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ConfigDict

from api.fleet.all_instances import AllInstances, leader_of
from api.fleet.dependencies import FleetDep, NamePath, ReadsDep, ServicesDep, SlowCallsDep
from api.fleet.questions import Fleet, FleetQuery, InstanceResponse
from api.fleet.reads import Reads
from api.http.problems import AnswerModel, problems
from api.http.slow_calls import large_response
from api.resources.lanes import GROUP, LANES, LaneSummary, PartitionState, lanes_read, own_reports
from api.resources.partitions.current_loads import owners_of
from api.resources.partitions.progress import LaneProgressAnswer, NotCopied, StoredPartition, progress_of
from api.services import Services
from mirror.instance.backlog.partitions import UncopiedState
from mirror.instance.workers.lane_table import LanePhase
from mirror.lane.ledger import OffsetClass
from mirror.lane.offset_map import MapRun
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"], responses=problems(404, 409))


_LEFT_OUT: Final = (OffsetClass.FILTERED, OffsetClass.COMPACTED, OffsetClass.LOST, OffsetClass.DEAD_LETTERED)
MOST_HOLES: Final = 100


class LagOrder(StrEnum):
    """Fields by which a client can sort partitions. Partitions with an unknown value come first."""

    NAME = "name"
    LAG_RECORDS = "lag_records"
    LAG_MS = "lag_ms"
    RATE = "bytes_per_second"
    POSITION = "position"
    SOURCE_END = "source_end"
    TASK = "task"
    INSTANCE = "instance"
    STATE = "state"


class PartitionLag(PartitionState):
    """Lag of one partition. Unknown numbers are null."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    topic: str
    partition: int
    task: str | None
    """Task of the partition; null if the plan does not contain the partition."""
    instance: str | None
    """Instance that runs the task; null if no instance runs it."""
    state: str
    """State of the partition: waiting, starting, copying, paused, stopping, unplaced or left out; unknown if
    no instance has reported it."""
    reason: str
    """Reason why the partition is not copied, or why its state is unknown. For a partition that is copied:
    the quota that throttles the partition."""


class DatastreamLag(AnswerModel):
    """Lag of a datastream. A sum is null if it is unknown for a partition. `unknown`: number of partitions
    with unknown lag."""

    name: str
    status: str
    lag_records: int | None
    lag_ms: int | None
    """Lag of the partition whose oldest record has waited longest."""
    unknown: int
    silent_instances: list[str]
    """Instances that did not respond although they run partitions of the datastream or are the leader."""
    is_complete: bool
    """True if the leader responded. Only the leader knows the partitions that no task copies."""
    topics: dict[str, int]
    """Number of partitions by topic."""
    states: dict[str, int]
    """Number of partitions by state of their movement or, if that is unknown, by `state`."""
    matching: int
    """Number of partitions that match the filters."""
    partitions: list[PartitionLag]
    """Requested page of the matching partitions."""


@dataclass(frozen=True)
class LagQuery:
    """Filter, order and page of a request for a datastream's lag. `limit` None: no limit."""

    text: str = ""
    state: str | None = None
    instance: str | None = None
    sort: LagOrder = LagOrder.NAME
    descending: bool = False
    offset: int = 0
    limit: int | None = None


EVERY_PARTITION: Final = LagQuery()


class _Entry(NamedTuple):
    """A partition for which a response row is built if the requested page contains it. `lane`: report of its
    instance or of the leader; None if neither responded. `state`, `reason`: as in the row."""

    place: TopicPartition
    owner: TaskPlacement | None
    lane: LaneSummary | None
    state: str
    reason: str

    @property
    def condition(self) -> str:
        """State of the partition's movement if known, otherwise the state of its lane."""
        return self.state if self.lane is None else self.lane.condition

    def row(self) -> PartitionLag:
        """Return the response row of the partition. Numbers are unknown if no instance has reported the
        partition."""
        if self.lane is None:
            reported = dict.fromkeys(("lag_records", "lag_ms", "bytes_per_second"))
        else:
            lane = self.lane.answer()
            reported = {name: getattr(lane, name) for name in PartitionState.model_fields}
        return PartitionLag(
            topic=self.place.topic,
            partition=self.place.partition,
            task=self.owner.task if self.owner else None,
            instance=self.owner.instance if self.owner else None,
            state=self.state,
            reason=self.reason,
            **reported,
        )


_ORDERS: Final[Mapping[LagOrder, Callable[[_Entry], Any]]] = {
    LagOrder.NAME: lambda entry: entry.place,
    LagOrder.TASK: lambda entry: entry.owner.task if entry.owner else None,
    LagOrder.INSTANCE: lambda entry: entry.owner.instance if entry.owner else None,
    LagOrder.STATE: lambda entry: entry.condition,
}
"""Sort keys of partitions; other orders are fields of reported lanes."""


class PartitionGaps(StoredPartition):
    """Records of one partition that are missing at the destination, according to stored progress. They are
    not copied unless an operator acts."""

    offsets: dict[str, int]
    """Source offsets without a record at the destination: filtered, compacted, lost, dead_lettered."""
    events: list[str]
    """Losses, truncations and restarts with their offsets, newest last; the last 20."""
    holes: list[tuple[int, int]]
    """First and last source offset of the holes in the offset map, including transaction markers and aborted
    records; the last 100."""
    holes_before: int
    """Number of earlier holes in the map."""
    refused: str
    """Reason why the partition paused itself, such as a rejected record; empty if the partition has not
    paused itself."""
    destination_is_current: bool | None
    """False if the destination topic with the mirrored records was deleted; null if unknown."""
    not_copied: NotCopied | None
    """Reason why the offsets from `next_offset` on are not copied; null if they are copied."""

    @property
    def is_remarkable(self) -> bool:
        """True if the destination lacks records of the partition, or will lack records."""
        is_gone = self.destination_is_current is False
        return bool(any(self.offsets.values()) or self.events or self.refused or self.not_copied or is_gone)

    @classmethod
    def from_answer(cls, answer: LaneProgressAnswer, stored: LaneProgress | None) -> PartitionGaps:
        """Return the missing records of a partition. `stored`: stored progress from which `answer` was
        created."""
        holes = _holes(list(stored.offset_map), stored.next_offset) if stored else []
        return cls(
            topic=answer.topic,
            partition=answer.partition,
            destination_topic=answer.destination_topic,
            start_offset=answer.start_offset,
            next_offset=answer.next_offset,
            offsets={
                offset_class.name.lower(): answer.offsets.get(offset_class.name.lower(), 0)
                for offset_class in _LEFT_OUT
            }
            if stored
            else {},
            events=answer.gaps,
            holes=holes[-MOST_HOLES:],
            holes_before=max(len(holes) - MOST_HOLES, 0),
            refused=answer.paused,
            destination_is_current=answer.destination_is_current,
            not_copied=answer.not_copied,
        )


def _holes(runs: list[MapRun], end: int) -> list[tuple[int, int]]:
    """Return the source offsets (first, last) of each hole in an offset map, including one between its last
    run and `end`."""
    begins = [*(run.source for run in runs[1:]), end]
    ends = [run.source + run.length for run in runs]
    return [(first, behind - 1) for first, behind in zip(ends, begins, strict=bool(runs)) if behind > first]


class DatastreamGaps(AnswerModel):
    """Partitions with records missing at the destination. `unknown`: partitions without stored progress."""

    name: str
    looked_at: int
    """Number of partitions with stored progress."""
    unknown: list[str]
    partitions: list[PartitionGaps]


_UNKNOWN: Final = "unknown"
LanesByInstance = Mapping[InstanceName, Sequence[LaneSummary]]
"""Lanes reported by each instance that responded; the lanes of the leader include uncopied partitions."""


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


@router.get("/{name}/lag", response_model=DatastreamLag)
async def lag(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    response: Response,
    wanted: Annotated[LagQuery, Depends(_query)],
) -> Response:
    """Return the lag of each partition, as reported by the instances that responded; the numbers of
    partitions on other instances are null. The filters select partitions; the sums cover all partitions."""
    found = await lag_now(name, services, reads, fleet, wanted)
    return await run_in_threadpool(large_response, found, response)


async def lag_now(
    name: str, services: Services, reads: Reads, fleet: Fleet, wanted: LagQuery = EVERY_PARTITION
) -> DatastreamLag:
    """Query all instances, and return the lag of a datastream. Raises NotFound, Unreachable, DamagedState."""
    datastream = (await run_in_threadpool(reads.stored, DatastreamName(name))).datastream
    plan, live = await run_in_threadpool(reads.plan), await run_in_threadpool(reads.live)
    replies = await _reports(AllInstances(services, fleet, live), datastream.group)
    reported = {name: reply.value for name, reply in replies.items() if reply.value is not None}
    leader = leader_of(services, live)
    return await run_in_threadpool(lag_of, datastream, plan, reported, leader, wanted)


async def _reports(
    instances: AllInstances, group: str
) -> Mapping[InstanceName, InstanceResponse[list[LaneSummary]]]:
    """Query the lanes of a group on all instances, and return the summaries from each instance."""

    def read(value: Any) -> list[LaneSummary]:
        return [LaneSummary.from_answer(lane) for lane in lanes_read(value) if lane.datastream == group]

    query = FleetQuery(LANES, {GROUP: group})
    return await instances.ask(query, lambda: own_reports(instances.services, group), read)


def lag_of(
    datastream: Datastream,
    plan: Plan,
    lanes_by_instance: LanesByInstance,
    leader: InstanceName | None,
    wanted: LagQuery = EVERY_PARTITION,
) -> DatastreamLag:
    """Return the lag of a datastream from the reports of instances. Builds only the rows of the page."""
    owners = owners_of(datastream, plan)
    lane_answers = _lane_answers(datastream, lanes_by_instance)
    idle = {place for instance, place in lane_answers if instance is None}
    entries = [
        _entry(place, owners.get(place), lane_answers, lanes_by_instance)
        for place in sorted(owners.keys() | idle)
    ]
    asked = {task.instance for task in owners.values()} | {leader}
    silent = {instance for instance in asked if instance is not None and instance not in lanes_by_instance}
    is_complete = leader is not None and leader in lanes_by_instance
    lanes = [entry.lane for entry in entries if entry.lane is not None]
    records = [lane.lag_records for lane in lanes if lane.lag_records is not None]
    ages = [lane.lag_ms for lane in lanes if lane.lag_ms is not None]
    needed = len(entries) if entries and is_complete else -1
    selected = _selected(entries, wanted)
    last = None if wanted.limit is None else wanted.offset + wanted.limit
    return DatastreamLag(
        name=datastream.name,
        status=datastream.status,
        lag_records=sum(records) if len(records) == needed else None,
        lag_ms=max(ages) if len(ages) == needed else None,
        unknown=len(entries) - len(records),
        silent_instances=sorted(silent),
        is_complete=is_complete,
        topics=dict(sorted(Counter(entry.place.topic for entry in entries).items())),
        states=dict(Counter(entry.condition for entry in entries).most_common()),
        matching=len(selected),
        partitions=[entry.row() for entry in selected[wanted.offset : last]],
    )


def _selected(entries: Sequence[_Entry], wanted: LagQuery) -> list[_Entry]:
    """Return the partitions that match the filters of the request, in the order that it requests."""
    text = wanted.text.lower()
    found = [
        entry
        for entry in entries
        if text in str(entry.place).lower()
        and wanted.state in (None, entry.condition)
        and (wanted.instance is None or (entry.owner is not None and entry.owner.instance == wanted.instance))
    ]

    def key(entry: _Entry) -> Any:
        order = _ORDERS.get(wanted.sort)
        return order(entry) if order else getattr(entry.lane, wanted.sort.value, None)

    known = [entry for entry in found if key(entry) is not None]
    known.sort(key=key, reverse=wanted.descending)
    return [*(entry for entry in found if key(entry) is None), *known]


_LaneAnswers = Mapping[tuple[InstanceName | None, TopicPartition], LaneSummary]
"""Lanes by instance and partition. The instance None means an uncopied partition, which the leader has
reported."""


def _lane_answers(datastream: Datastream, lanes_by_instance: LanesByInstance) -> _LaneAnswers:
    return {
        (instance if lane.task is not None else None, lane.place): lane
        for instance, lanes in lanes_by_instance.items()
        for lane in lanes
        if lane.group == datastream.group and datastream.selection.matches(lane.place.topic)
    }


def _entry(
    place: TopicPartition,
    owner: TaskPlacement | None,
    lane_answers: _LaneAnswers,
    lanes_by_instance: LanesByInstance,
) -> _Entry:
    lane = lane_answers.get((owner.instance, place)) if owner and owner.instance else None
    lane = lane or lane_answers.get((None, place))
    if lane is not None:
        return _Entry(place, owner, lane, lane.phase, lane.reason)
    assert owner is not None, "only the leader reports a partition without a task"
    if owner.instance is None:
        return _Entry(place, owner, None, UncopiedState.UNPLACED, f"task {owner.task} is not running")
    if owner.instance in lanes_by_instance:
        return _Entry(place, owner, None, LanePhase.WAITING, "not started by its instance yet")
    return _Entry(place, owner, None, _UNKNOWN, f"instance {owner.instance} did not respond")


@router.get("/{name}/gaps", response_model=DatastreamGaps)
async def gaps(
    name: NamePath, services: ServicesDep, slow_calls: SlowCallsDep, response: Response
) -> Response:
    """Return the records that are missing at the destination, according to the last stored progress.

    The records were lost, filtered, dead-lettered, rejected, truncated or paused, and are not copied unless
    an operator acts. Partitions without gaps are omitted.
    """

    def read() -> DatastreamGaps:
        datastream = services.control.get(DatastreamName(name))
        stored = services.progress(datastream.destination, datastream.group)
        answers = progress_of(datastream, stored, services, with_map=False)
        found = [(answer, stored.lanes.get(_key(datastream, answer))) for answer in answers]
        known = {TopicPartition(lag.topic, lag.partition) for lag, lane in found if lane is not None}
        rows = [PartitionGaps.from_answer(lag, lane) for lag, lane in found]
        return DatastreamGaps(
            name=name,
            looked_at=len(known),
            unknown=[str(key) for key in sorted(owners_of(datastream, services.plan()).keys() - known)],
            partitions=[row for row in rows if row.is_remarkable],
        )

    return await slow_calls.run(lambda: large_response(read(), response))


def _key(datastream: Datastream, lane_progress_answer: LaneProgressAnswer) -> LaneKey:
    return LaneKey(
        datastream.group, TopicPartition(lane_progress_answer.topic, lane_progress_answer.partition)
    )

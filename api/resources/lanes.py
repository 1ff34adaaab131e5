"""/v1/lanes: lanes of all instances, their movement, and partitions without a lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict

from api.fleet.all_instances import AllInstances, FleetCalls
from api.fleet.dependencies import FleetDep, ReadsDep, ServicesDep
from api.fleet.questions import FleetQuery, InstanceResponse, known_fields
from api.http.problems import AnswerModel, SharedFields, problems
from api.http.slow_calls import large_response
from api.resources.status import InstanceStateAnswer, state_answer
from api.services import Services
from mirror.instance.backlog.partitions import UncopiedState
from mirror.instance.backlog.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model import bounds
from mirror.model.datastreams.lanes import LaneKey, QuotaHold, Unanswered, WindowLimit
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.metrics import SHOWN_OF_LANES
from mirror.model.topics import TopicPartition
from monitor.lane_verdicts import backlog_of, judged, judged_uncopied
from monitor.movement.states import LaneJudgement

router = APIRouter(tags=["status"])


async def lanes_by_instance(
    instances: AllInstances, group: str | None = None
) -> Mapping[InstanceName, InstanceResponse[list[LaneAnswer]]]:
    """Return the lanes of each instance, optionally of one group.

    The leader adds partitions that are not copied.
    """
    services = instances.services
    if group is None:
        return await instances.ask(FleetQuery(LANES), lambda: own_lanes(services), lanes_read)

    def read(value: Any) -> list[LaneAnswer]:
        return [lane for lane in lanes_read(value) if lane.datastream == group]

    return await instances.ask(FleetQuery(LANES, {GROUP: group}), lambda: own_lanes(services, group), read)


class MovementAnswer(BaseModel):
    """Progress of copying a partition, derived from the changes of its position. Unknown numbers are null."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    state: str
    """OK, CATCHING_UP, WARN, STALL, STOP, REWIND, PAUSED_BY_USER, PAUSED_BY_ITSELF, THROTTLED, SOURCE_AWAY,
    DESTINATION_AWAY, TRUNCATED, RECREATED, WAITING_FOR_TRANSACTION."""
    reason: str
    since_ms: int | None
    """Time at which the state began (epoch ms)."""
    eta_seconds: float | None
    """Estimated time until the backlog is empty at the current rate."""
    seconds_to_loss: float | None
    """Estimated time until the source deletes the first record that is not at the destination, if no record
    is copied until then. Derived from retention by time and size, and from the movement of the log start."""
    loses_data: bool
    """True if the source is expected to delete records before they are copied."""
    hidden_ms: int | None = None
    """Age of the first waiting record, if only records hidden by an open transaction wait at the source;
    otherwise null."""

    @classmethod
    def from_lane(cls, lane: LaneStatus, now: float, now_ms: int) -> MovementAnswer | None:
        """Return the movement state of a lane at `now` (monotonic seconds); None if unknown."""
        found = judged(lane, now)
        since_ms = None if found.since is None else int(now_ms - (now - found.since) * 1000)
        return cls._from_judgement(found, since_ms)

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane, now: float) -> MovementAnswer | None:
        """Return the movement state of an uncopied partition."""
        return cls._from_judgement(judged_uncopied(lane, now), lane.what.since_ms)

    @classmethod
    def _from_judgement(cls, found: LaneJudgement, since_ms: int | None) -> MovementAnswer | None:
        if found.state is None:
            return None
        return cls(
            state=found.state.value,
            reason=found.text,
            since_ms=since_ms,
            eta_seconds=_rounded(found.eta_seconds),
            seconds_to_loss=_rounded(found.seconds_to_loss),
            loses_data=found.loses_data,
            hidden_ms=found.hidden_ms,
        )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


class HoldAnswer(BaseModel):
    """A quota that slows down a lane."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    owner: str
    """Owner of the quota: task, datastream, source brokers, destination brokers, or partitions in danger
    (partitions that would lose records take precedence over this lane)."""
    share: float
    """Fraction of the time for which the quota throttled the lane."""
    broker: int | None
    """Id of the throttling broker; null if the quota was not set on a broker."""


class UnansweredAnswer(BaseModel):
    """Seconds for which brokers have not responded to a lane. Null without a request, or in its first
    second."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    fetch_seconds: float | None
    """Seconds for the fetch request to the source, not counting the time for which the broker may wait for
    records."""
    produce_seconds: float | None
    """Seconds for the produce request with the lane's oldest batch, or for the requests before the lane's
    first batch."""


class WindowAnswer(BaseModel):
    """A distant broker to which each connection is slow because its socket buffers are small."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    broker: int
    window_bytes: int
    """Maximum bytes that a connection carries per round trip."""
    round_trip_ms: float
    connections: int
    """Number of additional connections in use."""
    allowed_connections: int
    """Maximum number of additional connections: `mirror.copying.read_connections` for the source,
    `mirror.copying.write_connections` for the destination."""


class PartitionState(AnswerModel, SharedFields):
    """State of copying a partition. Unknown numbers are null."""

    by: Literal["person", "itself"] | None = None
    """Who paused the partition: `person` for a user, `itself` for the lane."""
    lag_records: int | None
    """Number of records at the source that are not at the destination."""
    lag_ms: int | None
    """Age of the oldest record at the source that is not at the destination."""
    position: int | None = None
    """Next source offset to copy: every offset below it is at the destination."""
    source_end: int | None = None
    """End offset of the source log."""
    bytes_per_second: float | None
    """Current copy rate."""
    timestamp_offset_seconds: float | None = None
    """Difference between the timestamps of records and the times at which the source received the records.
    Positive if the clock of a producer is ahead; negative if it is behind, or if the timestamps are event
    times; 0 if no difference is known."""
    movement: MovementAnswer | None = None
    """Movement of the partition's position; null if unknown."""
    source_window: WindowAnswer | None = None
    """Source broker whose socket buffers limit the rate; null if no such limit is known."""
    destination_window: WindowAnswer | None = None
    """Destination broker whose socket buffers limit the rate; null if no such limit is known."""


class LaneAnswer(PartitionState):
    """A lane or, reported by the leader, a partition that is not copied. Unknown numbers are null."""

    instance: str = ""
    """Instance that reported the lane."""
    datastream: str
    """Group of the datastream."""
    partition: str
    task: str | None
    """Task of the partition; null if it has no task."""
    worker: int | None
    """Number of the worker process; -1 if no worker can copy the partition now; null for a partition that is
    not copied."""
    phase: str
    """Phase of the lane: waiting, starting, copying, paused or stopping. For a partition that is not copied:
    paused, unplaced or left out."""
    reason: str
    """Reason why the lane is not copying; for a lane that copies, the quota that throttles the lane."""
    requested_by: str | None = None
    """User who paused the partition, if the request named one."""
    since_ms: int | None = None
    """Time of the user's pause (epoch ms)."""
    age_ms: int | None = None
    """Time since the user's pause."""
    retained_records: int | None = None
    """For a partition that is not copied: number of records at the source that are already copied. Retention
    deletes the copied records before uncopied records."""
    lost_records: int | None = None
    """For a partition that is not copied: number of records that retention deleted before they were
    copied."""
    per_second: dict[str, float] | None = None
    """Rates per second, by column names of the table mirrorMetrics."""
    worker_cpu: float | None = None
    """Number of cores that the worker process uses for all of its lanes."""
    worker_waited: float | None = None
    """Fraction of the time for which the worker process was ready to copy but waited for a core."""
    unanswered: UnansweredAnswer | None = None
    """Overdue responses at the end of the last interval; null if no response is overdue."""
    held_back: HoldAnswer | None = None
    """Quota that throttles the lane while it copies; null if no quota does."""
    backlog: str | None = None
    """Cause of the backlog of a lane that has been late since it started: `creation`, `pause` (by a user),
    `outage`, `worker` (a worker process was lost), `instance` (an instance lost its session), or `restart`
    (of an instance, or a move). Null if the lane has been on time at any time since its start, and if no
    process was lost in the last three minutes."""
    backlog_since_ms: int | None = None
    """Time (epoch ms) at which the worker process or the session was lost or, for other causes, at which the
    lane started to copy."""
    lost_instance: str | None = None
    """Instance that lost its session, if the cause is `instance`."""

    @classmethod
    def from_lane(
        cls, key: LaneKey, state: LaneStatus, now: float, now_ms: int, instance: str = ""
    ) -> LaneAnswer:
        """Return a lane of this instance at `now` (monotonic seconds) as a response."""
        rate = state.rate
        lag_records, lag_ms = state.lag
        position, source_end = state.ends
        backlog = backlog_of(state, now, now_ms)
        return cls(
            instance=instance,
            datastream=key.group,
            partition=str(key.partition),
            task=state.spec.task,
            worker=state.worker,
            phase=state.phase,
            by="itself" if state.phase is LanePhase.PAUSED else None,
            reason=state.text or state.held_back,
            lag_records=lag_records,
            lag_ms=lag_ms,
            position=position,
            source_end=source_end,
            bytes_per_second=rate.bytes_per_second if rate else None,
            per_second=dict(zip(SHOWN_OF_LANES, rate.shown, strict=False)) if rate else None,
            worker_cpu=rate.core.busy if rate else None,
            worker_waited=rate.core.waited if rate else None,
            unanswered=_unanswered(state.track.unanswered),
            held_back=_hold(state.hold) if state.held_back else None,
            timestamp_offset_seconds=_rounded(state.timestamp_offset_seconds),
            movement=MovementAnswer.from_lane(state, now, now_ms),
            source_window=_window(state.track.windows.source),
            destination_window=_window(state.track.windows.destination),
            backlog=backlog.origin,
            backlog_since_ms=backlog.since_ms,
            lost_instance=backlog.lost_instance,
        )

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane, now: float, now_ms: int, instance: str) -> LaneAnswer:
        """Return an uncopied partition at `now` (monotonic seconds) as a response."""
        uncopied = lane.what
        return cls(
            instance=instance,
            datastream=uncopied.group,
            partition=str(uncopied.partition),
            task=None,
            worker=None,
            phase=uncopied.state,
            by="person" if uncopied.state is UncopiedState.PAUSED else None,
            reason=uncopied.reason,
            requested_by=uncopied.requested_by or None,
            since_ms=uncopied.since_ms,
            age_ms=max(now_ms - uncopied.since_ms, 0) if uncopied.since_ms is not None else None,
            lag_records=lane.lag_records,
            lag_ms=lane.lag_ms,
            retained_records=lane.retained_records,
            lost_records=lane.lost_records,
            bytes_per_second=None,
            movement=MovementAnswer.from_uncopied(lane, now),
        )


class LaneSummary(NamedTuple):
    """State and numbers of a lane or of an uncopied partition, as in `LaneAnswer`.

    `condition`: state of the movement if known, otherwise the phase. `answer`: builds the JSON form, which
    takes most of the time.
    """

    group: str
    place: TopicPartition
    task: str | None
    phase: str
    reason: str
    condition: str
    lag_records: int | None
    lag_ms: int | None
    position: int | None
    source_end: int | None
    bytes_per_second: float | None
    answer: Callable[[], LaneAnswer]

    @classmethod
    def from_lane(
        cls, key: LaneKey, state: LaneStatus, now: float, now_ms: int, instance: str
    ) -> LaneSummary:
        """Summarize a lane of this instance at `now` (monotonic seconds)."""
        movement, rate = judged(state, now).state, state.rate
        return cls(
            key.group,
            key.partition,
            state.spec.task,
            state.phase,
            state.text or state.held_back,
            state.phase if movement is None else movement.value,
            *state.lag,
            *state.ends,
            rate.bytes_per_second if rate else None,
            partial(LaneAnswer.from_lane, key, state, now, now_ms, instance),
        )

    @classmethod
    def from_answer(cls, lane: LaneAnswer) -> LaneSummary:
        """Summarize a lane that another instance has reported."""
        return cls(
            lane.datastream,
            TopicPartition.parse(lane.partition),
            lane.task,
            lane.phase,
            lane.reason,
            lane.phase if lane.movement is None else lane.movement.state,
            lane.lag_records,
            lane.lag_ms,
            lane.position,
            lane.source_end,
            lane.bytes_per_second,
            lambda: lane,
        )


def lanes_answer(replies: Mapping[InstanceName, InstanceResponse[list[LaneAnswer]]]) -> LanesAnswer:
    """Return the lanes that the instances reported, and whether each instance responded."""
    return LanesAnswer(
        instances=[state_answer(reply) for reply in replies.values()],
        lanes=[lane for reply in replies.values() for lane in reply.value or ()],
    )


def _hold(hold: QuotaHold | None) -> HoldAnswer | None:
    if hold is None:
        return None
    return HoldAnswer(owner=hold.owner.value, share=round(hold.share, 3), broker=hold.broker)


def _unanswered(unanswered: Unanswered | None) -> UnansweredAnswer | None:
    if unanswered is None:
        return None
    return UnansweredAnswer(
        fetch_seconds=_rounded(unanswered.fetch_seconds), produce_seconds=_rounded(unanswered.produce_seconds)
    )


def _window(window: WindowLimit | None) -> WindowAnswer | None:
    return None if window is None else WindowAnswer(**window._asdict())


class LanesAnswer(AnswerModel):
    """Lanes of all instances that responded, and whether each instance responded."""

    instances: list[InstanceStateAnswer]
    """All live instances. The lanes of an instance that did not respond are missing; /v1/plan lists its
    partitions."""
    lanes: list[LaneAnswer]


LANES: Final = "lanes"
GROUP: Final = "group"
"""Parameter that limits a query for lanes to one group. Instances of older versions ignore this parameter."""
_MOST_LANES: Final = 1_000_000


def own_lanes(services: Services, group: str | None = None) -> list[LaneAnswer]:
    """Return the lanes of this instance; the leader adds partitions that are not copied. `group`: only lanes
    of this group; None means all."""
    return [report.answer() for report in own_reports(services, group)]


def own_reports(services: Services, group: str | None = None) -> list[LaneSummary]:
    """Return summaries of this instance's lanes; the leader adds partitions that are not copied."""
    status, now, now_ms = services.status, services.clock.monotonic(), services.clock.now_ms()
    wanted = [(key, state) for key, state in status.lanes.items() if group in (None, key.group)]
    idle = [lane for lane in status.uncopied if group in (None, lane.what.group)]
    return [
        *(LaneSummary.from_lane(key, state, now, now_ms, status.name) for key, state in sorted(wanted)),
        *(LaneSummary.from_answer(LaneAnswer.from_uncopied(lane, now, now_ms, status.name)) for lane in idle),
    ]


def lanes_read(value: Any) -> list[LaneAnswer]:
    """Parse the lanes that another instance reports. Unknown fields are dropped, because the instance may run
    a newer version. Raises ValueError, InvalidRequest."""
    lanes = bounds.sequence("its lanes", value, _MOST_LANES)
    return [LaneAnswer.model_validate(known_fields(LaneAnswer, lane)) for lane in lanes]


class LanesNow(FleetCalls):
    """Reads the lanes of all instances for callers other than REST requests."""

    def of(self, group: GroupName) -> Any:
        """Return the response of `/v1/lanes?datastream=`. Raises Unreachable."""
        services = self.services
        live = services.live()
        replies = self.run(lambda fleet: lanes_by_instance(AllInstances(services, fleet, live), group))
        return lanes_answer(replies).model_dump(mode="json")


@router.get("/v1/lanes", response_model=LanesAnswer, responses=problems(404))
async def lanes(
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    response: Response,
    instance: Annotated[str | None, Query(description="only lanes of this instance")] = None,
    datastream: Annotated[str | None, Query(description="only lanes of this datastream or its group")] = None,
) -> Response:
    """List the lanes of all instances, and the partitions that are not copied, as reported by the leader.

    A request for the lanes of the responding instance only, without a datastream, makes no remote calls, not
    even to the coordination store.
    """
    live = () if instance == services.status.name else await run_in_threadpool(reads.live)
    group = None if datastream is None else await run_in_threadpool(reads.group_of, datastream)
    replies = await lanes_by_instance(AllInstances(services, fleet, live, instance), group)
    return await run_in_threadpool(lambda: large_response(lanes_answer(replies), response))

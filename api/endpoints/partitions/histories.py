"""/v1/datastreams/{name}/loads/history and …/latency/history"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from api.datastreams.answers import NamePath
from api.dependencies import ReadsDep, ServicesDep, SlowCallsDep
from api.histories.questions import (
    MOST_LATENCY_HOURS,
    MOST_LATENCY_POINTS,
    MOST_LOAD_HOURS,
    MOST_PARTITIONS,
    LatencyHistoryQuery,
    LoadHistoryQuery,
    last_hours,
    places_named,
)
from api.histories.schemas import LatencyHistoryAnswer, LoadHistoryAnswer
from api.loads.leaders import owners_of
from api.schemas.problems import problems
from mirror.instance.loads.assessments import usable_of
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition
from pinot.history.points import LoadHour
from pinot.time_range import TimeRange

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"], responses=problems(404, 409))


@router.get("/{name}/loads/history")
async def load_history(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    slow_calls: SlowCallsDep,
    partition: Annotated[
        list[str],
        Query(
            description="only this partition, as topic-number; can be repeated", max_length=MOST_PARTITIONS
        ),
    ] = [],  # noqa: B006 - FastAPI copies it
    hours: Annotated[int, Query(ge=1, le=MOST_LOAD_HOURS, description="length in hours")] = 48,
) -> LoadHistoryAnswer:
    """Return the load at the source by hour, from Pinot's rollups; for named partitions also the time since
    which they are hot, and the last two hours from the samples. Without `partition`, the sum over the topics
    in the current plan. 503 if Pinot does not respond or is not configured."""
    datastream = (await run_in_threadpool(reads.stored, DatastreamName(name))).datastream
    places = places_named(datastream, partition, hours)
    plan = await run_in_threadpool(reads.plan)
    topics = {one.topic for one in owners_of(datastream, plan)} if not places else set()
    when = last_hours(services.clock.now_ms(), hours)
    query = LoadHistoryQuery(datastream.source, when, places, topics)
    found = await slow_calls.run(lambda: services.load_history(query))
    every: dict[TopicPartition | None, Sequence[LoadHour]] = {place: found.get(place, ()) for place in places}
    shown: Mapping[TopicPartition | None, Sequence[LoadHour]] = every or {None: found.get(None, ())}
    assessments = await run_in_threadpool(reads.assessments)
    usable = usable_of(assessments.get(datastream.group), services.usable_bytes_per_second)
    return LoadHistoryAnswer.from_hours(datastream, when, usable, shown)


@router.get("/{name}/latency/history")
async def latency_history(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    slow_calls: SlowCallsDep,
    hours: Annotated[int, Query(ge=1, le=MOST_LATENCY_HOURS, description="length in hours")] = 6,
    points: Annotated[int, Query(ge=2, le=MOST_LATENCY_POINTS, description="maximum number of points")] = 240,
) -> LatencyHistoryAnswer:
    """Return the latency of records from the measurements in Pinot. If other datastreams share its tasks,
    only of topics that the current plan assigns to this one. 503 if Pinot does not respond or is not
    configured."""
    datastream = (await run_in_threadpool(reads.stored, DatastreamName(name))).datastream
    definitions = await run_in_threadpool(reads.definitions)
    topics = None
    if any(one.group == datastream.group and one.name != name for one in definitions.datastreams):
        topics = {one.topic for one in owners_of(datastream, await run_in_threadpool(reads.plan))}
    now_ms = services.clock.now_ms()
    when = TimeRange(now_ms + 1 - hours * 3_600_000, now_ms + 1)
    query = LatencyHistoryQuery(datastream.group, when, points, topics)
    found = await slow_calls.run(lambda: services.latency_history(query))
    return LatencyHistoryAnswer.from_history(datastream, when, found)

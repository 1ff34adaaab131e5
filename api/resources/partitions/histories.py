"""/v1/datastreams/{name}/loads/history and …/latency/history: past loads and latencies.

Loads and latencies are columns for charts. Unknown values are null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from api.fleet.dependencies import NamePath, ReadsDep, ServicesDep, SlowCallsDep
from api.http.problems import AnswerModel, problems
from api.resources.partitions.current_loads import owners_of
from api.services import LatencyHistoryQuery, LoadHistoryQuery
from mirror.errors import InvalidRequest
from mirror.instance.loads.assessments import usable_of
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from mirror.model.load import hot_from
from mirror.model.topics import TopicPartition
from mirror.wording import counted
from pinot.history.points import LatencyHistory, LatencyStep, LoadHour, begun, high_since
from pinot.time_range import TimeRange

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"], responses=problems(404, 409))


HOUR_MS: Final = 3_600_000
MOST_PARTITIONS: Final = 50
MOST_LOAD_HOURS: Final = 42 * 24
"""Default retention of hourly loads in Pinot, in hours."""
MOST_LOAD_POINTS: Final = 20_000
MOST_LATENCY_HOURS: Final = 14 * 24
"""Default retention of the mirror's measurements in Pinot, in hours."""
MOST_LATENCY_POINTS: Final = 1_000


def last_hours(now_ms: int, hours: int) -> TimeRange:
    """Return the time range of the latest `hours` hours, including the current one."""
    begin = now_ms // HOUR_MS * HOUR_MS - (hours - 1) * HOUR_MS
    return TimeRange(begin, now_ms + 1)


def places_named(datastream: Datastream, names: Sequence[str], hours: int) -> list[TopicPartition]:
    """Parse the partitions in a request (`orders.created-0`), without duplicates.

    Raises InvalidRequest for a name that is invalid or not part of the datastream, and if the partitions have
    too many points in total.
    """
    if len(names) * hours > MOST_LOAD_POINTS:
        raise InvalidRequest(
            f"expected at most {MOST_LOAD_POINTS} hourly loads, got a request for "
            f"{counted(len(names), 'partition')} over {counted(hours, 'hour')}",
            advice="query fewer partitions or fewer hours",
        )
    return list(dict.fromkeys(_place(datastream, name) for name in names))


def _place(datastream: Datastream, name: str) -> TopicPartition:
    topic, dash, number = name.rpartition("-")
    if not dash or not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise InvalidRequest(f"invalid partition {shown(name)}", advice="use a name such as orders.created-0")
    if not datastream.selection.matches(topic):
        raise InvalidRequest(f"{shown(topic)} is not a topic of datastream {datastream.name}")
    return TopicPartition(topic, int(number))


class LoadSeriesAnswer(AnswerModel):
    """Load of one partition, or of the whole datastream, in bytes per second.

    Each list has one value for each hour of `hours_ms`.
    """

    partition: str | None
    """Partition; null for the sum of all partitions."""
    mean_bytes_per_second: list[float | None]
    """Mean of the hour's samples; null for an hour without samples."""
    p95_bytes_per_second: list[float | None]
    """95th percentile of the hour's samples; null for an hour without samples, and for the sum of all
    partitions."""
    most_bytes_per_second: list[float | None]
    """Largest sample of the hour; null for an hour without samples, and for the sum of all partitions."""
    hot_since_ms: int | None
    """Time (epoch ms) since which the p95 of each hour has been at least half of the usable capacity of a
    task; null if the p95 of the latest hour is lower or unknown."""
    too_heavy_since_ms: int | None
    """Time (epoch ms) since which the p95 of each hour has exceeded the usable capacity of a task; null if
    the p95 of the latest hour is lower or unknown."""
    is_longer: bool
    """True if the partition may have been hot for longer, because earlier values are unknown."""


class LoadHistoryAnswer(AnswerModel):
    """Hourly load of a datastream's partitions, from Pinot."""

    name: str
    cluster: str
    """Name of the source cluster in the samples."""
    usable_bytes_per_second: int | None
    """Usable capacity of one task in the latest planning run; null: placement is not by load."""
    hours_ms: list[int]
    """Starts of hours (epoch ms), oldest first; the last hour is the current one."""
    series: list[LoadSeriesAnswer]
    """One series per requested partition; all null if the partition was never measured."""

    @classmethod
    def from_hours(
        cls,
        datastream: Datastream,
        when: TimeRange,
        usable: int | None,
        hours: Mapping[TopicPartition | None, Sequence[LoadHour]],
    ) -> LoadHistoryAnswer:
        """Return hourly loads as a response. `hours`: hourly loads of each requested partition, and of the
        whole datastream for the key None."""
        axis = list(begun(when, 3_600_000))
        return cls(
            name=datastream.name,
            cluster=datastream.source,
            usable_bytes_per_second=usable,
            hours_ms=axis,
            series=[_load_series(place, some, axis, usable) for place, some in hours.items()],
        )


def _load_series(
    place: TopicPartition | None, hours: Sequence[LoadHour], axis: Sequence[int], usable: int | None
) -> LoadSeriesAnswer:
    known = {hour.hour_ms: hour for hour in hours}
    found = [known.get(hour) for hour in axis]
    hot = None if usable is None else high_since(hours, hot_from(usable))
    heavy = None if usable is None else high_since(hours, usable)
    return LoadSeriesAnswer(
        partition=None if place is None else str(place),
        mean_bytes_per_second=[None if hour is None else round(hour.mean, 1) for hour in found],
        p95_bytes_per_second=[None if hour is None else _rounded(hour.p95) for hour in found],
        most_bytes_per_second=[None if hour is None else _rounded(hour.most) for hour in found],
        hot_since_ms=None if hot is None else hot.since_ms,
        too_heavy_since_ms=None if heavy is None else heavy.since_ms,
        is_longer=hot is not None and hot.is_longer,
    )


def _mean(total: int, latency_step: LatencyStep, when: TimeRange, step_ms: int) -> float:
    """Return the average per ms of a total over one time step. The last step may be incomplete."""
    length_ms = min(step_ms, when.until_ms - latency_step.begin_ms)
    return round(total / max(length_ms, 1), 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


class LatencyHistoryAnswer(AnswerModel):
    """Latency of a datastream's records.

    Each list has one value for each step of `times_ms`.
    """

    name: str
    step_ms: int
    """Length of a step in ms."""
    times_ms: list[int]
    """Starts of steps (epoch ms), oldest first; the last step is the current one."""
    records: list[int | None]
    """Copied records; null: not measured."""
    bytes_per_second: list[float | None]
    """Copy rate; null: not measured."""
    p50_ms: list[float | None]
    """Median latency from the source's timestamp to the destination's acknowledgement; null without
    records."""
    p99_ms: list[float | None]
    """99th percentile of the latency; null without records."""
    oldest_ms: list[int | None]
    """Largest age of the oldest waiting record in the step."""
    lag_records: list[float | None]
    """Mean number of waiting records; null: not measured."""
    source: list[float | None]
    """Time of an average batch at the source, in ms; null without batches."""
    fetch: list[float | None]
    """Time of an average batch in transfer from the source, in ms."""
    queue: list[float | None]
    """Time of an average batch in the worker, in ms."""
    produce: list[float | None]
    """Time of an average batch until the destination's acknowledgement, in ms."""

    @classmethod
    def from_history(
        cls, datastream: Datastream, when: TimeRange, history: LatencyHistory
    ) -> LatencyHistoryAnswer:
        """Return the latency history of a datastream as a response."""
        known = {step.begin_ms: step for step in history.steps}
        axis = list(begun(when, history.step_ms))
        steps = [known.get(begin) for begin in axis]

        def means(total: Callable[[LatencyStep], int]) -> list[float | None]:
            return [
                None if step is None else _mean(total(step), step, when, history.step_ms) for step in steps
            ]

        stages = [
            (None,) * 4 if step is None else tuple(map(_rounded, step.mean_stages_ms)) for step in steps
        ]
        source, fetch, queue, produce = (list(column) for column in zip(*stages, strict=True))
        return cls(
            name=datastream.name,
            step_ms=history.step_ms,
            times_ms=axis,
            records=[None if step is None else step.records for step in steps],
            bytes_per_second=means(lambda step: step.size_bytes * 1_000),
            p50_ms=[None if step is None else _rounded(step.p50_ms) for step in steps],
            p99_ms=[None if step is None else _rounded(step.p99_ms) for step in steps],
            oldest_ms=[None if step is None else step.oldest_ms for step in steps],
            lag_records=means(lambda step: step.waiting_record_ms),
            source=source,
            fetch=fetch,
            queue=queue,
            produce=produce,
        )


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
    hours: Annotated[int, Query(ge=1, le=MOST_LOAD_HOURS, description="length of the history in hours")] = 48,
) -> LoadHistoryAnswer:
    """Return the load at the source in each hour, from Pinot's rollups.

    For requested partitions, also return the time since which each partition is hot, and the last two hours
    from the samples. Without `partition`, return the sum over the topics in the current plan. The response is
    503 if Pinot does not respond or is not configured.
    """
    datastream = (await run_in_threadpool(reads.stored, DatastreamName(name))).datastream
    places = places_named(datastream, partition, hours)
    plan = await run_in_threadpool(reads.plan)
    topics = {partition.topic for partition in owners_of(datastream, plan)} if not places else set()
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
    hours: Annotated[
        int, Query(ge=1, le=MOST_LATENCY_HOURS, description="length of the history in hours")
    ] = 6,
    points: Annotated[int, Query(ge=2, le=MOST_LATENCY_POINTS, description="maximum number of points")] = 240,
) -> LatencyHistoryAnswer:
    """Return the latency of records from the measurements in Pinot.

    If other datastreams share the tasks, the result covers only topics that the current plan assigns to this
    datastream. The response is 503 if Pinot does not respond or is not configured.
    """
    datastream = (await run_in_threadpool(reads.stored, DatastreamName(name))).datastream
    definitions = await run_in_threadpool(reads.definitions)
    topics = None
    if any(member.group == datastream.group and member.name != name for member in definitions.datastreams):
        topics = {partition.topic for partition in owners_of(datastream, await run_in_threadpool(reads.plan))}
    now_ms = services.clock.now_ms()
    when = TimeRange(now_ms + 1 - hours * 3_600_000, now_ms + 1)
    query = LatencyHistoryQuery(datastream.group, when, points, topics)
    found = await slow_calls.run(lambda: services.latency_history(query))
    return LatencyHistoryAnswer.from_history(datastream, when, found)

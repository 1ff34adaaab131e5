"""History of loads and latencies on /v1, as columns for charts. Unknown values are null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from mirror.model.datastreams.datastream import Datastream
from mirror.model.load import hot_from
from mirror.model.topics import TopicPartition
from pinot.history.points import LatencyHistory, LatencyStep, LoadHour, begun, high_since
from pinot.time_range import TimeRange


class _HistoryModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class LoadSeriesAnswer(_HistoryModel):
    """Load of one partition, or of the whole datastream, in bytes per second; one value for each hour of
    `hours_ms`."""

    partition: str | None
    """Null: the sum of all partitions."""
    mean_bytes_per_second: list[float | None]
    """Mean; null for an hour without samples."""
    p95_bytes_per_second: list[float | None]
    """95th percentile of the hour's samples; null also for a sum."""
    most_bytes_per_second: list[float | None]
    """Largest sample of the hour; null also for a sum."""
    hot_since_ms: int | None
    """Time (epoch ms) since which the p95 of each hour has been at least half of the usable capacity of a
    task; null: it is lower in the latest hour, or unknown."""
    too_heavy_since_ms: int | None
    """Time (epoch ms) since which the p95 of each hour has exceeded the usable capacity of a task; null: it
    does not in the latest hour, or unknown."""
    is_longer: bool
    """True if it may have been hot for longer: earlier values are unknown."""


class LoadHistoryAnswer(_HistoryModel):
    """Hourly load of a datastream's partitions, from Pinot."""

    name: str
    cluster: str
    """Source cluster, as named by the samples."""
    usable_bytes_per_second: int | None
    """Usable capacity of one task in the last planning; null: placement is not by load."""
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
        """Return the JSON form. `hours`: by requested partition; under None: the sum."""
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
    known = {one.hour_ms: one for one in hours}
    found = [known.get(hour) for hour in axis]
    hot = None if usable is None else high_since(hours, hot_from(usable))
    heavy = None if usable is None else high_since(hours, usable)
    return LoadSeriesAnswer(
        partition=None if place is None else str(place),
        mean_bytes_per_second=[None if one is None else round(one.mean, 1) for one in found],
        p95_bytes_per_second=[None if one is None else _rounded(one.p95) for one in found],
        most_bytes_per_second=[None if one is None else _rounded(one.most) for one in found],
        hot_since_ms=None if hot is None else hot.since_ms,
        too_heavy_since_ms=None if heavy is None else heavy.since_ms,
        is_longer=hot is not None and hot.is_longer,
    )


def _rate(latency_step: LatencyStep, when: TimeRange, step_ms: int) -> float:
    """Return the throughput of a step; the last step may be incomplete."""
    length_ms = min(step_ms, when.until_ms - latency_step.begin_ms)
    return round(latency_step.size_bytes * 1_000 / max(length_ms, 1), 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


class LatencyHistoryAnswer(_HistoryModel):
    """Latency of a datastream's records; one value for each step of `times_ms`."""

    name: str
    step_ms: int
    """Length of a step."""
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
        """Return the JSON form."""
        known = {step.begin_ms: step for step in history.steps}
        axis = list(begun(when, history.step_ms))
        steps = [known.get(begin) for begin in axis]
        stages = [
            (None,) * 4 if step is None else tuple(map(_rounded, step.mean_stages_ms)) for step in steps
        ]
        source, fetch, queue, produce = (list(column) for column in zip(*stages, strict=True))
        return cls(
            name=datastream.name,
            step_ms=history.step_ms,
            times_ms=axis,
            records=[None if step is None else step.records for step in steps],
            bytes_per_second=[None if step is None else _rate(step, when, history.step_ms) for step in steps],
            p50_ms=[None if step is None else _rounded(step.p50_ms) for step in steps],
            p99_ms=[None if step is None else _rounded(step.p99_ms) for step in steps],
            oldest_ms=[None if step is None else step.oldest_ms for step in steps],
            source=source,
            fetch=fetch,
            queue=queue,
            produce=produce,
        )

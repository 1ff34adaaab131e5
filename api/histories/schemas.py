"""Loads and latencies over time on /v1, as columns: charts are drawn of them. What is not known is null."""

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
    """What arrived in one partition, or in all of the datastream; bytes per second, one value for each hour
    of `hours_ms`."""

    partition: str | None
    """Null: the sum of all partitions."""
    mean_bytes_per_second: list[float | None]
    """Null of an hour without samples."""
    p95_bytes_per_second: list[float | None]
    """Of the samples of the hour; null also of a sum."""
    most_bytes_per_second: list[float | None]
    """The largest sample of the hour; null also of a sum."""
    hot_since_ms: int | None
    """Since when (epoch ms) the p95 of each hour is half of what a task may carry, or more; null: it is not
    in the newest hour, or that is not known."""
    too_heavy_since_ms: int | None
    """Likewise, since when it is more than a task may carry."""
    is_longer: bool
    """Whether it may have been for longer: nothing is known of the time before."""


class LoadHistoryAnswer(_HistoryModel):
    """What arrived in partitions of a datastream, hour by hour, as Pinot keeps it."""

    name: str
    cluster: str
    """The source, as samples name it."""
    usable_bytes_per_second: int | None
    """What one task may carry by the last planning; null: placement is not by load."""
    hours_ms: list[int]
    """Beginnings of hours (epoch ms), the oldest first; the last one is running."""
    series: list[LoadSeriesAnswer]
    """As they were asked for; a partition that was never measured has nulls only."""

    @classmethod
    def from_hours(
        cls,
        datastream: Datastream,
        when: TimeRange,
        usable: int | None,
        hours: Mapping[TopicPartition | None, Sequence[LoadHour]],
    ) -> LoadHistoryAnswer:
        """The JSON form. `hours`: of each partition that was asked for; of None: of all."""
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


def _rate(one: LatencyStep, when: TimeRange, step_ms: int) -> float:
    """Return the throughput of a step; the last one may be running."""
    length_ms = min(step_ms, when.until_ms - one.begin_ms)
    return round(one.size_bytes * 1_000 / max(length_ms, 1), 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


class LatencyHistoryAnswer(_HistoryModel):
    """How late the records of a datastream were, one value for each step of `times_ms`."""

    name: str
    step_ms: int
    """How long a step is."""
    times_ms: list[int]
    """Beginnings of steps (epoch ms), the oldest first; the last one is running."""
    records: list[int | None]
    """Copied; null: nothing was measured."""
    bytes_per_second: list[float | None]
    """Copied; null: nothing was measured."""
    p50_ms: list[float | None]
    """Median of the latency, from the source's time stamp to the destination's acknowledgement; null without
    records."""
    p99_ms: list[float | None]
    """Likewise, the 99th percentile."""
    oldest_ms: list[int | None]
    """Age of the oldest record that waited, the worst of the step."""
    source: list[float | None]
    """ms that an average batch lay at the source; null without batches."""
    fetch: list[float | None]
    """ms that it was being received."""
    queue: list[float | None]
    """ms that it was in the worker."""
    produce: list[float | None]
    """ms until the destination acknowledged it."""

    @classmethod
    def from_history(
        cls, datastream: Datastream, when: TimeRange, history: LatencyHistory
    ) -> LatencyHistoryAnswer:
        """The JSON form."""
        known = {one.begin_ms: one for one in history.steps}
        axis = list(begun(when, history.step_ms))
        steps = [known.get(begin) for begin in axis]
        stages = [(None,) * 4 if one is None else tuple(map(_rounded, one.mean_stages_ms)) for one in steps]
        source, fetch, queue, produce = (list(column) for column in zip(*stages, strict=True))
        return cls(
            name=datastream.name,
            step_ms=history.step_ms,
            times_ms=axis,
            records=[None if one is None else one.records for one in steps],
            bytes_per_second=[None if one is None else _rate(one, when, history.step_ms) for one in steps],
            p50_ms=[None if one is None else _rounded(one.p50_ms) for one in steps],
            p99_ms=[None if one is None else _rounded(one.p99_ms) for one in steps],
            oldest_ms=[None if one is None else one.oldest_ms for one in steps],
            source=source,
            fetch=fetch,
            queue=queue,
            produce=produce,
        )

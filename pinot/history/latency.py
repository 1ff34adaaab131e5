"""Queries for the latency of a datastream's records over time. Conventions as in `pinot.queries`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mirror.model.identifiers import GroupName
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.rows import UNKNOWN
from pinot.client import PinotClient, Row, Value
from pinot.history.points import LatencyHistory, LatencyStep, step_for
from pinot.queries import HISTOGRAM_SUMS
from pinot.rows import checked_rows
from pinot.time_range import TimeRange

_STAGES: Final = 4


@checked_rows
def latency_steps(
    client: PinotClient, group: GroupName, when: TimeRange, most: int, topics: Collection[str] | None = None
) -> LatencyHistory:
    """Return the latency in at most `most` time steps, for all or some topics of a group of datastreams.

    Raises the errors of `PinotClient.ask`.
    """
    step = step_for(when, most)
    if topics is not None and not topics:
        return LatencyHistory(step, ())
    given: dict[str, Value] = {"group": group, "since": when.since_ms, "until": when.until_ms}
    only = ""
    if topics is not None:
        given["topics"], only = sorted(topics), "and topic in (%(topics)s)"
    begin = f"floor(time_ms / {step})"
    answer = client.ask(
        f"select {begin}, sum(records_copied), sum(batches), sum(wait_ms), sum(fetch_ms), sum(queue_ms), "  # noqa: S608
        f"sum(produce_ms), max(lag_ms), {HISTOGRAM_SUMS}, sum(bytes_copied), "
        "sum(lag_records * interval_ms) from mirrorMetrics "
        f"where datastream = %(group)s and time_ms >= %(since)s and time_ms < %(until)s {only} "
        f"group by {begin} limit {most + 1}",
        given,
    )
    return LatencyHistory(step, sorted((_step(row, step) for row in answer.rows), key=lambda row: row[0]))


def _step(row: Row, step_ms: int) -> LatencyStep:
    begin, records, batches, *more = row
    source, fetch, queue, produce = map(float, more[:_STAGES])
    oldest = int(more[_STAGES])
    counts = tuple(int(count) for count in more[_STAGES + 1 : _STAGES + 1 + LATENCY_BUCKETS])
    return LatencyStep(
        int(begin) * step_ms,
        int(records),
        int(batches),
        (source, fetch, queue, produce),
        None if oldest == UNKNOWN else oldest,
        counts,
        *(int(number) for number in more[_STAGES + 1 + LATENCY_BUCKETS :]),
    )

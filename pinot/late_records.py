"""Late records of each topic by second, for the times at which a datastream was late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror.model.metrics import LATENCY_BOUNDS_MS, LATENCY_BUCKETS, latency_bucket
from mirror.model.rows import HISTOGRAM_COLUMNS
from pinot.client import PinotClient, Value
from pinot.queries import MOST_GROUPS
from pinot.rows import checked_rows
from pinot.time_range import TimeRange

_SLOT_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class LateSecond:
    """Reports of a topic in one second. `time_ms`: the last one; `age_ms`: upper bound of the age of the
    oldest record that arrived or waited, 0 if none may be late; `waited_ms`: the same of records that were
    certainly late."""

    datastream: str
    source_cluster: str
    topic: str
    time_ms: int
    interval_ms: int
    age_ms: int
    waited_ms: int


@checked_rows
def late_seconds(
    client: PinotClient, when: TimeRange, groups: Sequence[str], least_ms: int
) -> list[LateSecond]:
    """Return the seconds in which topics of the groups reported records older than `least_ms`, and the last
    report of each topic, late or not. Raises the errors of `PinotClient.ask`."""
    if not groups:
        return []
    own = latency_bucket(least_ms)
    buckets = range(own, LATENCY_BUCKETS)
    columns = [HISTOGRAM_COLUMNS[number] for number in buckets]
    sums = ", ".join(f"sum({column})" for column in columns)
    names = "datastream, source_cluster, topic"
    of_groups = (
        "from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s and datastream in (%(groups)s)"
    )
    parameters: dict[str, Value] = {"since": when.since_ms, "until": when.until_ms, "groups": groups}
    newest = client.ask(
        f"select {names}, max(time_ms), max(interval_ms) {of_groups} group by {names} limit {MOST_GROUPS}",
        parameters,
    ).rows
    late = client.ask(
        f"select {names}, max(time_ms), max(interval_ms), max(lag_ms), {sums} "
        f"{of_groups} and ({' + '.join(columns)} > 0 or lag_ms > %(least)s) "
        f"group by {names}, floor(time_ms / {_SLOT_MS}) limit {MOST_GROUPS}",
        {**parameters, "least": least_ms},
    ).rows
    found = [
        LateSecond(group, cluster, topic, int(time), int(every), 0, 0)
        for group, cluster, topic, time, every in newest
    ]
    for group, cluster, topic, time, every, lag, *counts in late:
        bounds = [(_bound_ms(one), one > own) for one, count in zip(buckets, counts, strict=True) if count]
        age = max(int(lag), 0, *(bound for bound, _ in bounds))
        waited = max(int(lag), 0, *(bound for bound, is_certain in bounds if is_certain))
        found.append(LateSecond(group, cluster, topic, int(time), int(every), age, waited))
    return found


def _bound_ms(bucket: int) -> int:
    return round(LATENCY_BOUNDS_MS[min(bucket, len(LATENCY_BOUNDS_MS) - 1)])

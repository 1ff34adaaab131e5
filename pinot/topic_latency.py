"""Queries the latency of thousands of topics for the monitor.

`arrived` and `lateness` run several times a minute. Both functions therefore return rows or columns of
numbers as received from Pinot, without an object per topic. If one number for all topics of a datastream is
enough, Pinot sums them: the result then has one row for each datastream instead of one row for each topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Final, NamedTuple, TypeAlias

from mirror.model.latency import LATENCY_BOUNDS_MS, LATENCY_BUCKETS, latency_bucket
from mirror.model.metrics import WAIT_SLOT_MS
from mirror.model.rows import HISTOGRAM_COLUMNS
from mirror.model.topics import EVERY_TOPIC
from pinot.client import PinotClient, Row, Value
from pinot.queries import HISTOGRAM_SUMS, MOST_GROUPS
from pinot.rows import checked_rows
from pinot.time_range import TimeRange

Place: TypeAlias = tuple[str, str, str]
"""Group of datastreams that share tasks, source cluster, and topic or `EVERY_TOPIC`."""
Together: TypeAlias = Collection[tuple[str, str]]
"""Groups and source clusters for which sums over all topics are enough."""

_MOST_AGES: Final = 20
"""Maximum number of ages per query."""
_SECOND_MS: Final = 1_000
_MOST_COUNTED: Final = 10**18
_MOST_NAMED: Final = 100
"""Maximum number of groups named in a query. A query for more groups covers all groups."""


@checked_rows
def arrived(client: PinotClient, when: TimeRange, together: Together = ()) -> list[Row]:
    """Return the latency histogram of each topic that has rows in the range.

    Columns: datastream (the group), source cluster, topic, records copied, and the `LATENCY_BUCKETS` counts
    of its histogram, all summed by Pinot. Each element of `together` has one row, with `EVERY_TOPIC` as the
    topic. Raises the errors of `PinotClient.ask`.
    """
    return _sums(client, f"sum(records_copied), {HISTOGRAM_SUMS}", when, together)


def _sums(client: PinotClient, columns: str, when: TimeRange, together: Together) -> list[Row]:
    if not together:
        return _grouped(client, "datastream, source_cluster, topic", columns, when)
    found, others = [], set()
    for row in _grouped(client, "datastream, source_cluster", columns, when):
        if (row[0], row[1]) in together:
            row.insert(2, EVERY_TOPIC)
            found.append(row)
        else:
            others.add(row[0])
    if others:
        named = sorted(others) if len(others) <= _MOST_NAMED else ()
        rows = _grouped(client, "datastream, source_cluster, topic", columns, when, named)
        found += [row for row in rows if (row[0], row[1]) not in together]
    return found


def _grouped(
    client: PinotClient, names: str, columns: str, when: TimeRange, groups: Sequence[str] = ()
) -> list[Row]:
    """Return measurements summed for each combination of the columns `names`. `groups`: restriction to some
    groups; empty for all."""
    parameters: dict[str, Value] = {"since": when.since_ms, "until": when.until_ms}
    only = ""
    if groups:
        parameters["groups"] = groups
        only = "and datastream in (%(groups)s) "
    rows = client.ask(
        f"select {names}, {columns} "  # noqa: S608
        f"from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s {only}"
        f"group by {names} limit {MOST_GROUPS}",
        parameters,
    ).rows
    first, width = names.count(",") + 1, len(rows[0]) if rows else 0
    for row in rows:
        if len(row) != width or not 0 <= sum(row[first:]) < _MOST_COUNTED:
            raise ValueError(f"invalid counts for {row[:first]}: {row[first:]}")
    return rows


@dataclass(frozen=True, slots=True)
class LateColumns:
    """Numbers of late records of topics, as columns of equal length.

    The keys of `beyond` and `within` are ages in ms. `beyond`: records in buckets above the bucket of the
    age; `within`: records in the bucket of the age.
    """

    places: Sequence[Place]
    records: Sequence[int]
    beyond: Mapping[int, Sequence[float]]
    within: Mapping[int, Sequence[float]]


@checked_rows
def lateness(
    client: PinotClient, when: TimeRange, ages_ms: Sequence[int], together: Together = ()
) -> LateColumns:
    """Return the numbers of late records for each topic that has rows in the range.

    Each element of `together` has one row. Raises the errors of `PinotClient.ask`.
    """
    parts = list(_parts(ages_ms))
    sums = ", ".join(f"sum({' + '.join(HISTOGRAM_COLUMNS[at] for at in part)})" for part in parts)
    rows = _sums(client, sums, when, together)
    if not rows:
        nothing: dict[int, Sequence[float]] = dict.fromkeys(ages_ms, ())
        return LateColumns((), (), nothing, nothing)
    groups, clusters, topics, *counts = zip(*rows, strict=True)
    own = {age: [latency_bucket(age) in part for part in parts].index(True) for age in ages_ms}
    return LateColumns(
        list(zip(groups, clusters, topics, strict=True)),
        list(map(int, _added(counts, len(topics)))),
        {age: _added(counts[at + 1 :], len(topics)) for age, at in own.items()},
        {age: counts[at] for age, at in own.items()},
    )


@checked_rows
def stale_by_topic(
    client: PinotClient, when: TimeRange, ages_ms: Sequence[int]
) -> Mapping[int, Mapping[Place, float]]:
    """Map each age (ms) to the seconds for which the records of each topic waited longer.

    Times are rounded to ten seconds, or to the interval of the measurements if that is longer. Pinot returns
    no rows for topics without waiting records of that age. Raises the errors of `PinotClient.ask`.
    """
    found: dict[int, dict[Place, float]] = {age: {} for age in ages_ms}
    for start in range(0, len(ages_ms), _MOST_AGES):
        ages = ages_ms[start : start + _MOST_AGES]
        for group, cluster, topic, interval, *numbers in _stale(client, when, ages):
            seconds = (interval if interval > WAIT_SLOT_MS else WAIT_SLOT_MS) / 1_000
            # Measurements that were not stale count as one additional slot.
            for age, slots, fine in zip(ages, numbers[::2], numbers[1::2], strict=True):
                if slots > fine:
                    found[age][group, cluster, topic] = (slots - fine) * seconds
    return found


def _stale(client: PinotClient, when: TimeRange, ages_ms: Sequence[int]) -> list[Row]:
    ages = {f"age{number}": age for number, age in enumerate(ages_ms)}
    columns = "".join(
        f", distinctcount(case when lag_ms > %({name})s then floor(time_ms / {WAIT_SLOT_MS}) else -1 end), "
        f"max(case when lag_ms > %({name})s then 0 else 1 end)"
        for name in ages
    )
    return client.ask(
        f"select datastream, source_cluster, topic, max(interval_ms){columns} "  # noqa: S608
        "from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s "
        "group by datastream, source_cluster, topic "
        f"having max(lag_ms) > %(least)s limit {MOST_GROUPS}",
        {"since": when.since_ms, "until": when.until_ms, "least": min(ages_ms), **ages},
    ).rows


def _parts(ages_ms: Iterable[int]) -> Iterator[range]:
    """Divide the latency buckets into ranges: one for the bucket of each age, and one for the buckets between
    ages."""
    begin = 0
    for own in sorted({latency_bucket(age) for age in ages_ms}):
        if own > begin:
            yield range(begin, own)
        yield range(own, own + 1)
        begin = own + 1
    if begin < LATENCY_BUCKETS:
        yield range(begin, LATENCY_BUCKETS)


def _added(columns: Sequence[Sequence[float]], length: int) -> Sequence[float]:
    """Return the sum of columns, row by row."""
    if not columns:
        return [0.0] * length
    total = columns[0]
    for column in columns[1:]:
        total = list(map(add, total, column))
    return total


PartitionPlace: TypeAlias = tuple[str, str, str, int]
"""Group, source cluster, topic and partition."""


@dataclass(frozen=True, slots=True)
class LateSecond:
    """Late records of a partition that were reported within one second.

    `time_ms`: time of the last report; `age_ms`: upper bound of the age of the oldest record that arrived or
    waited; `waited_ms`: the same bound for records that were certainly late.
    """

    place: PartitionPlace
    time_ms: int
    age_ms: int
    waited_ms: int


class NewestReport(NamedTuple):
    """Time of a partition's last report, and the longest interval between its reports."""

    time_ms: int
    interval_ms: int


class LateReports(NamedTuple):
    """Seconds in which late records were reported, and the time of each partition's last report."""

    late: list[LateSecond]
    newest: dict[PartitionPlace, NewestReport]


@checked_rows
def late_reports(client: PinotClient, when: TimeRange, groups: Sequence[str], least_ms: int) -> LateReports:
    """Return the seconds in which partitions may have reported records later than `least_ms`.

    Only partitions of the groups are included. Raises the errors of `PinotClient.ask`.
    """
    if not groups:
        return LateReports([], {})
    own = latency_bucket(least_ms)
    buckets = range(own, LATENCY_BUCKETS)
    columns = [HISTOGRAM_COLUMNS[number] for number in buckets]
    sums = ", ".join(f"sum({column})" for column in columns)
    names = "datastream, source_cluster, topic, kafka_partition"
    of_groups = (
        "from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s and datastream in (%(groups)s)"
    )
    parameters: dict[str, Value] = {"since": when.since_ms, "until": when.until_ms, "groups": groups}
    newest = client.ask(
        f"select {names}, max(time_ms), max(interval_ms) {of_groups} group by {names} limit {MOST_GROUPS}",
        parameters,
    ).rows
    may_be_late = " or ".join(f"{column} > 0" for column in columns)
    late = client.ask(
        f"select {names}, floor(time_ms / {_SECOND_MS}), max(time_ms), max(lag_ms), {sums} "
        f"{of_groups} and ({may_be_late} or lag_ms > %(least)s) "
        f"group by {names}, floor(time_ms / {_SECOND_MS}) limit {MOST_GROUPS}",
        {**parameters, "least": least_ms},
    ).rows
    seconds = []
    for row in late:
        _, time, lag, *counts = row[4:]
        bounds = [
            (_bound_ms(bucket), bucket > own) for bucket, count in zip(buckets, counts, strict=True) if count
        ]
        age = max(int(lag), 0, *(bound for bound, _ in bounds))
        waited = max(int(lag), 0, *(bound for bound, is_certain in bounds if is_certain))
        seconds.append(LateSecond(_place(row), int(time), age, waited))
    return LateReports(seconds, {_place(row): NewestReport(*map(int, row[4:])) for row in newest})


def _place(row: Row) -> PartitionPlace:
    group, cluster, topic = map(str, row[:3])
    return group, cluster, topic, int(row[3])


def _bound_ms(bucket: int) -> int:
    return round(LATENCY_BOUNDS_MS[min(bucket, len(LATENCY_BOUNDS_MS) - 1)])

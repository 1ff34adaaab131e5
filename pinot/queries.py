"""Queries to Pinot with typed results, one function for each query.

Values are passed as parameters of the client. Only the names of Headrace's own columns are inserted into the
text of a query. Every function raises the errors of `PinotClient.ask`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from mirror.model.latency import LATENCY_BUCKETS, percentile_ms
from mirror.model.metrics import ChangeKind, LaneInterval, PlacementEvent
from mirror.model.rows import HISTOGRAM_COLUMNS, UNKNOWN
from pinot.client import PinotClient, Row, Value
from pinot.rows import checked_rows
from pinot.tables import IncidentRow
from pinot.time_range import TimeRange

MOST_GROUPS: Final = 1_000_000
"""Limit of queries grouped by partition."""

_SILENT_MS: Final = 4_000
"""Time in addition to two report intervals, after which a lane with waiting records counts as silent."""
_HAVING_NEWS: Final = (
    "having lastwithtime(lag_ms, time_ms, 'long') > %(least)s "
    f"or lastwithtime(lag_ms, time_ms, 'long') = {UNKNOWN} "
    "or (lastwithtime(lag_records, time_ms, 'long') > 0 "
    "and max(time_ms) + 2 * lastwithtime(interval_ms, time_ms, 'long') < %(silent)s)"
)
HISTOGRAM_SUMS: Final = ", ".join(f"sum({column})" for column in HISTOGRAM_COLUMNS)


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Latency of records: those of a datastream, a task or a partition.

    If a query groups by datastream or by task, the names of the lower levels are empty. `counts` is the
    histogram of `mirror.model.metrics`; `p50_ms` and `p99_ms` are computed from it.
    """

    datastream: str
    task: str
    topic: str
    kafka_partition: int
    records: int
    bytes: int
    lag_records: int
    lag_ms: int | None
    counts: tuple[int, ...]

    @property
    def p50_ms(self) -> float | None:
        """Median latency in ms; None without records."""
        return percentile_ms(self.counts, 50)

    @property
    def p99_ms(self) -> float | None:
        """99th percentile of the latency in ms; None without records."""
        return percentile_ms(self.counts, 99)


def latency_by_datastream(client: PinotClient, when: TimeRange) -> list[LatencyRow]:
    """Return the latency of each datastream that copied records, summed over its partitions."""
    return _latency(client, ("datastream",), when, None)


def latency_by_task(client: PinotClient, when: TimeRange, datastream: str | None = None) -> list[LatencyRow]:
    """Return the latency of each task, either of one datastream or of all."""
    return _latency(client, ("datastream", "task"), when, datastream)


def latency_by_partition(
    client: PinotClient, when: TimeRange, datastream: str | None = None
) -> list[LatencyRow]:
    """Return the latency of each partition, either of one datastream or of all."""
    return _latency(client, ("datastream", "task", "topic", "kafka_partition"), when, datastream)


@checked_rows
def _latency(
    client: PinotClient, depth: Sequence[str], when: TimeRange, datastream: str | None
) -> list[LatencyRow]:
    parameters: dict[str, Value] = {"since": when.since_ms, "until": when.until_ms}
    only = ""
    if datastream is not None:
        parameters["datastream"] = datastream
        only = "and datastream = %(datastream)s"
    names = ", ".join(depth)
    answer = client.ask(
        f"select {names}, sum(records_copied), sum(bytes_copied), max(lag_records), max(lag_ms), "  # noqa: S608
        f"{HISTOGRAM_SUMS} "
        f"from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s {only} "
        f"group by {names} order by {names} limit {MOST_GROUPS}",
        parameters,
    )
    rows = []
    for row in answer.rows:
        named = dict(zip(depth, row, strict=False))
        numbers = [int(value) for value in row[len(depth) :]]
        rows.append(
            LatencyRow(
                datastream=named["datastream"],
                task=named.get("task", ""),
                topic=named.get("topic", ""),
                kafka_partition=int(named.get("kafka_partition", -1)),
                records=numbers[0],
                bytes=numbers[1],
                lag_records=numbers[2],
                lag_ms=_known(numbers[3]),
                counts=tuple(numbers[4 : 4 + LATENCY_BUCKETS]),
            )
        )
    return rows


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


@dataclass(frozen=True, slots=True)
class LagRow(LaneInterval):
    """Latest lag of one partition, and the number of records copied in the range of the query.

    Also contains the interval at whose end the lag was measured. `lag_ms` is None if unknown.
    """

    lag_records: int
    lag_ms: int | None
    records_copied: int


@checked_rows
def lag_by_partition(
    client: PinotClient, when: TimeRange, datastream: str | None = None, least_ms: int | None = None
) -> list[LagRow]:
    """Return the latest lag of each partition that reported one in the range, most copied records first.

    `least_ms`: return only partitions with records that have waited for longer than this, and partitions with
    waiting records that have not reported recently.
    """
    parameters: dict[str, Value] = {"since": when.since_ms, "until": when.until_ms}
    only = ""
    if datastream is not None:
        parameters["datastream"] = datastream
        only = "and datastream = %(datastream)s"
    having = ""
    if least_ms is not None:
        parameters |= {"least": least_ms, "silent": when.until_ms - _SILENT_MS}
        having = _HAVING_NEWS
    answer = client.ask(
        "select max(time_ms), lastwithtime(interval_ms, time_ms, 'long'), "  # noqa: S608
        "lastwithtime(instance, time_ms, 'string'), lastwithtime(task, time_ms, 'string'), datastream, "
        "lastwithtime(source_cluster, time_ms, 'string'), topic, kafka_partition, "
        "lastwithtime(lag_records, time_ms, 'long'), lastwithtime(lag_ms, time_ms, 'long'), "
        "sum(records_copied) "
        f"from mirrorMetrics where time_ms >= %(since)s and time_ms < %(until)s {only} "
        f"group by datastream, topic, kafka_partition {having} limit {MOST_GROUPS}",
        parameters,
    )
    rows = [
        LagRow(int(at), int(every), i, task, d, c, t, int(n), int(records), _known(int(age)), int(copied))
        for at, every, i, task, d, c, t, n, records, age, copied in answer.rows
    ]
    return sorted(rows, key=lambda row: (-row.lag_records, row.datastream, row.topic, row.kafka_partition))


_EVENT_COLUMNS: Final = tuple(field.name for field in fields(PlacementEvent))


@checked_rows
def placement_events(
    client: PinotClient,
    when: TimeRange,
    *,
    datastream: str | None = None,
    kind: ChangeKind | None = None,
    limit: int = 1000,
) -> list[PlacementEvent]:
    """Return placement changes and their reasons, newest first; at most `limit` events."""
    parameters: dict[str, Value] = {"since": when.since_ms, "until": when.until_ms}
    conditions = ""
    for name, value in (("datastream", datastream), ("kind", kind)):
        if value is not None:
            parameters[name] = value
            conditions += f" and {name} = %({name})s"
    answer = client.ask(
        f"select {', '.join(_EVENT_COLUMNS)} from placementEvents "  # noqa: S608
        f"where time_ms >= %(since)s and time_ms < %(until)s{conditions} "
        f"order by time_ms desc, event_key limit {int(limit)}",
        parameters,
    )
    return [_event(row) for row in answer.rows]


def _event(row: Row) -> PlacementEvent:
    event = PlacementEvent(*row)
    is_known = event.bytes_per_second is not None and event.bytes_per_second >= 0
    rate = event.bytes_per_second if is_known else None
    return replace(event, kind=ChangeKind(event.kind), bytes_per_second=rate)


_INCIDENT_COLUMNS: Final = tuple(field.name for field in fields(IncidentRow))


@checked_rows
def incidents(
    client: PinotClient, when: TimeRange, datastream: str | None = None, limit: int = 1000
) -> list[IncidentRow]:
    """Return the incidents that changed in the range in their latest state, newest first."""
    parameters: dict[str, Value] = {"since": when.since_ms, "until": when.until_ms}
    only = ""
    if datastream is not None:
        parameters["datastream"] = datastream
        only = "and datastream = %(datastream)s"
    answer = client.ask(
        f"select {', '.join(_INCIDENT_COLUMNS)} from incidents "  # noqa: S608
        f"where changed_ms >= %(since)s and changed_ms < %(until)s {only} "
        f"order by opened_ms desc, id limit {int(limit)}",
        parameters,
    )
    return [_incident(IncidentRow(*row)) for row in answer.rows]


def _incident(row: IncidentRow) -> IncidentRow:
    """Return a row of an incident, in which unknown values (-1) are replaced by None."""

    def known(value: float | None) -> float | None:
        return None if value == UNKNOWN else value

    closed_ms = None if row.closed_ms == UNKNOWN else row.closed_ms
    delivered = None if row.records_delivered == UNKNOWN else row.records_delivered
    return replace(
        row,
        closed_ms=closed_ms,
        worst_ms=known(row.worst_ms),
        budget_spent=known(row.budget_spent),
        records_delivered=delivered,
        records_late=known(row.records_late),
    )


@dataclass(frozen=True, slots=True)
class MirrorRateRow:
    """Rates at which the mirror copied a partition: fetched bytes and records per second.

    `covered_ms`: time that the rates cover; `newest_ms`: end of that time.
    """

    topic: str
    kafka_partition: int
    bytes_per_second: float
    messages_per_second: float
    covered_ms: float
    newest_ms: int


@checked_rows
def mirror_rates(
    client: PinotClient, source_cluster: str, when: TimeRange, topics: Sequence[str], most_lag_ms: float
) -> list[MirrorRateRow]:
    """Return the copy rates of partitions that kept up: their lag was always known and below `most_lag_ms`.

    The mirror copied such partitions as fast as records arrived.
    """
    if not topics:
        return []
    answer = client.ask(
        "select topic, kafka_partition, sum(bytes_copied), sum(records_copied), sum(interval_ms), "  # noqa: S608
        "distinctcount(datastream), max(time_ms) "
        "from mirrorMetrics where source_cluster = %(cluster)s and topic in (%(topics)s) "
        "and time_ms >= %(since)s and time_ms < %(until)s "
        "group by topic, kafka_partition "
        f"having max(lag_ms) < %(lag)s and min(lag_ms) >= 0 limit {MOST_GROUPS}",
        {
            "cluster": source_cluster,
            "topics": list(topics),
            "since": when.since_ms,
            "until": when.until_ms,
            "lag": int(most_lag_ms),
        },
    )
    return [
        MirrorRateRow(
            topic, int(number), size * 1000 / lasted, records * 1000 / lasted, lasted / streams, int(newest)
        )
        for topic, number, size, records, lasted, streams, newest in answer.rows
        if lasted > 0
    ]

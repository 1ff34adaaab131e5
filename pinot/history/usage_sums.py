"""Queries for daily sums of the mirror's measurements."""

from __future__ import annotations

from typing import Final

from pinot.client import PinotClient
from pinot.history.points import UsageSum
from pinot.rows import checked_rows
from pinot.time_range import TimeRange

MOST_SUMS: Final = 200_000
"""Maximum number of rows (one per topic and day) in one result."""


@checked_rows
def usage_sums(client: PinotClient, when: TimeRange) -> list[UsageSum]:
    """Return the usage sums of each group, topic and day in the range. Raises the errors of
    `PinotClient.ask`."""
    answer = client.ask(
        "select datetrunc('DAY', time_ms), datastream, source_cluster, topic, sum(records_copied), "  # noqa: S608
        "sum(bytes_copied), sum(batches), sum(cpu_ms) from mirrorMetrics "
        "where time_ms >= %(since)s and time_ms < %(until)s "
        "group by datetrunc('DAY', time_ms), datastream, source_cluster, topic "
        f"having sum(records_copied) > 0 limit {MOST_SUMS}",
        {"since": when.since_ms, "until": when.until_ms},
    )
    return [
        UsageSum(
            int(day), group, cluster, topic, int(records), int(size), int(batches), max(float(cpu_ms), 0.0)
        )
        for day, group, cluster, topic, records, size, batches, cpu_ms in answer.rows
    ]

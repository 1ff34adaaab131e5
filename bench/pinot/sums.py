"""Time of the queries for the hourly loads of a fleet: one for each datastream, over 28 days of rollups.

A leader sends these queries before its first forecast. `DATASTREAMS` and `TOPICS` (topics of ten partitions
for each datastream) set other numbers.
"""

from __future__ import annotations

import os
import statistics
import time
from contextlib import closing

from assigner.advice.past import half_of
from bench.pmp.rig.metrics_load import CLUSTER, PARTITIONS_OF_TOPIC, START_MS, servers, spark
from bench.pmp.rig.rows import wait_for_rows, write_hours
from pinot.client import PinotClient
from pinot.partitions.rollups import HOUR_MS
from pinot.partitions.sums import TaskRoom, hourly_sums
from pinot.tables import PARTITION_METRICS_HOURLY
from pinot.time_range import TimeRange

HOURS = 28 * 24
_USABLE = 10_000_000
_WHEN = TimeRange(START_MS - (HOURS - 1) * HOUR_MS, START_MS + HOUR_MS)


def main() -> None:
    """Write the rollups, and print the time of the queries, one after the other."""
    datastreams, topics = (int(os.environ.get(*pair)) for pair in (("DATASTREAMS", "500"), ("TOPICS", "4")))
    partitions = datastreams * topics * PARTITIONS_OF_TOPIC
    with servers(pinot_heap_mib=8000) as made:
        began = time.monotonic()
        session = spark()
        try:
            rows = write_hours(session, made, CLUSTER, partitions, HOURS)
        finally:
            session.stop()
        with closing(PinotClient(made.pinot_settings)) as client:
            wait_for_rows(client, PARTITION_METRICS_HOURLY.name, rows)
            print(f"{rows:,} hourly rows in Pinot after {time.monotonic() - began:.0f} s", flush=True)
            for attempt in ("first", "second"):
                _ask_for_all(client, attempt, datastreams, topics)


def _ask_for_all(client: PinotClient, attempt: str, datastreams: int, topics: int) -> None:
    room = TaskRoom(_USABLE, None, half_of(_USABLE))
    took, processor = [], time.process_time()
    for number in range(datastreams):
        named = {f"topic-{number * topics + place:06d}" for place in range(topics)}
        began = time.monotonic()
        found = hourly_sums(client, CLUSTER, _WHEN, named, room)
        took.append(time.monotonic() - began)
        partitions = {sums.partitions for sums in found.values()}
        assert len(found) == HOURS, f"{len(found)} hours"
        assert partitions == {topics * PARTITIONS_OF_TOPIC}, partitions
    rows = topics * PARTITIONS_OF_TOPIC * HOURS
    print(
        f"{attempt} time: {datastreams} queries over {rows:,} rows each take {sum(took):.1f} s "
        f"(median {statistics.median(took) * 1e3:.0f} ms, longest {max(took) * 1e3:.0f} ms), "
        f"and {time.process_time() - processor:.1f} s of processor time of the client",
        flush=True,
    )

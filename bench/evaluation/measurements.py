"""Reads bytes, records and latency of both fleets from Pinot: for each task, instance and window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from bench.evaluation.course import Course, HostObservation
from bench.evaluation.records import WINDOW_SECONDS, HostLoad, Recording, TaskLoad, WindowLatency
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.rows import HISTOGRAM_COLUMNS
from pinot.client import PinotClient, Row

_LIMIT: Final = 1_000_000
_CHUNK_SECONDS: Final = 4 * WINDOW_SECONDS
_COLUMNS: Final = ("sum(bytes_copied)", "sum(records_copied)", *(f"sum({one})" for one in HISTOGRAM_COLUMNS))


def recording(client: PinotClient, course: Course, seconds: int, fleets: Sequence[str]) -> Recording:
    """Return the sums over whole windows; an incomplete window at the end of `seconds` is dropped."""
    sizes: dict[tuple[int, str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    counts: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0] * LATENCY_BUCKETS)
    whole = seconds // WINDOW_SECONDS * WINDOW_SECONDS
    for since in range(0, whole, _CHUNK_SECONDS):
        for row in _rows(client, course.began_ms, since, min(since + _CHUNK_SECONDS, whole), fleets):
            fleet, instance, task, at = row[:4]
            second = (int(at) - course.began_ms) // 1000 // WINDOW_SECONDS * WINDOW_SECONDS
            numbers = [int(value) for value in row[4:]]
            copied = sizes[second, fleet, instance, task]
            copied[0] += numbers[0]
            copied[1] += numbers[1]
            histogram = counts[second, fleet]
            for bucket, count in enumerate(numbers[2 : 2 + LATENCY_BUCKETS]):
                histogram[bucket] += count
    loads = [TaskLoad(*key, *copied) for key, copied in sorted(sizes.items())]
    latencies = [WindowLatency(*key, tuple(found)) for key, found in sorted(counts.items())]
    return Recording(loads, latencies, course.plans, host_loads(course.hosts, loads, whole))


def host_loads(
    observations: Sequence[HostObservation], loads: Sequence[TaskLoad], seconds: int
) -> list[HostLoad]:
    """Return the work of each instance in each whole window, from its counters and the loads of its tasks."""
    seen: dict[tuple[int, str, str], list[HostObservation]] = defaultdict(list)
    for observation in observations:
        second = int(observation.second) // WINDOW_SECONDS * WINDOW_SECONDS
        if second < seconds:
            seen[second, observation.fleet, observation.instance].append(observation)
    copied: dict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for load in loads:
        sums = copied[load.second, load.fleet, load.instance]
        sums[0] += load.bytes
        sums[1] += load.records
    return [
        HostLoad(
            *key,
            some[0].weight,
            round(fmean(observation.tasks for observation in some), 2),
            sum(observation.inbound_bytes for observation in some),
            *copied[key],
        )
        for key, some in sorted(seen.items())
    ]


def _rows(client: PinotClient, began_ms: int, since: int, until: int, fleets: Sequence[str]) -> list[Row]:
    answer = client.ask(
        f"select datastream, instance, task, time_ms, {', '.join(_COLUMNS)} from mirrorMetrics "
        "where time_ms >= %(since)s and time_ms < %(until)s and datastream in (%(fleets)s) "
        f"group by datastream, instance, task, time_ms limit {_LIMIT}",
        {
            "since": began_ms + since * 1000,
            "until": began_ms + until * 1000,
            "fleets": list(fleets),
        },
    )
    return answer.rows

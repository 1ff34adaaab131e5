"""Prometheus metrics made from Spark's reports."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client import generate_latest

from pmp.job.job_metrics import OBSERVATION, JobMetrics, expired, unseen

PROGRESS: dict[str, Any] = {
    "numInputRows": 12,
    "durationMs": {"triggerExecution": 1500},
    "sources": [
        {
            "endOffset": {"samples": {"0": 10, "1": 5}},
            "latestOffset": json.dumps({"samples": {"0": 17, "1": 5}, "new": {"0": 2}}),
        }
    ],
    "observedMetrics": {
        OBSERVATION: {"good": 9, "newest_ms": 1_795_000_000_000, "short": 2, "time": None, "too_old": 3}
    },
}


def value_of(metrics: JobMetrics, line: str) -> float:
    for text in generate_latest(metrics.registry).decode().splitlines():
        if text.startswith(line + " "):
            return float(text.rpartition(" ")[2])
    raise AssertionError(f"no {line}")


def test_reports_add_up() -> None:
    metrics = JobMetrics()
    metrics.record("east", PROGRESS, 5000)
    metrics.record("east", PROGRESS, 6000)
    assert value_of(metrics, 'headrace_pmp_records_read_total{cluster="east"}') == 24
    assert value_of(metrics, 'headrace_pmp_samples_written_total{cluster="east"}') == 18
    assert value_of(metrics, 'headrace_pmp_malformed_total{cluster="east",reason="short"}') == 4
    assert value_of(metrics, 'headrace_pmp_samples_too_old_total{cluster="east"}') == 6
    assert value_of(metrics, 'headrace_pmp_lag_records{cluster="east"}') == 9
    assert value_of(metrics, 'headrace_pmp_batch_duration_seconds{cluster="east"}') == 1.5
    assert value_of(metrics, 'headrace_pmp_last_batch_timestamp_seconds{cluster="east"}') == 6
    assert value_of(metrics, 'headrace_pmp_newest_sample_timestamp_seconds{cluster="east"}') == 1_795_000_000


@pytest.mark.parametrize(
    ("begun", "read", "rows", "lost"),
    [
        ({"s": {"0": 10, "1": 5}}, {"s": {"0": 20, "1": 5}}, 10, 0),
        ({"s": {"0": 10, "1": 5}}, {"s": {"0": 20, "1": 9}}, 8, 6),
        ({"s": {"0": 10}}, {"s": {"0": 20}}, 0, 10),
        ({"s": {"0": 10}}, {"s": {"0": 3}}, 0, 0),
        ({"s": {"0": 10}}, {"t": {"0": 3}}, 3, 0),
        (None, {"s": {"0": 20}}, 4, 0),
        ({"s": {"0": 10}}, None, 0, 0),
    ],
)
def test_offsets_without_a_record_are_expired_ones(begun: Any, read: Any, rows: int, lost: int) -> None:
    source = {"startOffset": begun, "endOffset": json.dumps(read), "numInputRows": rows}
    assert expired({"sources": [source]}) == lost
    metrics = JobMetrics()
    metrics.record("east", {**PROGRESS, "sources": [source]}, 5000)
    assert value_of(metrics, 'headrace_pmp_expired_records_total{cluster="east"}') == lost


def test_an_empty_report_leaves_the_last_batch_alone() -> None:
    metrics = JobMetrics()
    metrics.record("east", PROGRESS, 5000)
    metrics.record("east", {"numInputRows": 0, "sources": [{"endOffset": None, "latestOffset": None}]}, 9000)
    assert value_of(metrics, 'headrace_pmp_last_batch_timestamp_seconds{cluster="east"}') == 5
    assert value_of(metrics, 'headrace_pmp_lag_records{cluster="east"}') == 0


def test_a_cluster_that_is_gone_leaves_no_gauge() -> None:
    metrics = JobMetrics()
    metrics.set_up("east", True)
    metrics.record("east", PROGRESS, 5000)
    metrics.forget("east")
    assert 'headrace_pmp_up{cluster="east"}' not in generate_latest(metrics.registry).decode()
    metrics.forget("never-seen")


class Report:
    """A progress report of Spark."""

    def __init__(self, timestamp: str) -> None:
        self.timestamp = timestamp


def test_reports_are_counted_once_and_also_after_the_clock_was_set_back() -> None:
    first, second, third = map(
        Report, ("2026-01-01T10:00:00.000Z", "2026-01-01T10:00:10.000Z", "2026-01-01T09:00:00.000Z")
    )
    assert unseen([], "") == []
    assert unseen([first, second], "") == [first, second]
    assert unseen([first, second], second.timestamp) == []
    assert unseen([first, second, third], second.timestamp) == [third]
    assert unseen([first, second, third], third.timestamp) == []
    assert unseen([third], second.timestamp) == [third], "of the query that was started again"

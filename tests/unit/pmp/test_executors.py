"""Executors that Spark lost, and an application without any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from mirror.errors import AnalyticsError
from mirror.loggers import set_threshold
from pmp.job.executors import Executor, ExecutorWatch
from pmp.job.job_metrics import JobMetrics

FIRST, SECOND = Executor("0", "10.0.0.21:1"), Executor("1", "10.0.0.22:1")


def lost(executor: Executor, reason: str = "Command exited with code 137") -> Executor:
    return Executor(executor.name, executor.address, is_active=False, removal=reason)


def numbers(metrics: JobMetrics) -> tuple[float | None, float | None]:
    """Return the number of executors and of lost ones; None for a metric that is not exported."""
    read = metrics.registry.get_sample_value
    return read("headrace_pmp_executors"), read("headrace_pmp_lost_executors_total")


def test_a_lost_executor_is_counted_and_named_once() -> None:
    metrics = JobMetrics()
    watch = ExecutorWatch(metrics, 300)
    with capture_logs() as logs:
        watch.update([FIRST, SECOND], 0)
        for now in (1, 2, 3):
            watch.update([lost(FIRST), SECOND, Executor("2", "10.0.0.21:2")], now)
    assert numbers(metrics) == (2, 1)
    (line,) = logs
    assert (line["executor"], line["address"], line["remaining"]) == ("0", "10.0.0.21:1", 2)
    assert "137" in line["reason"]


def test_local_mode_exports_nothing() -> None:
    assert numbers(JobMetrics()) == (None, None)


def test_a_reason_of_many_lines_is_one_line() -> None:
    with capture_logs() as logs:
        ExecutorWatch(JobMetrics(), 300).update([lost(FIRST, "a\n\tb\r\n" + "é" * 9_999)], 0)
    assert logs[0]["reason"].startswith("a b é")
    assert len(logs[0]["reason"]) <= 200


def test_an_absence_is_reported_once_and_ends_the_job_after_five_minutes() -> None:
    watch = ExecutorWatch(JobMetrics(), 300)
    watch.update([FIRST], 0)
    with capture_logs() as logs:
        for now in range(1, 300):
            watch.update([lost(FIRST)], now)
        with pytest.raises(AnalyticsError):
            watch.update([lost(FIRST)], 301)
    assert [one["event"].partition(":")[0].partition(";")[0] for one in logs] == [
        "executor lost",
        "no executor",
    ]


def test_executors_that_return_end_the_absence() -> None:
    watch = ExecutorWatch(JobMetrics(), 300)
    set_threshold("info")
    with capture_logs() as logs:
        for now in (0, 20, 299):
            watch.update([lost(FIRST)], now)
        watch.update([lost(FIRST), SECOND], 300)
        watch.update([lost(FIRST), lost(SECOND)], 301)
        watch.update([lost(FIRST), lost(SECOND)], 599)
    started = [one for one in logs if one["event"] == "executors started"]
    assert [one["seconds"] for one in started] == [300]


def test_a_job_that_waits_for_its_first_executor_does_not_end() -> None:
    metrics = JobMetrics()
    with capture_logs() as logs:
        watch = ExecutorWatch(metrics, 300)
        for now in (0, 20, 40_000):
            watch.update([], now)
    assert len(logs) == 1
    assert numbers(metrics) == (0, 0)


def test_executors_that_dynamic_allocation_releases_are_not_lost() -> None:
    metrics = JobMetrics()
    watch = ExecutorWatch(metrics, 300, is_dynamic=True)
    with capture_logs() as logs:
        watch.update([FIRST, SECOND], 0)
        watch.update([lost(FIRST, "Executor killed by driver."), lost(SECOND)], 10)
        watch.update([lost(FIRST, "Executor killed by driver."), lost(SECOND)], 40_000)
    assert numbers(metrics) == (0, 1)
    assert [one["executor"] for one in logs] == ["1"]


@given(st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=6), max_size=12))
def test_whatever_spark_reports_each_loss_counts_once(looks: list[list[tuple[str, bool]]]) -> None:
    metrics = JobMetrics()
    watch = ExecutorWatch(metrics, 300)
    with capture_logs():
        for now, found in enumerate(looks):
            watch.update([Executor(name, "", is_active) for name, is_active in found], now)
    gone = {name for found in looks for name, is_active in found if not is_active}
    assert numbers(metrics)[1] == (len(gone) if looks else None)

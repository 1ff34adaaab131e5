"""Watches the executors of the Spark application.

Spark replaces a lost executor and repeats its tasks, so a loss needs no action. An application without
executors waits for a Spark worker. If the Spark master has restarted without its state, the application waits
forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from mirror.errors import AnalyticsError
from mirror.loggers import get_logger
from pmp.job.job_metrics import JobMetrics

_log = get_logger(__name__)

_DRIVER: Final = "driver"
_RELEASED: Final = "killed by driver"
"""Text in the reason of an executor that dynamic allocation released."""
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_SHORTEST_ABSENCE_SECONDS: Final = 15.0
"""Time within which executors start if workers have free cores."""
_LOCAL: Final = "local"


@dataclass(frozen=True)
class Executor:
    """An executor of the application, running or lost."""

    name: str
    address: str
    is_active: bool = True
    removal: str = ""
    """Spark's reason for the removal of the executor; empty while it is active."""


class ExecutorWatch:
    """Reports each lost executor once, and how long the application has had no executor."""

    def __init__(self, metrics: JobMetrics, wait_seconds: float, *, is_dynamic: bool = False) -> None:
        """`wait_seconds`: `executor_wait_seconds` of the settings.

        `is_dynamic`: Spark releases idle executors, so having none is normal.
        """
        self._metrics = metrics
        self._wait_seconds = wait_seconds
        self._is_dynamic = is_dynamic
        self._lost: set[str] = set()
        self._none_since: float | None = None
        self._is_told = False
        self._had_any = False

    def update(self, executors: Iterable[Executor], now: float) -> None:
        """Compare the executors with the executors of the last call. `now`: monotonic seconds. Raises
        AnalyticsError if the application had executors before but none for `wait_seconds`."""
        known = list(executors)
        active = sum(executor.is_active for executor in known)
        self._metrics.set_executors(active)
        for executor in known:
            if not executor.is_active and executor.name not in self._lost:
                self._lost.add(executor.name)
                self._note_loss(executor, active)
        self._had_any = self._had_any or bool(known)
        if active or self._is_dynamic:
            self._end_absence(now)
        else:
            self._judge_absence(now)

    def _note_loss(self, executor: Executor, remaining: int) -> None:
        if self._is_dynamic and _RELEASED in executor.removal:
            return
        self._metrics.count_lost_executor()
        _log.warning(
            "executor lost; Spark repeats its tasks",
            executor=executor.name,
            address=executor.address,
            reason=" ".join(executor.removal.split())[:200],
            remaining=remaining,
        )

    def _end_absence(self, now: float) -> None:
        if self._is_told and self._none_since is not None:
            _log.info("executors started", seconds=round(now - self._none_since))
        self._none_since, self._is_told = None, False

    def _judge_absence(self, now: float) -> None:
        if self._none_since is None:
            self._none_since = now
        absent = now - self._none_since
        if absent >= _SHORTEST_ABSENCE_SECONDS and not self._is_told:
            self._is_told = True
            _log.warning(
                "no executor: samples wait",
                advice="start a Spark worker with free cores and memory. A master that restarted without its "
                f"state gives this application none; the job ends after {self._wait_seconds:.0f} s to "
                "register again",
            )
        if absent >= self._wait_seconds and self._had_any:
            raise AnalyticsError(
                f"no Spark executor for {self._wait_seconds:.0f} s",
                advice="check Spark's master and workers, and start the job again: it resumes from its "
                "checkpoint",
            )


def watch_of(session: SparkSession, metrics: JobMetrics, wait_seconds: float) -> ExecutorWatch | None:
    """Return a watch for the executors of a session's Spark application; None in local mode.

    Local mode has no executors.
    """
    context = session.sparkContext
    if str(context.master).startswith(_LOCAL):
        return None
    is_dynamic = context.getConf().get(_DYNAMIC, "false") == "true"
    return ExecutorWatch(metrics, wait_seconds, is_dynamic=is_dynamic)


def executors_of(session: SparkSession) -> list[Executor]:
    """Return the executors known to Spark, including up to 100 lost ones. Raises the errors in `GONE` if
    Spark has ended."""
    context: Any = session.sparkContext
    return list(_executors(context._jsc.sc().statusStore().executorList(False)))  # noqa: SLF001 no other way


def _executors(summaries: Any) -> Iterator[Executor]:
    found = summaries.iterator()
    while found.hasNext():
        executor = found.next()
        if executor.id() != _DRIVER:
            reason = executor.removeReason()
            yield Executor(
                executor.id(),
                executor.hostPort(),
                bool(executor.isActive()),
                reason.get() if reason.isDefined() else "",
            )

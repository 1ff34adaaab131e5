"""Keeps one streaming query running for each cluster, according to the current configuration.

A failed query is restarted after a delay, which doubles after each failure. Other queries are not affected.
The log has one line when a cluster becomes unreadable and one when it recovers. Several queries start in
parallel. The configuration is reloaded regularly, so clusters can be added and removed without a restart.

A stop signal that is sent to all processes may end Spark's processes at any time. The job treats the end of
Spark by a signal as a regular stop, and repeats uncommitted work at the next start. If Spark ends without a
signal, the job has failed.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mirror.errors import AnalyticsError, ConfigError, HeadraceError
from mirror.loggers import get_logger
from mirror.ports import Clock
from mirror.repeats import RepeatedErrors
from pmp.adapters.checkpoint_facts import hold_to_facts
from pmp.adapters.checkpoint_locks import CheckpointLocks
from pmp.job.executors import ExecutorWatch, executors_of, watch_of
from pmp.job.first_samples import awaited
from pmp.job.job_metrics import JobMetrics, expired, unseen
from pmp.job.spark_session import GONE, is_alive
from pmp.job.streams import Configuration, QueryStream, start_stream, streams
from pmp.rounds import ThreadService
from pmp.settings import JobSettings, PmpSettings

_log = get_logger(__name__)

_AT_ONCE: Final = 8
"""Maximum number of queries that start at the same time. The start of a query waits until the driver has
planned the query and created its folder."""
_TICK_SECONDS: Final = 0.5
_EXECUTORS_SECONDS: Final = 2.0
"""Interval between checks of the executors. A check takes a millisecond per executor."""
_LONGEST_WAIT_SECONDS: Final = 60.0
_SILENCE_SECONDS: Final = 20.0
"""Time without a progress report after which a query counts as stuck.

Spark reports every 10 s even if idle; only a batch in progress can take longer.
"""
_LONGEST_BATCH_SECONDS: Final = 600.0
_SIGNAL_SECONDS: Final = 2.0
"""Maximum time from the end of Spark by a signal until this process handles the signal."""
_NO_CLUSTER: Final = ""
"""Key for all clusters in `_waits`."""
_RUN: Final = re.compile(r"\[id = [^\]]*\] ")


@dataclass
class RunningQuery:
    """State of one cluster's streaming query. Times are monotonic seconds."""

    stream: QueryStream
    query: StreamingQuery | None = None
    starting: Future[StreamingQuery] | None = None
    problem: str = ""
    failures: int = 0
    not_before: float = 0.0
    reported_at: float = 0.0
    last_report: str = ""


class PmpService(ThreadService):
    """The Spark job as a service: `start` starts the queries, `stop` ends them after their current
    batches."""

    def __init__(
        self,
        session: SparkSession,
        configuration: Callable[[], Configuration],
        clock: Clock,
        metrics: JobMetrics | None = None,
        stopped: threading.Event | None = None,
    ) -> None:
        """`stopped`: event that a stop signal sets.

        Processes ended by the signal therefore do not count as failed.
        """
        super().__init__("pmp")
        self._stopping = stopped or self._stopping
        self._session = session
        self._configuration = configuration
        self._clock = clock
        self._metrics = metrics or JobMetrics()
        self._executors: ExecutorWatch | None = None
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="pmp-start")
        self._locks: CheckpointLocks | None = None
        self._running: dict[str, RunningQuery] = {}
        self._settings: PmpSettings | None = None
        self._next_reload = 0.0
        self._next_look = 0.0
        self._refused = ""
        self._outages: RepeatedErrors[str] = RepeatedErrors()
        self._waits: RepeatedErrors[str] = RepeatedErrors()

    def start(self) -> None:
        """Load the configuration, and start the queries of all clusters.

        Raises ConfigError, also if the checkpoint was created with other settings.
        """
        self._reload()
        settings = self._known_settings.job
        self._locks = CheckpointLocks(settings.checkpoint_folder)
        self._executors = watch_of(self._session, self._metrics, settings.executor_wait_seconds)
        super().start()

    def problems(self) -> dict[str, str]:
        """Return the problem of each cluster that is not read, and of the `configuration`; empty if there are
        none."""
        found = {name: running.problem for name, running in self._running.items() if running.problem}
        return found | ({"configuration": self._refused} if self._refused else {})

    @property
    def _known_settings(self) -> PmpSettings:
        assert self._settings is not None, "start comes first"
        return self._settings

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_TICK_SECONDS):
                self._tick()
        except Exception as error:  # noqa: BLE001 - top of a service loop
            self._ended_by(error)
        finally:
            list(self._pool.map(self._end, list(self._running)))
            self._pool.shutdown()

    def _ended_by(self, error: Exception) -> None:
        """Handle an error that does not come from a cluster's streaming query."""
        if is_alive(self._session):
            self.failure = error
            if not isinstance(error, HeadraceError):
                _log.exception("job failed")
        elif self._stopping.wait(_SIGNAL_SECONDS):
            _log.info("Spark was stopped by the signal; the next start repeats unfinished batches")
        else:
            self.failure = AnalyticsError(
                "Spark ended unexpectedly",
                advice=f"{self._more_in_log} If it lacked memory, raise {self._driver_memory}; "
                "start the job again: it resumes from its checkpoint".strip(),
            )
            self.failure.__cause__ = error

    @property
    def _more_in_log(self) -> str:
        """Return a sentence that names Spark's log file, or an empty string."""
        log = self._known_settings.job.written_log
        return f"Spark's own log is {log}." if log else ""

    @property
    def _driver_memory(self) -> str:
        """Name of the setting for the heap size of Spark's driver."""
        is_ours = bool(self._known_settings.job.master)
        return "pmp.job.driver_memory" if is_ours else "--driver-memory of spark-submit"

    def _tick(self) -> None:
        now = self._clock.monotonic()
        if now >= self._next_reload:
            try:
                self._reload()
            except HeadraceError as error:
                if str(error) != self._refused:
                    _log.warning("configuration rejected", problem=str(error))
                self._refused = str(error)
            else:
                self._refused = ""
            self._next_reload = now + self._known_settings.job.reload_interval_seconds
        if self._executors is not None and now >= self._next_look:
            self._executors.update(executors_of(self._session), now)
            self._next_look = now + _EXECUTORS_SECONDS
        for name, running in self._running.items():
            if running.starting is not None:
                self._take_over(name, running, running.starting)
            elif running.query is None and now >= running.not_before:
                running.starting = self._pool.submit(self._launch, name, running.stream)
            if running.query is not None:
                self._look_after(name, running, running.query, now)
            self._metrics.set_up(name, running.query is not None and not running.problem)

    def _reload(self) -> None:
        configuration = self._configuration()
        wanted = streams(configuration)
        self._hold_to_facts(configuration.settings.job)
        self._settings = configuration.settings
        for name in list(self._running):
            if wanted.get(name) != self._running[name].stream:
                _log.info("cluster removed or changed", cluster=name)
                self._end(name)
        for name, stream in wanted.items():
            if name not in self._running:
                self._running[name] = RunningQuery(stream)
        self._log_empty_input()

    def _log_empty_input(self) -> None:
        now = self._clock.monotonic()
        if self._running:
            self._waits.succeeded(_NO_CLUSTER, now)
        elif self._waits.failed(_NO_CLUSTER, "", now):
            _log.warning(
                "no cluster to read",
                advice="add one as [pmp.clusters.ALIAS], or set enabled = true; with several shards, "
                "another driver may read them all",
            )

    def _hold_to_facts(self, job: JobSettings) -> None:
        """Raise ConfigError if a setting has changed that the checkpoint does not allow to change."""
        before = None if self._settings is None else self._settings.job
        if before is not None and before.checkpoint_folder != job.checkpoint_folder:
            raise ConfigError(
                f"pmp.job.checkpoint_folder was changed to {job.checkpoint_folder} while the job is running",
                advice="restart the job",
            )
        if before is None or before.buckets != job.buckets:
            hold_to_facts(self._session, job.checkpoint_folder.rstrip("/"), job.buckets)

    def _launch(self, name: str, stream: QueryStream) -> StreamingQuery:
        """Start the streaming query of a cluster. Runs in a thread of the pool."""
        assert self._locks is not None, "start comes first"
        self._locks.take(f"cluster {name}")
        return start_stream(self._session, self._known_settings, stream)

    def _take_over(self, name: str, running: RunningQuery, starting: Future[StreamingQuery]) -> None:
        """Record the streaming query when it has started, or the reason why it could not start."""
        if not starting.done():
            return
        running.starting = None
        try:
            running.query = starting.result()
        except (PySparkException, HeadraceError, *GONE) as error:
            self._note_failure(name, running, error)
        else:
            running.reported_at = self._clock.monotonic()
            _log.info("reading samples", cluster=name, servers=running.stream.source.bootstrap_servers)

    def _look_after(self, name: str, running: RunningQuery, query: StreamingQuery, now: float) -> None:
        """Record the progress of a streaming query, and handle its end or a lack of progress."""
        if not query.isActive:
            self._note_failure(name, running, query.exception())
            return
        for progress in unseen(query.recentProgress, running.last_report):
            running.last_report, running.reported_at = progress.timestamp, now
            running.problem, running.failures = "", 0
            self._note_success(name, now)
            report = json.loads(progress.json)
            self._metrics.record(name, report, self._clock.now_ms())
            self._log_backlog(name, running.stream, report, now)
            if lost := expired(report):
                _log.warning(
                    "samples expired before they were read; raise the retention of the sample topics",
                    cluster=name,
                    records=lost,
                )
        if not running.problem and self._is_stuck(running, query, now):
            running.problem = "the query makes no progress; check that the cluster responds"
            self._report(name, running)

    def _log_backlog(self, name: str, stream: QueryStream, report: dict[str, Any], now: float) -> None:
        wait = awaited(report, name, stream.sampled)
        if wait is None:
            if self._waits.succeeded(name, now) is not None:
                _log.info("samples arrived", cluster=name)
        elif self._waits.failed(name, wait.problem, now):
            _log.warning("waiting for samples", cluster=name, problem=wait.problem, advice=wait.advice)

    def _is_stuck(self, running: RunningQuery, query: StreamingQuery, now: float) -> bool:
        at_work = "Processing" in query.status["message"]
        patience = _LONGEST_BATCH_SECONDS if at_work else _SILENCE_SECONDS
        return now - running.reported_at > patience + running.stream.trigger_seconds

    def _note_failure(self, name: str, running: RunningQuery, error: BaseException | None) -> None:
        """Record a failure of a streaming query and schedule a restart. Raises AnalyticsError if Spark itself
        has ended."""
        running.query = None
        if self._stopping.is_set():
            return
        if not is_alive(self._session):
            raise AnalyticsError("Spark ended") from error
        running.failures += 1
        pause = min(_LONGEST_WAIT_SECONDS, 2.0 ** min(running.failures - 1, 10))
        running.not_before = self._clock.monotonic() + pause
        running.problem = _first_line(error)
        self._metrics.count_restart(name)
        self._report(name, running)

    def _report(self, name: str, running: RunningQuery) -> None:
        """Log a failure of a cluster's query once, not at each attempt to restart it."""
        if self._outages.failed(name, running.problem, self._clock.monotonic()):
            _log.warning(
                "cannot read cluster",
                cluster=name,
                problem=running.problem,
                advice=f"check that {running.stream.source.bootstrap_servers} responds; the job retries at "
                f"least every {_LONGEST_WAIT_SECONDS:.0f} s. {self._more_in_log}".strip(),
            )

    def _note_success(self, name: str, now: float) -> None:
        ended = self._outages.succeeded(name, now)
        if ended is not None:
            _log.info(
                "reading cluster again", cluster=name, failures=ended.count, seconds=round(ended.seconds)
            )

    def _end(self, name: str) -> None:
        running = self._running.pop(name)
        if running.starting is not None and not running.starting.cancel():
            wait([running.starting])
            self._take_over(name, running, running.starting)
        if running.query is not None:
            try:
                running.query.stop()
            except (PySparkException, *GONE) as error:
                if is_alive(self._session):
                    _log.warning("cannot stop query", cluster=name, problem=_first_line(error))
        if self._locks is not None:
            self._locks.release(f"cluster {name}")
        self._waits.succeeded(name, self._clock.monotonic())
        self._metrics.forget(name)


def _first_line(error: BaseException | None) -> str:
    """Return the first lines of an error and of its cause.

    Errors of Spark are very long and contain changing ids.
    """
    lines = [line.strip() for line in str(error or "ended without an error").splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if line.startswith("Caused by:")), "")
    return f"{_RUN.sub('', lines[0])[:200]} {cause[:200]}".strip() if lines else "no text"

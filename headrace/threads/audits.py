"""Thread in which an instance audits the lanes that it copies itself.

The thread opens connections only while a datastream is audited. A cluster that does not respond delays the
audits of its datastreams, never the copying.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.clusters.adhoc import bench_of
from headrace.clusters.directory import directory_of
from mirror.background_thread import BackgroundThread
from mirror.bulkheads import Bulkhead
from mirror.instance.health import Health
from mirror.instance.snapshot import InstanceSnapshot, RunningInstance
from mirror.jobs.audits.auditor import Auditor
from mirror.jobs.audits.lanes import AuditedLanes, AuditOptions
from mirror.jobs.audits.pace import AuditBudget
from mirror.jobs.audits.summary import TopicAudit, topic_audits
from mirror.jobs.verify_job import VerifyJob
from mirror.loggers import get_logger
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import Guarantee
from mirror.model.identifiers import ClusterRef
from mirror.model.reasons import reason_of
from mirror.replication.context import EngineContext
from mirror.wording import counted, with_place

if TYPE_CHECKING:
    from headrace.settings import HeadraceSettings

_log = get_logger(__name__)
PART: Final = "audit"
"""Component of the health report for audits."""
_LOOK_SECONDS: Final = 1.0
_STEP_SECONDS: Final = 0.25
_MOST_WINDOWS: Final = 1
"""Number of windows by which an audit of counts may be behind before it takes precedence over copying.

A watermark is therefore less than two windows behind.
"""
_REQUEST_SECONDS: Final = 10.0


def audited_lanes(datastreams: Sequence[Datastream], lanes: Collection[LaneKey]) -> list[AuditedLanes]:
    """Return, for each audited datastream, the lanes that this instance audits.

    If several audited datastreams of a group select a topic, its lanes belong to the first of them.
    """
    left, found = set(lanes), list[AuditedLanes]()
    for datastream in datastreams:
        if datastream.audit_mode is AuditMode.OFF or not datastream.status.is_mirrored:
            continue
        matches = datastream.selection.matches
        keys = {key for key in left if key.group == datastream.group and matches(key.partition.topic)}
        left -= keys
        if keys:
            guarantee, seconds = datastream.policy.guarantee, datastream.audit_lateness_seconds
            found.append(
                AuditedLanes(
                    datastream.name,
                    _job_of(datastream),
                    datastream.audit_mode,
                    tuple(sorted(key.partition for key in keys)),
                    None if seconds is None else seconds * 1_000,
                    may_repeat=guarantee is Guarantee.AT_LEAST_ONCE,
                    has_markers=guarantee is Guarantee.EXACTLY_ONCE,
                )
            )
    return found


def _job_of(datastream: Datastream) -> VerifyJob:
    return VerifyJob(
        datastream.source,
        datastream.destination,
        datastream.selection,
        datastream.naming,
        datastream.policy.isolation,
        state=datastream.group,
        allows_expired=True,
        is_transformed=bool(datastream.policy.transforms),
        is_shared=datastream.shares_destination,
    )


class AuditQueue:
    """Determines the order in which an instance audits its datastreams.

    Datastreams whose last audit failed come last, in the order of their attempts. A cluster that does not
    respond therefore delays only its own datastreams.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        """Error of each datastream whose last audit failed."""
        self._attempts: dict[str, int] = {}
        """Number of the last failed attempt of each datastream, 0 after a success."""
        self._count = 0

    def ordered(self, lanes: Sequence[AuditedLanes]) -> list[AuditedLanes]:
        """Return the datastreams in the order of their audits. Forget datastreams without lanes."""
        for name in self._attempts.keys() - {audited.name for audited in lanes}:
            del self._attempts[name]
            self.problems.pop(name, None)
        return sorted(lanes, key=lambda audited: self._attempts.get(audited.name, 1))

    def may_wait(self, name: str) -> bool:
        """Return whether the audit of a datastream can come later: its last one failed, or it has had
        none."""
        return self._attempts.get(name) != 0

    def note(self, name: str, failure: BaseException | None) -> None:
        """Record whether the audit of a datastream succeeded."""
        self._count += 1
        self._attempts[name] = 0 if failure is None else 1 + self._count
        self.problems.pop(name, None)
        if failure is not None:
            self.problems[name] = reason_of(failure)


class AuditThread(BackgroundThread):
    """Audits the lanes of the instance until it is stopped. A failure does not affect other threads."""

    def __init__(
        self,
        snapshot: Callable[[], InstanceSnapshot],
        contexts: Callable[[], AbstractContextManager[EngineContext]],
        options: AuditOptions,
        interval_seconds: float,
        health: Health,
    ) -> None:
        super().__init__("audit")
        self._snapshot = snapshot
        self._contexts = contexts
        self._options = options
        self._interval = interval_seconds
        self._health = health
        self._auditor: Auditor | None = None
        self._budget = AuditBudget(_MOST_WINDOWS * options.window_ms / 1_000)

    def audits(self) -> list[TopicAudit]:
        """Return the state of this instance's audits. Thread-safe."""
        auditor = self._auditor
        return [] if auditor is None else topic_audits(auditor.reports)

    def _lanes(self) -> list[AuditedLanes]:
        status = self._snapshot()
        return audited_lanes(status.datastreams, status.lanes)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            if self._lanes():
                with Bulkhead(self._failed), self._contexts() as context:
                    self.audit(context)
                self._auditor = None
            else:
                self._health.forget(PART)

    def _failed(self, error: Exception) -> None:
        self._health.report(PART, False, f"cannot audit: {reason_of(error)}")
        _log.error("audits failed", reason=reason_of(error))

    def audit(self, context: EngineContext) -> None:
        """Audit lanes until no datastream has an audit enabled or the thread stops."""
        auditor = self._auditor = Auditor(context, self._options)
        queue = AuditQueue()
        while not self._stopping.is_set() and (lanes := self._lanes()):
            due = context.loop.now() + self._interval
            auditor.keep(lanes)
            has_more = False
            self._budget.earn(self._copying_seconds())
            for audited in queue.ordered(lanes):
                now = context.loop.now()
                is_bounded = audited.mode is AuditMode.COUNTS
                if is_bounded and not self._budget.allows(audited.name, audited.places, now):
                    continue
                if now >= due and queue.may_wait(audited.name):
                    break  # datastreams whose audit succeeded are due again
                with Bulkhead() as bulkhead:
                    has_more |= self._run_auditor(context, auditor, audited)
                queue.note(audited.name, bulkhead.failure)
            problems = queue.problems | _problems_of(auditor)
            text = "; ".join(f"{name}: {reason}" for name, reason in sorted(problems.items()))
            # A warning only, because copying does not depend on audits.
            self._health.report(PART, True, text or f"auditing {counted(len(lanes), 'datastream')}")
            while (not has_more or problems) and context.loop.now() < due and not self._stopping.is_set():
                context.loop.run_once(_STEP_SECONDS)

    def _run_auditor(self, context: EngineContext, auditor: Auditor, lanes: AuditedLanes) -> bool:
        """Run the auditor once. Return whether more records are ready to be audited.

        The run is abandoned if the thread stops.
        """
        before = time.thread_time()
        run = context.loop.spawn(auditor.run_once(lanes))
        while not run.is_done and not self._stopping.is_set():
            context.loop.run_once(_STEP_SECONDS)
        has_more = run.is_done and run.result()
        if lanes.mode is AuditMode.COUNTS:
            spent = time.thread_time() - before
            now = context.loop.now()
            self._budget.spend(lanes.name, lanes.places, spent, now, has_more=has_more)
        return has_more

    def _copying_seconds(self) -> dict[str, float]:
        """Map each task to the CPU seconds that workers have spent on it since the instance started."""
        return {name: sums.by_name()["cpu_ms"] / 1_000 for name, sums in self._snapshot().task_sums.items()}


def _problems_of(auditor: Auditor) -> dict[str, str]:
    """Map each datastream with a lane that cannot be audited to the reason."""
    return {
        name: with_place(place, report.problem)
        for name, found in auditor.reports.items()
        for place, report in found.items()
        if report.problem
    }


def build_audit(settings: HeadraceSettings, running: RunningInstance) -> AuditThread:
    """Build the audit thread from the settings."""
    audit, mirror = settings.mirror.audit, settings.mirror
    options = AuditOptions(
        running.name,
        ClusterRef(mirror.metrics_cluster),
        audit.topic,
        int(audit.window_seconds * 1_000),
        int(audit.lateness_seconds * 1_000),
        audit.bytes_per_second,
    )
    contexts = partial(bench_of, settings, "headrace-audit", directory_of(settings), _REQUEST_SECONDS)
    return AuditThread(running.snapshot, contexts, options, audit.interval_seconds, running.health)

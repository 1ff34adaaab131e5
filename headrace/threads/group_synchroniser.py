"""Thread of the leader that synchronises the consumer groups of datastreams.

All datastreams share one event loop. Each has its own coroutine, so a cluster that does not respond delays
only its own groups. The state is stored on the destination clusters, so a new leader continues from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.clusters.adhoc import bench_of
from headrace.clusters.directory import directory_of
from mirror.background_thread import BackgroundThread
from mirror.bulkheads import Bulkhead
from mirror.instance.health import Health
from mirror.jobs.groups.both_ways import TwoWayFollower
from mirror.jobs.groups.follower import FollowJob, GroupFollower
from mirror.jobs.groups.log import GroupLog
from mirror.jobs.groups.record import GroupKeys
from mirror.jobs.groups.status import FollowingStatus, Statuses, sentence_of
from mirror.jobs.progress_logs import progress_log
from mirror.loggers import get_logger
from mirror.model.datastreams.consumer_groups import GroupDirection
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.reasons import reason_of
from mirror.replication.context import EngineContext

if TYPE_CHECKING:
    from api.services import Services
    from headrace.settings import HeadraceSettings

_log = get_logger(__name__)
PART: Final = "consumer groups"
"""Component of the health report for consumer groups."""
_LOOK_SECONDS: Final = 1.0
_STEP_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 0.2
"""Maximum seconds to pause after a synchronisation that took longer than the interval. At most half of the
interval."""
_RETRY_SECONDS: Final = 1.0
"""Minimum seconds between two synchronisations after a failure."""
_REQUEST_SECONDS: Final = 10.0
"""Maximum timeout of a request in seconds."""


def job_of(datastream: Datastream, others: Sequence[Datastream]) -> FollowJob | None:
    """Return the job that synchronises the consumer groups of a datastream.

    Returns None if the datastream synchronises no groups or is not mirrored.
    """
    if not datastream.following_groups.is_on or not datastream.status.is_mirrored:
        return None
    return FollowJob(
        GroupKeys(datastream.group, datastream.name),
        datastream.source,
        datastream.destination,
        datastream.selection,
        datastream.naming,
        datastream.following_groups,
        datastream.shares_destination,
        tuple(
            (other.selection, other.naming)
            for other in others
            if (other.source, other.destination) == (datastream.destination, datastream.source)
        ),
    )


class GroupSynchroniser(BackgroundThread):
    """Synchronises consumer groups while this instance is the leader. A failure does not affect other
    threads."""

    def __init__(
        self,
        datastreams: Callable[[], Sequence[Datastream]],
        hides: Callable[[str, Datastream], str],
        contexts: Callable[[], AbstractContextManager[EngineContext]],
        is_leading: Callable[[], bool],
        health: Health,
    ) -> None:
        super().__init__("consumer groups")
        self._datastreams = datastreams
        self._hides = hides
        self._contexts = contexts
        self._is_leading = is_leading
        self._health = health
        self._jobs: dict[DatastreamName, FollowJob] = {}
        self._logs: dict[ClusterRef, GroupLog] = {}
        self._own: frozenset[str] = frozenset()
        self.statuses: Statuses = {}
        """Status of each datastream that synchronises groups. Thread-safe for reads.

        Empty if this instance is not the leader.
        """

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            if self._is_leading():
                with Bulkhead(self._failed), self._contexts() as context:
                    self.lead(context)
                self._jobs, self._logs, self.statuses = {}, {}, {}
            else:
                self._health.forget(PART)

    def _failed(self, error: Exception) -> None:
        self._health.report(PART, False, f"cannot synchronise consumer groups: {reason_of(error)}")
        _log.error("cannot synchronise consumer groups", reason=reason_of(error))

    def lead(self, context: EngineContext) -> None:
        """Synchronise consumer groups while the instance is the leader. Raises errors that affect all
        datastreams."""
        next_look = context.loop.now()
        while self._is_leading() and not self._stopping.is_set():
            if context.loop.now() >= next_look:
                next_look = context.loop.now() + _LOOK_SECONDS
                self._refresh(context)
            context.loop.run_once(_STEP_SECONDS)

    def _refresh(self, context: EngineContext) -> None:
        """Start the synchronisation of new and changed datastreams, and stop that of removed datastreams."""
        datastreams = self._datastreams()
        self._own = frozenset(other.consumer_group for other in datastreams)
        found = {
            member.name: (member, job)
            for member in datastreams
            if (job := job_of(member, datastreams)) is not None
        }
        before = self._jobs
        self._jobs = {
            name: before[name] if before.get(name) == job else job for name, (_, job) in found.items()
        }
        self.statuses = {name: self.statuses.get(name, FollowingStatus()) for name in found}
        for name, (datastream, job) in found.items():
            if self._jobs[name] is job:  # new, or changed
                context.loop.spawn(self._follow(context, datastream, job))
        self._report()

    async def _follow(self, context: EngineContext, datastream: Datastream, job: FollowJob) -> None:
        """Synchronise the consumer groups of a datastream until its definition changes."""
        name = datastream.name
        kind = TwoWayFollower if job.groups.direction is GroupDirection.BOTH else GroupFollower
        follower = kind(context, job, self._log(context, job.destination))
        while self._jobs.get(name) is job:
            began = context.loop.now()
            before = self.statuses.get(name, FollowingStatus())
            with Bulkhead() as looking:
                status = await self._round(follower, datastream, before)
            if looking.failure is not None:
                status = replace(before, failure=reason_of(looking.failure))
                if status.failure != before.failure:
                    _log.warning("cannot synchronise groups", datastream=name, reason=status.failure)
            if self._jobs.get(name) is not job:
                return
            self.statuses = {**self.statuses, name: status}
            interval = job.groups.interval_seconds
            if status.failure:
                interval = max(interval, _RETRY_SECONDS)
            rest = interval - (context.loop.now() - began)
            await context.loop.sleep(max(rest, min(interval / 2, _LONGEST_PAUSE_SECONDS)))

    def _log(self, context: EngineContext, destination: ClusterRef) -> GroupLog:
        """Return the log of synchronised groups on a cluster, which all datastreams to this cluster share."""
        if destination not in self._logs:
            self._logs[destination] = progress_log(GroupLog, context, destination)
        return self._logs[destination]

    async def _round(
        self, follower: GroupFollower, datastream: Datastream, before: FollowingStatus
    ) -> FollowingStatus:
        report = await follower.round(partial(self._is_hidden, datastream=datastream))
        at_ms = follower.now_ms if report.is_complete else before.round_ms
        return FollowingStatus(report.groups, report.hindered, at_ms)

    def _is_hidden(self, group: str, datastream: Datastream) -> bool:
        return group in self._own or bool(self._hides(group, datastream))

    def _report(self) -> None:
        """Report consumer groups that are not synchronised, and failed datastreams, in the health report."""
        if not self.statuses:
            self._health.forget(PART)
            return
        sentence, is_well = sentence_of(self.statuses)
        self._health.report(PART, is_well, sentence)


def build_synchroniser(settings: HeadraceSettings, services: Services, health: Health) -> GroupSynchroniser:
    """Build the thread that synchronises consumer groups from the settings."""
    return GroupSynchroniser(
        lambda: services.status.datastreams,
        services.control.hides_group,
        partial(bench_of, settings, "headrace-groups", directory_of(settings), _REQUEST_SECONDS),
        lambda: services.status.is_leading,
        health,
    )

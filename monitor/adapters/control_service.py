"""Access to the service from a monitor within an instance, without HTTP. Implements
`monitor.ports.Service`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mirror.control.commands import TriggerRebalance
from mirror.control.handlers import Control
from mirror.coordination.monitors.effect import effect_of
from mirror.coordination.plan_decision import Decision
from mirror.coordination.stores.problems import Problem
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName, GroupName
from monitor.adapters.breaches import from_records, known_past
from monitor.adapters.lane_answers import evidence_of
from monitor.adapters.leases import HeldLease
from monitor.adapters.subjects import groups_of_one, subject_of
from monitor.causes.evidence import Evidence
from monitor.latency import ObjectiveSubject, Source
from monitor.movement.summary import FleetMovement
from monitor.ports import LeaseHold, Preview
from monitor.records.record import IncidentRecord


class Instances(NamedTuple):
    """Callbacks that read the reports of all instances: the states of partitions, and the lanes of a group as
    JSON."""

    movements: Callable[[], FleetMovement]
    lanes: Callable[[GroupName], Any]


class ControlService:
    """The service, accessed through the objects behind its REST interface.

    `problems`: returns the problems that the leader recorded. `preview`: returns the predicted result of a
    rebalance. `incidents`: returns stored incidents, latest first.
    """

    def __init__(
        self,
        control: Control,
        problems: Callable[[], Mapping[DatastreamName, Problem]],
        preview: Callable[[RebalanceRequest], Decision],
        lease: HeldLease,
        instances: Instances,
        incidents: Callable[[], Sequence[IncidentRecord]],
    ) -> None:
        self._control = control
        self._problems = problems
        self._preview = preview
        self._lease = lease
        self._instances = instances
        self._incidents = incidents

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        """Return every READY datastream with an objective. Raises Unreachable."""
        listed, problems = self._control.list(), self._problems()
        known = [stored.datastream for stored in listed.readable]
        alone = groups_of_one((datastream.group for datastream in known), is_whole=not listed.damaged)
        return {
            datastream.name: _subject(
                datastream, problems.get(datastream.name), is_alone=datastream.group in alone
            )
            for datastream in known
            if _is_judged(datastream)
        }

    def movements(self) -> FleetMovement:
        """Return the partitions that are not OK. Raises Unreachable, DamagedState."""
        return self._instances.movements()

    def has_own_monitor(self) -> bool:
        """Return False, because this monitor is the service's own."""
        return False

    def hold(self) -> LeaseHold:
        """Renew or acquire the monitor lease for this monitor. Raises Unreachable.

        The lease is acquired only if no other monitor holds it.
        """
        return self._lease.hold()

    def release(self) -> None:
        """Release the monitor lease, so that another monitor can take over at once. Raises Unreachable."""
        self._lease.release()

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        """Return the evidence about a datastream from the lanes of all instances."""
        answer = self._instances.lanes(GroupName(subject.source.group))
        return evidence_of(answer, subject.source, subject.selection)

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """Return the predicted result of an incremental rebalance (dry run)."""
        decision = self._preview(self._control.request_of(_command(name, "")))
        past = known_past(lambda: from_records(self._incidents(), name)) if decision.moves else ()
        known = decision.are_loads_known
        return Preview(decision.sentence, len(decision.moves), known, effect_of(decision), past)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """Request an incremental rebalance, which moves few partitions. Return the request id."""
        return self._lease.rebalance(_command(name, reason))


def _command(name: DatastreamName, reason: str) -> TriggerRebalance:
    return TriggerRebalance(name, full=False, requested_by="monitor", reason=reason)


def _is_judged(datastream: Datastream) -> bool:
    has_objective = datastream.objective is not None or bool(datastream.objectives)
    return has_objective and datastream.status is DatastreamStatus.READY


def _subject(datastream: Datastream, problem: Problem | None, *, is_alone: bool) -> ObjectiveSubject:
    subject = subject_of(
        datastream.objective,
        Source(datastream.group, datastream.source),
        datastream.selection,
        datastream.objectives,
        paused=datastream.pauses,
        reason=problem.reason if problem is not None else "",
        sets_aside=problem is not None and problem.sets_aside,
    )
    return replace(subject, mode=datastream.monitor_mode, is_alone=is_alone)

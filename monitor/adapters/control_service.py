"""The service from within an instance, without a connection. Satisfies `monitor.ports.Service`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirror.control.commands import TriggerRebalance
from mirror.control.handlers import Control
from mirror.coordination.planning import Decision
from mirror.coordination.stores.problems import Problem
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import DatastreamName
from monitor.adapters.subjects import subject_of
from monitor.latency import Source, Subject
from monitor.ports import Preview


class ControlService:
    """What REST answers, asked of the objects behind it. `problems`: as the leader has noted them; `preview`:
    what a rebalance would do."""

    def __init__(
        self,
        control: Control,
        problems: Callable[[], Mapping[DatastreamName, Problem]],
        preview: Callable[[RebalanceRequest], Decision],
    ) -> None:
        self._control = control
        self._problems = problems
        self._preview = preview

    def subjects(self) -> Mapping[DatastreamName, Subject]:
        """Every READY datastream that has an objective. Raises Unreachable."""
        known = [one.datastream for one in self._control.list().readable]
        problems = self._problems()
        return {one.name: _subject(one, problems.get(one.name)) for one in known if _is_judged(one)}

    def has_own_monitor(self) -> bool:
        """No: it is the one that asks."""
        return False

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """A dry run of an incremental rebalance."""
        decision = self._preview(self._control.request_of(_command(name, "")))
        return Preview(decision.sentence, len(decision.moves), decision.are_loads_known)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """An incremental rebalance: repair what is overloaded with few moves."""
        return self._control.rebalance(_command(name, reason)).identity


def _command(name: DatastreamName, reason: str) -> TriggerRebalance:
    return TriggerRebalance(name, full=False, requested_by="monitor", reason=reason)


def _is_judged(one: Datastream) -> bool:
    has_objective = one.objective is not None or bool(one.objectives)
    return has_objective and one.status is DatastreamStatus.READY


def _subject(one: Datastream, problem: Problem | None) -> Subject:
    return subject_of(
        one.objective,
        Source(one.group, one.source),
        one.selection,
        one.objectives,
        paused=one.pauses,
        reason=problem.reason if problem is not None else "",
        sets_aside=problem is not None and problem.sets_aside,
    )

"""Dry runs of one request, computed by the leader: no other instance has its loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from fastapi.concurrency import run_in_threadpool

from api.calls.slow_calls import SlowCalls
from api.dry_runs.kinds import CHANGE, DRY_RUN, MOVE, PLAN, REBALANCE, Basis, DryRun
from api.fleet.answers import HEALTH, health_read
from api.fleet.leader import ask_leader
from api.fleet.questions import Fleet, FleetQuery
from api.schemas.changes import UpdatePlanAnswer
from api.schemas.plans import RebalanceAnswer
from api.schemas.proposals import ProposalAnswer
from api.services import Services
from mirror.control.commands import ChangePauses, ChangeStatus, CreateDatastream, MovePartitions
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName

_Answer = TypeVar("_Answer", RebalanceAnswer, ProposalAnswer, UpdatePlanAnswer)
_LEADER_SECONDS: Final = 20.0
"""Time to wait for a responsive leader; clients wait longer."""
Change = tuple[Datastream | None, Datastream]
"""A definition before and after a change; None before its creation."""


@dataclass(frozen=True)
class DryRuns:
    """Dry runs for one request. If the leader does not respond, they are computed here with the loads that a
    new leader would start with, and marked. Functions passed in check the request; dry runs raise their
    errors, and Unreachable."""

    services: Services
    fleet: Fleet
    slow_calls: SlowCalls

    async def rebalance(self, request: Callable[[], RebalanceRequest]) -> RebalanceAnswer:
        """Return the changes that a rebalance would make."""
        return await self._computed(REBALANCE, await run_in_threadpool(request))

    async def plan(self, request: Callable[[], RebalanceRequest]) -> ProposalAnswer:
        """Same, stored for an hour as a proposal."""
        return await self._computed(PLAN, await run_in_threadpool(request))

    async def move(self, command: Callable[[], MovePartitions]) -> UpdatePlanAnswer:
        """Return the effect of a move in the current state."""

        def checked() -> tuple[Datastream, MoveRequest]:
            requested, control = command(), self.services.control
            return control.get(requested.name), control.move_request_of(requested)

        datastream, request = await self.slow_calls.run(checked)
        return (await self._computed(MOVE, request)).about([(datastream, datastream)])

    async def command(
        self, command: Callable[[], CreateDatastream | ChangeStatus | ChangePauses]
    ) -> UpdatePlanAnswer:
        """Return the effect of a command on a datastream."""
        return await self.changes(lambda: [self.services.control.expected(command())])

    async def changes(
        self, changes: Callable[[], Sequence[Change]], group: GroupName | None = None
    ) -> UpdatePlanAnswer:
        """Return the effect of changed definitions: of one datastream, or of a group."""
        found = await self.slow_calls.run(changes)
        answer = await self._computed(CHANGE, tuple(after for _, after in found))
        return answer.about(found, group)

    async def _computed(
        self, kind: DryRun[_Answer], requested: RebalanceRequest | MoveRequest | tuple[Datastream, ...]
    ) -> _Answer:
        services, gap = self.services, ""
        if not services.status.is_leading:
            answer, gap = await self._from_leader(kind, requested)
            if answer is not None:
                return answer

        def compute() -> _Answer:
            view = services.previews.with_stored_loads() if gap else services.previews
            return kind.compute(services, Basis(view, gap), requested)

        return await self.slow_calls.run(compute)

    async def _from_leader(
        self, kind: DryRun[_Answer], requested: RebalanceRequest | MoveRequest | tuple[Datastream, ...]
    ) -> tuple[_Answer | None, str]:
        """Return the answer of the leader, or the reason why there is none. Raises the errors of the
        leader."""
        live = await run_in_threadpool(self.services.live)
        leader = self.services, self.fleet, live
        # A short query first, so that a frozen leader does not exhaust the patience of the caller.
        pulse = await ask_leader(*leader, FleetQuery(HEALTH), lambda: None, health_read)
        reason = pulse.reason
        if pulse.value is not None:
            query = FleetQuery(DRY_RUN, document=kind.document(requested), deadline_seconds=_LEADER_SECONDS)
            text = await ask_leader(*leader, query, lambda: None, kind.read)
            if text.value is not None:
                if text.value.refusal is not None:
                    raise text.value.refusal
                return text.value.answer, ""
            reason = text.reason
        return None, f"computed with the stored loads, because the leader did not respond: {reason}"

"""Asks the leader for a plan that is only shown: no other instance has its loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi.concurrency import run_in_threadpool

from api.calls.slow_calls import SlowCalls
from api.fleet.leader import ask_leader
from api.fleet.questions import Fleet
from api.previews.answers import PREVIEW, PROPOSAL, preview_of, proposal_of
from api.schemas.plans import RebalanceAnswer
from api.schemas.proposals import ProposalAnswer
from api.services import Services
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.model import bounds

_Answer = TypeVar("_Answer", RebalanceAnswer, ProposalAnswer)


@dataclass(frozen=True)
class Previews:
    """Used for one call."""

    services: Services
    fleet: Fleet
    slow_calls: SlowCalls

    async def rebalance(self, request: RebalanceRequest) -> RebalanceAnswer:
        """Return what the request would change. Without an answer of the leader it is computed here, and the
        reasons say so. Raises Unreachable."""
        return await self._asked(PREVIEW, request, RebalanceAnswer, preview_of)

    async def proposal(self, request: RebalanceRequest) -> ProposalAnswer:
        """The same, kept for an hour."""
        return await self._asked(PROPOSAL, request, ProposalAnswer, proposal_of)

    async def _asked(
        self,
        subject: str,
        request: RebalanceRequest,
        model: type[_Answer],
        compute: Callable[[Services, RebalanceRequest, str], _Answer],
    ) -> _Answer:
        services, why = self.services, ""
        if not services.status.is_leading:
            live = await run_in_threadpool(services.live)
            said = await ask_leader(
                *(services, self.fleet, live, subject, lambda: None),
                lambda value: _read(model, value),
                {
                    "group": request.group,
                    "full": str(int(request.full)),
                    "requested_by": request.requested_by,
                    "reason": request.reason,
                },
            )
            if said.value is not None:
                return said.value
            why = f"computed without the loads of the leader: {said.reason}"
        return await self.slow_calls.run(lambda: compute(services, request, why))


def _read(model: type[_Answer], value: Any) -> _Answer | None:
    """What the leader has said; None: it does not lead. Fields that are not known are left out: it may be of
    a newer version. Raises ValueError, InvalidRequest."""
    if value is None:
        return None
    found = bounds.mapping("what it says", value)
    return model.model_validate({name: one for name, one in found.items() if name in model.model_fields})

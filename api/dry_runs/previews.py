"""Requests plans without publishing them, from the leader: no other instance has its loads."""

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
    """Plans for one request."""

    services: Services
    fleet: Fleet
    slow_calls: SlowCalls

    async def rebalance(self, request: RebalanceRequest) -> RebalanceAnswer:
        """Return the changes that a rebalance would make. If the leader does not respond they are computed
        here, and the reasons say so. Raises Unreachable."""
        return await self._asked(PREVIEW, request, RebalanceAnswer, preview_of)

    async def proposal(self, request: RebalanceRequest) -> ProposalAnswer:
        """Same, stored for an hour as a proposal."""
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
            reply = await ask_leader(
                *(services, self.fleet, live, subject, lambda: None),
                lambda value: _read(model, value),
                {
                    "group": request.group,
                    "full": str(int(request.full)),
                    "requested_by": request.requested_by,
                    "reason": request.reason,
                },
            )
            if reply.value is not None:
                return reply.value
            why = f"computed without the loads of the leader: {reply.reason}"
        return await self.slow_calls.run(lambda: compute(services, request, why))


def _read(model: type[_Answer], value: Any) -> _Answer | None:
    """Parse the response of the leader; None if it is not the leader. Unknown fields are dropped, because it
    may run a newer version. Raises ValueError, InvalidRequest."""
    if value is None:
        return None
    found = bounds.mapping("the response", value)
    return model.model_validate({name: one for name, one in found.items() if name in model.model_fields})

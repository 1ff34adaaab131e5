"""Queries the leader for state that only it has, from any instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from api.fleet.all_instances import AllInstances
from api.fleet.questions import AnswerState, Fleet, FleetQuery
from api.services import Services
from mirror.coordination.stores.membership import LiveInstance
from mirror.model.identifiers import InstanceName

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LeadersAnswer(Generic[_T]):
    """Response of the leader. `value` is None if it did not respond; `reason` is the cause. `leader` None: no
    known leader."""

    leader: InstanceName | None
    value: _T | None = None
    reason: str = ""


def leader_of(services: Services, live: Sequence[LiveInstance]) -> InstanceName | None:
    """Return the leader, or None if this instance knows of none. `live`: live instances in order of
    arrival."""
    mine = services.status.name
    if services.status.is_leading:
        return mine
    first = next((one.name for one in live), None)
    return None if first == mine else first


async def ask_leader(
    services: Services,
    fleet: Fleet,
    live: Sequence[LiveInstance],
    query: FleetQuery,
    own: Callable[[], _T | None],
    read: Callable[[Any], _T | None],
) -> LeadersAnswer[_T]:
    """Query only the leader, as `AllInstances.ask` does. `own` and `read` return None if the instance is not
    the leader."""
    leader = leader_of(services, live)
    if leader is None:
        return LeadersAnswer(None, None, "no leader yet")
    question = AllInstances(services, fleet, live, leader)
    replies = await question.ask(query, own, read)
    reply = replies[leader]
    if reply.state is not AnswerState.ANSWERED:
        return LeadersAnswer(leader, None, f"{leader} is {reply.state.value}: {reply.reason}")
    if reply.value is None:
        return LeadersAnswer(leader, None, f"{leader} is not the leader")
    return LeadersAnswer(leader, reply.value)

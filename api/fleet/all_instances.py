"""Queries that an instance sends to all instances, or only to the leader, in order to answer a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from api.fleet.questions import AnswerState, Fleet, FleetCredentials, FleetQuery, InstanceResponse
from api.services import Services
from mirror.coordination.stores.membership import LiveInstance
from mirror.errors import NotFound
from mirror.model.bounds import shown
from mirror.model.identifiers import InstanceName

_T = TypeVar("_T")


class FleetCalls:
    """Sends queries to other instances outside of REST requests, each on its own event loop. Used by one
    thread at a time. A call blocks until all instances have responded, at most for the fleet deadline."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._credentials = FleetCredentials(services.secret, services.clock)

    def run(self, query: Callable[[Fleet], Awaitable[_T]]) -> _T:
        """Run a function that queries other instances, and return its result."""

        async def ask() -> _T:
            fleet = Fleet(self._credentials, self.services.transport, self.services.fleet_deadline_seconds)
            try:
                return await query(fleet)
            finally:
                await fleet.close()

        return asyncio.run(ask())


class AllInstances:
    """Queries all live instances for one request, on the event loop's thread.

    `live`: live instances. `only`: if set, the only instance to query.
    """

    def __init__(
        self, services: Services, fleet: Fleet, live: Sequence[LiveInstance], only: str | None = None
    ) -> None:
        me = services.status.name
        self.services = services
        self._fleet = fleet
        self._names = tuple(dict.fromkeys([*(instance.name for instance in live), me]))
        if only is not None:
            self._names = tuple(name for name in self._names if name == only)
            if not self._names:
                raise NotFound(f"unknown instance {shown(only)}", advice="/v1/instances lists all instances")
        self._others = [instance for instance in live if instance.name != me and instance.name in self._names]

    async def ask(
        self, query: FleetQuery, own: Callable[[], _T], read: Callable[[Any], _T]
    ) -> Mapping[InstanceName, InstanceResponse[_T]]:
        """Return the responses of all queried instances in the order of their arrival.

        `own`: computes the response of this instance; `query`: query to the other instances; `read`: parses a
        response.
        """
        me = self.services.status.name
        replies = {reply.instance: reply for reply in await self._fleet.ask(self._others, query, read)}
        if me in self._names:
            replies[me] = InstanceResponse(
                me, AnswerState.ANSWERED, await to_thread.run_sync(own, limiter=CapacityLimiter(1))
            )
        return {name: replies[name] for name in self._names}


@dataclass(frozen=True, slots=True)
class LeadersAnswer(Generic[_T]):
    """Response of the leader to a query.

    `value` is None if the leader did not respond; `reason` is the cause. `leader` is None if no leader is
    known.
    """

    leader: InstanceName | None
    value: _T | None = None
    reason: str = ""


def leader_of(services: Services, live: Sequence[LiveInstance]) -> InstanceName | None:
    """Return the leader; None if this instance knows no leader. `live`: live instances in order of
    registration."""
    mine = services.status.name
    if services.status.is_leading:
        return mine
    first = next((instance.name for instance in live), None)
    return None if first == mine else first


async def ask_leader(
    services: Services,
    fleet: Fleet,
    live: Sequence[LiveInstance],
    query: FleetQuery,
    own: Callable[[], _T | None],
    read: Callable[[Any], _T | None],
) -> LeadersAnswer[_T]:
    """Send a query only to the leader; otherwise like `AllInstances.ask`.

    `own` and `read` return None if the instance is not the leader.
    """
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

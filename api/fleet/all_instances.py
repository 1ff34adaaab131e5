"""Responses about all instances, combined from the replies of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from api.fleet.answers import GROUP, HEALTH, LANES, health_read, lanes_read, own_health, own_lanes
from api.fleet.questions import AnswerState, Fleet, FleetQuery, InstanceResponse
from api.schemas.lanes import LaneAnswer, LanesAnswer
from api.schemas.status import HealthAnswer, InstanceStateAnswer
from api.services import Services
from mirror.coordination.stores.membership import LiveInstance
from mirror.errors import NotFound
from mirror.model.bounds import shown
from mirror.model.identifiers import InstanceName

_T = TypeVar("_T")


class AllInstances:
    """Queries all instances for one request, from the event loop's thread. `live`: live instances; `only`:
    the only instance to query."""

    def __init__(
        self, services: Services, fleet: Fleet, live: Sequence[LiveInstance], only: str | None = None
    ) -> None:
        me = services.status.name
        self._services = services
        self._fleet = fleet
        self._names = tuple(dict.fromkeys([*(one.name for one in live), me]))
        if only is not None:
            self._names = tuple(name for name in self._names if name == only)
            if not self._names:
                raise NotFound(f"unknown instance {shown(only)}", advice="/v1/instances lists all instances")
        self._others = [one for one in live if one.name != me and one.name in self._names]

    async def lanes(
        self, group: str | None = None
    ) -> Mapping[InstanceName, InstanceResponse[list[LaneAnswer]]]:
        """Return the lanes of each instance, optionally of one group; the leader adds partitions that are not
        copied."""
        if group is None:
            return await self.ask(FleetQuery(LANES), lambda: own_lanes(self._services), lanes_read)

        def read(value: Any) -> list[LaneAnswer]:
            return [one for one in lanes_read(value) if one.datastream == group]

        query = FleetQuery(LANES, {GROUP: group})
        return await self.ask(query, lambda: own_lanes(self._services, group), read)

    async def health(self) -> Mapping[InstanceName, InstanceResponse[HealthAnswer]]:
        """Return the health of each instance."""
        return await self.ask(FleetQuery(HEALTH), lambda: own_health(self._services), health_read)

    async def ask(
        self,
        query: FleetQuery,
        own: Callable[[], _T],
        read: Callable[[Any], _T],
    ) -> Mapping[InstanceName, InstanceResponse[_T]]:
        """Return the replies of all queried instances in the order of their arrival. `own`: computes the
        reply of this instance; `query`: query to the other instances; `read`: parses a reply."""
        me = self._services.status.name
        replies = {one.instance: one for one in await self._fleet.ask(self._others, query, read)}
        if me in self._names:
            replies[me] = InstanceResponse(
                me, AnswerState.ANSWERED, await to_thread.run_sync(own, limiter=CapacityLimiter(1))
            )
        return {name: replies[name] for name in self._names}


def lanes_answer(replies: Mapping[InstanceName, InstanceResponse[list[LaneAnswer]]]) -> LanesAnswer:
    """Return the lanes of all instances, and the state of each query."""
    return LanesAnswer(
        instances=[state_answer(reply) for reply in replies.values()],
        lanes=[lane for reply in replies.values() for lane in reply.value or ()],
    )


def state_answer(reply: InstanceResponse[Any]) -> InstanceStateAnswer:
    """Return the state of the query to one instance."""
    return InstanceStateAnswer(name=reply.instance, state=reply.state.value, reason=reply.reason)

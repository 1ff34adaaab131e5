"""One answer of all instances: this one's own, and what the others say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from api.fleet.answers import GROUP, HEALTH, LANES, health_read, lanes_read, own_health, own_lanes
from api.fleet.questions import AnswerState, Fleet, Reply
from api.schemas.lanes import LaneAnswer, LanesAnswer
from api.schemas.status import HealthAnswer, InstanceStateAnswer
from api.services import Services
from mirror.coordination.stores.membership import LiveInstance
from mirror.errors import NotFound
from mirror.model.bounds import shown
from mirror.model.identifiers import InstanceName

_T = TypeVar("_T")


class AllInstances:
    """Used for one call, by the event loop's thread. `live`: who is here; `only`: one that alone is asked."""

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
                raise NotFound(f"there is no instance {shown(only)}", advice="/v1/instances lists them")
        self._others = [one for one in live if one.name != me and one.name in self._names]

    async def lanes(self, group: str | None = None) -> Mapping[InstanceName, Reply[list[LaneAnswer]]]:
        """The lanes of each, or those of a group; of the leader also the partitions that nobody copies."""
        if group is None:
            return await self.ask(LANES, lambda: own_lanes(self._services), lanes_read)

        def read(value: Any) -> list[LaneAnswer]:
            return [one for one in lanes_read(value) if one.datastream == group]

        return await self.ask(LANES, lambda: own_lanes(self._services, group), read, {GROUP: group})

    async def health(self) -> Mapping[InstanceName, Reply[HealthAnswer]]:
        """How each is."""
        return await self.ask(HEALTH, lambda: own_health(self._services), health_read)

    async def ask(
        self,
        subject: str,
        own: Callable[[], _T],
        read: Callable[[Any], _T],
        parameters: Mapping[str, str] | None = None,
        deadline_seconds: float = 0.0,
    ) -> Mapping[InstanceName, Reply[_T]]:
        """By instance, in the order of arrival, each one that is here. `own`: what this one says; the others
        are asked for the subject, and `read` makes the same of it."""
        me = self._services.status.name
        replies = {
            one.instance: one
            for one in await self._fleet.ask(self._others, subject, read, parameters, deadline_seconds)
        }
        if me in self._names:
            replies[me] = Reply(
                me, AnswerState.ANSWERED, await to_thread.run_sync(own, limiter=CapacityLimiter(1))
            )
        return {name: replies[name] for name in self._names}


def lanes_answer(replies: Mapping[InstanceName, Reply[list[LaneAnswer]]]) -> LanesAnswer:
    """What was heard of lanes, and of whom."""
    return LanesAnswer(
        instances=[state_answer(one) for one in replies.values()],
        lanes=[lane for one in replies.values() for lane in one.value or ()],
    )


def state_answer(reply: Reply[Any]) -> InstanceStateAnswer:
    """What became of the question to one instance."""
    return InstanceStateAnswer(name=reply.instance, state=reply.state.value, reason=reply.reason)

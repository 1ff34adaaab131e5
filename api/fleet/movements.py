"""Partitions of all datastreams that are not OK, combined from the reports of all instances."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from api.fleet.all_instances import AllInstances
from api.fleet.answers import MOVEMENT
from api.fleet.credentials import FleetCredentials
from api.fleet.leader import leader_of
from api.fleet.questions import Fleet, FleetQuery
from api.movement.topics import TopicMovement, own_topics, topics_read
from api.services import Services
from mirror.coordination.stores.membership import LiveInstance
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.model.plan import Plan
from monitor.movement.summary import DatastreamStates, FleetMovement, added


async def movements(
    services: Services,
    fleet: Fleet,
    live: Sequence[LiveInstance],
    plan: Plan,
    datastreams: Sequence[Datastream],
) -> FleetMovement:
    """Query each instance once, and combine the replies."""
    replies = await AllInstances(services, fleet, live).ask(
        FleetQuery(MOVEMENT), lambda: own_topics(services), topics_read
    )
    leader = leader_of(services, live)
    topics_by_instance = {name: one.value for name, one in replies.items() if one.value is not None}
    is_complete = leader in topics_by_instance and len(topics_by_instance) == len(replies)
    return put_together(
        datastreams, plan, (topic for topics in topics_by_instance.values() for topic in topics), is_complete
    )


def put_together(
    datastreams: Sequence[Datastream], plan: Plan, topics: Iterable[TopicMovement], is_complete: bool
) -> FleetMovement:
    """Combine topics of groups into movements by datastream."""
    by_group: dict[GroupName, list[TopicMovement]] = defaultdict(list)
    for topic in topics:
        by_group[topic.group].append(topic)
    found = {
        each.name: DatastreamStates(
            each.source,
            added(
                one.movement
                for one in by_group.get(each.group, ())
                if each.selection.matches(one.topic) and not plan.excludes(each.name, one.topic)
            ),
            each.destination,
        )
        for each in datastreams
    }
    return FleetMovement(found, is_complete)


class FleetMovements:
    """Same outside of REST requests, with a separate event loop; used by one thread at a time."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._credentials = FleetCredentials(services.secret, services.clock)

    def __call__(self) -> FleetMovement:
        """Return the movements of all datastreams. Raises Unreachable, DamagedState."""
        services = self._services
        live, plan = services.live(), services.plan()
        datastreams = services.control.list().datastreams

        async def look() -> FleetMovement:
            fleet = Fleet(self._credentials, services.transport, services.fleet_deadline_seconds)
            try:
                return await movements(services, fleet, live, plan, datastreams)
            finally:
                await fleet.close()

        return asyncio.run(look())

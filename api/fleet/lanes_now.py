"""Current lanes of a group on all instances, for a thread of this instance: its monitor."""

from __future__ import annotations

from typing import Any

import anyio

from api.fleet.all_instances import AllInstances, lanes_answer
from api.fleet.credentials import FleetCredentials
from api.fleet.questions import Fleet
from api.services import Services
from mirror.model.identifiers import GroupName


class LanesNow:
    """Used by one thread. Blocks until all instances respond, at most for the fleet deadline."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._credentials = FleetCredentials(services.secret, services.clock)

    def of(self, group: GroupName) -> Any:
        """Return the response of `/v1/lanes?datastream=`. Raises Unreachable."""
        return anyio.run(self._ask, group)

    async def _ask(self, group: GroupName) -> Any:
        services = self._services
        fleet = Fleet(self._credentials, services.transport, services.fleet_deadline_seconds)
        try:
            live = services.live()
            replies = await AllInstances(services, fleet, live).lanes(group)
        finally:
            await fleet.close()
        return lanes_answer(replies).model_dump(mode="json")

"""Plans each group by the placement strategy that its datastreams choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from mirror.errors import ConfigError, legible
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.ports import Planner

_log = structlog.get_logger(__name__)


class ChosenStrategies:
    """Satisfies `ports.Planner`. `service`: plans the groups that choose nothing. `make`: the strategy of a
    name; raises ConfigError. One that was made is kept; one that cannot be made is tried again at the next
    planning, and the service's plans in its place: the log says so once, the plan each time."""

    def __init__(self, service: Planner, make: Callable[[str], Planner]) -> None:
        self._service = service
        self._make = make
        self._made: dict[str, Planner] = {}
        self._missing: dict[str, str] = {}

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Raises PlanRejected, and what the strategy raises."""
        if request.strategy is None:
            return self._service.plan(request)
        planner = self._strategy(request.strategy)
        if planner is not None:
            return planner.plan(request)
        answer = self._service.plan(request)
        note = f"planned by the strategy of the service: {self._missing[request.strategy]}"
        return replace(answer, reasons=(note, *answer.reasons))

    def _strategy(self, name: str) -> Planner | None:
        """None: it cannot be made, and why is noted."""
        if name not in self._made:
            try:
                self._made[name] = self._make(name)
            except ConfigError as error:
                reason = legible(str(error))
                if self._missing.get(name) != reason:
                    _log.warning("the service's placement strategy is used", chosen=name, reason=reason)
                self._missing[name] = reason
                return None
            self._missing.pop(name, None)
        return self._made[name]

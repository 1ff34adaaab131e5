"""Plans each group by the placement strategy that its datastreams choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from headrace.plug_ins.guard import PATIENCE_SECONDS, PatientCalls
from mirror.errors import ConfigError, TimedOut, legible
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.ports import Planner

_log = structlog.get_logger(__name__)


class ChosenStrategies:
    """Satisfies `ports.Planner`. `service`: plans the groups that choose nothing. `make`: the strategy of a
    name; raises ConfigError. One that was made is kept; one that cannot be made is tried again at the next
    planning, and the service's plans in its place: the log says so once, the plan each time. So it is with
    one that takes longer than `patience_seconds` to be made."""

    def __init__(
        self,
        service: Planner,
        make: Callable[[str], Planner],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._service = service
        self._make = make
        self._patience_seconds = patience_seconds
        self._calls: dict[str, PatientCalls] = {}
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
                calls = self._calls.setdefault(name, PatientCalls(self._patience_seconds))
                what = f"the package of the placement strategy {name!r}"
                self._made[name] = calls.ask(what, lambda: self._make(name))
            except (ConfigError, TimedOut) as error:
                reason = legible(str(error))
                if self._missing.get(name) != reason:
                    _log.warning("the service's placement strategy is used", chosen=name, reason=reason)
                self._missing[name] = reason
                return None
            self._missing.pop(name, None)
            del self._calls[name]
        return self._made[name]

"""Plans each datastream group with the placement strategy that its definition names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.plug_ins.guard import PATIENCE_SECONDS, PatientCalls
from mirror.errors import ConfigError, TimedOut
from mirror.loggers import get_logger
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.reasons import legible
from mirror.ports import Planner

_log = get_logger(__name__)


class ChosenStrategies:
    """Planner that uses the placement strategy named by each datastream group. Implements `ports.Planner`.

    `service`: default strategy. `make`: creates the strategy with a given name, or raises ConfigError.

    Each strategy is created once. If the creation fails or takes longer than `patience_seconds`, the default
    strategy is used, and the creation is retried with the next plan. The reason is logged once, and included
    in each plan.
    """

    def __init__(
        self, service: Planner, make: Callable[[str], Planner], patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._service = service
        self._make = make
        self._patience_seconds = patience_seconds
        self._calls: dict[str, PatientCalls] = {}
        self._made: dict[str, Planner] = {}
        self._missing: dict[str, str] = {}

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Plan a datastream group with its placement strategy. Raises PlanRejected, and the errors of the
        strategy."""
        if request.strategy is None:
            return self._service.plan(request)
        planner = self._strategy(request.strategy)
        if planner is not None:
            return planner.plan(request)
        answer = self._service.plan(request)
        note = f"planned by the service's strategy: {self._missing[request.strategy]}"
        return replace(answer, reasons=(note, *answer.reasons))

    def _strategy(self, name: str) -> Planner | None:
        """Return the placement strategy with this name. If it cannot be created, record the reason and return
        None."""
        if name not in self._made:
            try:
                calls = self._calls.setdefault(name, PatientCalls(self._patience_seconds))
                subject = f"the package of placement strategy {name!r}"
                self._made[name] = calls.ask(subject, lambda: self._make(name))
            except (ConfigError, TimedOut) as error:
                reason = legible(str(error))
                if self._missing.get(name) != reason:
                    _log.warning("using the service's placement strategy", chosen=name, reason=reason)
                self._missing[name] = reason
                return None
            self._missing.pop(name, None)
            del self._calls[name]
        return self._made[name]

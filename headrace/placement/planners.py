"""Selects the planner and the load provider of the leader.

The libraries of an extra are imported only if they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Final

from pydantic import SecretStr

from assigner.settings import AssignerSettings
from headrace.plug_ins.entry_points import OWN_PROVIDERS, load_provider, placement_strategy
from headrace.plug_ins.load_answers import CheckedLoads, freshness_of
from headrace.plug_ins.plan_answers import CheckedStrategy
from headrace.plug_ins.strategies import ChosenStrategies
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.task_placement import TaskPlacementRules
from mirror.errors import ConfigError, LoadUnavailable
from mirror.instance.background_calls import BackgroundCalls, PatientFreshness, PatientLoads, ThreadedCalls
from mirror.instance.fleet_planner import Planning
from mirror.instance.health import Health
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.catch_up import LoadsWithBacklog
from mirror.instance.loads.providers import LoadProviders, ProviderInUse
from mirror.instance.workers.costs import CapacityResolver, CostStore
from mirror.loggers import get_logger
from mirror.model.capacity.capacity import CapacityTerms
from mirror.model.capacity.freeze import read_freeze
from mirror.model.capacity.knobs import joint_terms
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.load import LoadReport, TaskCapacity
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore, Planner

_log = get_logger(__name__)
_INSTALL: Final = "pip install 'headrace[assigner]'"
_LIBRARIES: Final = ("numpy", "ortools", "scipy")
"""Libraries that the planner by load needs, which the extra `assigner` installs."""
WITHOUT_PLANNER: Final = f"planner not installed: placement by count; {_INSTALL}"


class NoLoads:
    """Load provider `none`, which knows no loads: partitions are placed by count."""

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Raise LoadUnavailable."""
        raise LoadUnavailable("no load provider is configured (mirror.leader.load_provider)")


class _LoadPlannerOnDemand:
    """Planner by load that is imported only when it computes its first plan.

    The libraries of the planner use 130 MiB, and only the leader needs them.
    """

    def __init__(self, settings: AssignerSettings) -> None:
        self._settings = settings
        self._planner: Planner | None = None

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Return the plan of a datastream group. Raises PlanRejected if the request is infeasible."""
        if self._planner is None:
            from assigner.planner import LoadPlanner

            self._planner = LoadPlanner(self._settings.policy(), self._settings.unknown_load())
        return self._planner.plan(request)


def choose_planner(settings: HeadraceSettings) -> Planner:
    """Return the planner that `mirror.leader.placement_strategy` selects. Raises ConfigError."""
    leader = settings.mirror.leader
    return _strategy(settings, leader.placement_strategy, leader.placement_strategy_options)


def report_planner(settings: HeadraceSettings, health: Health) -> None:
    """Report in the health of the instance if the planner that `auto` prefers is not installed."""
    if sentence := planner_gap(settings):
        health.report("planner", True, sentence)


def planner_gap(settings: HeadraceSettings) -> str:
    """Return a message if the settings require placement by load but its planner is not installed. Raises
    ConfigError."""
    leader = settings.mirror.leader
    is_by_load = leader.placement_strategy == "auto" and leader.load_provider != "none"
    return WITHOUT_PLANNER if is_by_load and isinstance(choose_planner(settings), SimplePlanner) else ""


def choose_strategies(settings: HeadraceSettings) -> ChosenStrategies:
    """Return the default placement strategy, and a function that creates a strategy that datastreams choose.

    Raises ConfigError if the default strategy cannot be created.
    """
    leader, service = settings.mirror.leader, choose_planner(settings)

    def create(name: str) -> Planner:
        if name == leader.placement_strategy:
            return service
        return _strategy(settings, name, leader.strategy_options_by_name.get(name, {}))

    return ChosenStrategies(service, create)


def _strategy(settings: HeadraceSettings, name: str, options: Mapping[str, SecretStr]) -> Planner:
    """Create the placement strategy with the given name. Raises ConfigError."""
    match name:
        case "simple":
            return SimplePlanner()
        case "auto" | "assigner" as chosen:
            missing = [library for library in _LIBRARIES if find_spec(library) is None]
            if not missing:
                return _LoadPlannerOnDemand(settings.assigner)
            if chosen == "assigner":
                raise ConfigError(f"placement strategy assigner requires {missing[0]}", advice=_INSTALL)
            _log.info("using the simple planner", missing=missing[0])
            return SimplePlanner()
        case _:
            return CheckedStrategy(name, placement_strategy(name, _plain(options)))


def choose_providers(
    settings: HeadraceSettings, measured: MeasuredLoads, background_calls: BackgroundCalls
) -> LoadProviders:
    """Return the default load provider, and a function that creates a provider that datastreams choose.

    Raises ConfigError if the default provider cannot be created.
    """
    leader = settings.mirror.leader

    def in_use(found: ProviderInUse, name: str = "") -> ProviderInUse:
        """Wrap a load provider so that backlogs count as load, and that calls return within a limited
        time."""
        with_backlog = LoadsWithBacklog(found.provider, measured.waiting, leader.catch_up_seconds)
        ask = found.freshness and PatientFreshness(found.freshness, ThreadedCalls(0.0, lambda: None))
        return ProviderInUse(PatientLoads(with_backlog, background_calls, name), ask)

    def create(name: str) -> ProviderInUse:
        options = leader.provider_options_by_name.get(name, {})
        return in_use(_provider(settings, name, options, measured), name)

    service = _provider(settings, leader.load_provider, leader.load_provider_options, measured)
    return LoadProviders(in_use(service), leader.load_provider, create, SystemClock())


def _provider(
    settings: HeadraceSettings, name: str, options: Mapping[str, SecretStr], measured: MeasuredLoads
) -> ProviderInUse:
    """Create the load provider with the given name. Raises ConfigError."""
    match name:
        case "self":
            return ProviderInUse(measured, measured.freshness)
        case "none":
            return ProviderInUse(NoLoads())
        case "pinot":
            try:
                from headrace.placement.pinot_loads import pinot_freshness, pinot_provider
            except ModuleNotFoundError as error:
                raise ConfigError(
                    f"load provider pinot requires {error.name}", advice="install headrace[pmp]"
                ) from error
            return ProviderInUse(CheckedLoads("pinot", pinot_provider(settings)), pinot_freshness(settings))
        case _:
            provider = load_provider(name, _plain(options))
            return ProviderInUse(CheckedLoads(name, provider), freshness_of(name, provider))


def check_plug_ins(settings: HeadraceSettings) -> None:
    """Check that all configured plug-ins can be created. Raises ConfigError.

    The created objects are discarded.
    """
    leader = settings.mirror.leader
    if leader.load_provider not in OWN_PROVIDERS:
        load_provider(leader.load_provider, _plain(leader.load_provider_options))
    for name, options in leader.provider_options_by_name.items():
        if name not in OWN_PROVIDERS:
            load_provider(name, _plain(options))
    choose_planner(settings)
    for name, options in leader.strategy_options_by_name.items():
        _strategy(settings, name, options)


def _plain(options: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: option.get_secret_value() for name, option in options.items()}


def task_capacity(settings: HeadraceSettings) -> TaskCapacity:
    """Return the task capacity in the settings, which applies until a capacity is learned."""
    return settings.mirror.leader.task_capacity


def capacity_resolver(
    settings: HeadraceSettings, nodes: NodeStore, assessments: Callable[[], Mapping[GroupName, Assessment]]
) -> CapacityResolver:
    """Return the object that decides the task capacity of each datastream group."""
    terms = settings.mirror.leader.capacity_terms

    def of(members: Sequence[Datastream]) -> CapacityTerms:
        return joint_terms(terms, (member.placement for member in members))

    return CapacityResolver(CostStore(nodes), of, assessments, SystemClock())


def usable_bytes_per_second(settings: HeadraceSettings) -> int | None:
    """Return the usable rate of one task, or None if partitions are not placed by load."""
    if settings.mirror.leader.load_provider == "none":
        return None
    return task_capacity(settings).usable_bytes_per_second


def choose_planning(
    settings: HeadraceSettings, measured: MeasuredLoads, background_calls: BackgroundCalls
) -> Planning:
    """Return the leader's planner, load providers, capacities and placement rules."""
    leader = settings.mirror.leader
    least_gain = settings.assigner.rebalance_gain * task_capacity(settings).usable_bytes_per_second
    return Planning(
        planner=choose_strategies(settings),
        providers=choose_providers(settings, measured, background_calls),
        capacity=task_capacity(settings),
        interval_seconds=leader.replan_interval_seconds,
        rules=TaskPlacementRules(
            round(leader.return_delay_seconds * 1000), leader.imbalance_threshold, least_gain
        ),
        freezes=tuple(read_freeze(window) for window in leader.freeze_windows),
    )

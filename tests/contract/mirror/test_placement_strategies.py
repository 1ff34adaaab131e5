"""Contract tests of the included placement strategies, which plug-ins use too."""

from __future__ import annotations

from assigner.planner import LoadPlanner
from headrace.plug_ins.placement_strategy_contract import PlacementStrategyContract
from mirror.coordination.placement import SimplePlanner
from mirror.ports import Planner


class TestAssigner(PlacementStrategyContract):
    def strategy(self) -> Planner:
        return LoadPlanner()


class TestSimple(PlacementStrategyContract):
    def strategy(self) -> Planner:
        return SimplePlanner()

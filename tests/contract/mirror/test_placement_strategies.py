"""Our own placement strategies keep the contract that those of others are held to."""

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

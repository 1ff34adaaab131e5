"""Parameters of planning. `assigner/settings.py` derives them from the settings of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import inf
from typing import Final

from mirror.errors import InvalidRequest

_SHARE: Final[Mapping[str, int]] = {"ge": 0, "le": 1}


class PlanMode(StrEnum):
    """Planning mode: FULL ignores the current placement; INCREMENTAL keeps it where possible."""

    FULL = "full"
    INCREMENTAL = "incremental"


@dataclass(frozen=True)
class PlanningOptions:
    """Parameters that operators can set; docs/placement/settings.md explains each of them.

    The metadata of a field contains the bounds of its value, with pydantic's names. Raises InvalidRequest for
    a value out of bounds.
    """

    scale_in_headroom: float = field(default=0.2, metadata={"ge": 0, "le": 0.9})
    """Share of each remaining task's usable capacity that must stay free when tasks are removed. 0.2
    tolerates load fluctuations of 10 %."""
    overload_band: float = field(default=0.0, metadata=_SHARE)
    """Share by which the load of a task may exceed the usable capacity before partitions are moved away from
    it. Ignored in a rebalance."""
    move_slack: float = field(default=0.0, metadata=_SHARE)
    """Share by which a plan may exceed the minimum number of moved bytes to move fewer partitions. Fewer
    moves mean fewer interruptions, because each moved partition pauses. 0 moves as few bytes as possible."""
    move_budget: float | None = field(default=None, metadata=_SHARE)
    """Share of all bytes that one plan may move; unset means no limit."""
    full_move_cost: float | None = field(default=None, metadata={"ge": 0})
    """Bytes/s of capacity that a full plan must free for each byte/s that it moves more than an incremental
    plan. A full plan that meets this ratio is chosen automatically. If unset, full plans are made only on
    request."""
    exact_cells: int = field(default=14_000, metadata={"ge": 0})
    """Maximum problem size for which the solver minimizes the moved bytes over all partitions. The size is
    the number of partitions with load times the number of tasks."""
    effort: float = field(default=1.0, metadata={"gt": 0, "le": 100})
    """Factor for the step limits of the solver: 0.2 is quick, 5 is thorough."""
    seed: int = field(default=1, metadata={"ge": 0, "le": 1_000_000_000})
    """Seed of random choices; equal seeds give equal plans."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value, bounds = getattr(self, option.name), option.metadata
            low, high = bounds.get("gt", bounds.get("ge", -inf)), bounds.get("le", inf)
            is_inside = not bounds or value is None or low <= value <= high
            if not is_inside or (value == low and "gt" in bounds):
                raise InvalidRequest(f"{option.name} is {value}; it must be between {low} and {high}")


@dataclass(frozen=True)
class Policy(PlanningOptions):
    """Parameters of planning, derived from settings and the request.

    `tolerance`: accepted excess of the fullest task over the best possible value in a full plan or rebalance.
    `least_gain`: share of usable capacity by which a rebalance must relieve the fullest task; otherwise the
    rebalance moves nothing. `settling`: number of observations, including the current one, in which a task
    must have been overloaded or the load must have needed more tasks. `keep_reason`: reason why no task is
    removed, if the planner and not the datastream set the minimum number of tasks.
    """

    mode: PlanMode = PlanMode.FULL
    rebalance: bool = False
    tolerance: float = field(default=0.01, metadata=_SHARE)
    least_gain: float = field(default=0.0, metadata=_SHARE)
    settling: int = field(default=3, metadata={"ge": 1})
    keep_reason: str = ""

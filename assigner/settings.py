"""What an operator can set about planning. The capacity of a task is `mirror.leader.task_…`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from assigner.advice.settings import AdviceSettings
from mirror.model.load import HIGHEST_RATE, LoadLevel, PartitionLoad, RateSource
from mirror.options import Settings

if TYPE_CHECKING:
    from assigner.problem.problem import Policy


class UnknownLoads(Settings):
    """The load assumed of a partition when neither its own nor its topic's is known."""

    bytes_per_second: float = Field(default=5 * 1024, ge=0, le=HIGHEST_RATE)
    """Bytes per second that are assumed."""
    messages_per_second: float = Field(default=5.0, ge=0, le=HIGHEST_RATE)
    """Messages per second that are assumed."""


class AssignerSettings(Settings):
    """How plans are made; docs/placement.md explains each with figures."""

    rebalance_tolerance: float = Field(default=0.01, ge=0, le=1)
    """A rebalance levels tasks to within this share of the best possible maximum; less moves more bytes."""
    rebalance_gain: float = Field(default=0.05, ge=0, le=1)
    """A rebalance levels only where the fullest task, or instance, comes down by this share of the usable
    capacity of a task."""
    scale_in_headroom: float = Field(default=0.2, ge=0, le=0.9)
    """Tasks are removed only when this share of each remaining one stays free; 0.2 bears noise of 10 %."""
    overload_band: float = Field(default=0.1, ge=0, le=1)
    """Without a rebalance a task is left alone until it is this share above its usable capacity."""
    settling_observations: int = Field(default=3, ge=1)
    """Consecutive observations that must agree before tasks are added or overloads relieved."""
    move_slack: float = Field(default=0.1, ge=0, le=1)
    """Share of the least bytes that a plan may move in addition if that moves fewer partitions, each of which
    pauses for its move; 0 moves the fewest bytes."""
    move_budget: float | None = Field(default=None, ge=0, le=1)
    """Share of all bytes that one plan may move; unset means no limit."""
    full_move_cost: float | None = Field(default=None, ge=0)
    """Bytes/s of capacity that a full plan must free for each byte/s it moves more than an incremental
    one, to be chosen by itself; unset means only on request."""
    exact_cells: int = Field(default=14_000, ge=0)
    """Partitions that carry something, times tasks, up to which the solver looks for the fewest moved
    bytes."""
    effort: float = Field(default=1.0, gt=0, le=100)
    """Scales all step limits: 0.2 is quick, 5 is thorough."""
    seed: int = Field(default=1, ge=0, le=1_000_000_000)
    """Of the random choices; equal seeds give equal plans."""
    unknown: UnknownLoads = UnknownLoads()
    advice: AdviceSettings = AdviceSettings()

    def policy(self) -> Policy:
        """The same for the planner."""
        from assigner.problem.problem import Policy

        return Policy(
            tolerance=self.rebalance_tolerance,
            least_gain=self.rebalance_gain,
            scale_in_headroom=self.scale_in_headroom,
            overload_band=self.overload_band,
            settling=self.settling_observations,
            move_slack=self.move_slack,
            move_budget=self.move_budget,
            full_move_cost=self.full_move_cost,
            exact_cells=self.exact_cells,
            effort=self.effort,
            seed=self.seed,
        )

    def unknown_load(self) -> PartitionLoad:
        """The same as a load."""
        return PartitionLoad(
            self.unknown.bytes_per_second,
            self.unknown.messages_per_second,
            LoadLevel.DEFAULT,
            RateSource.CONFIGURED,
        )

"""Settings of the planner. The capacity of a task is set by `mirror.leader.task_…`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from assigner.advice.settings import AdviceSettings
from mirror.model.load import HIGHEST_RATE, LoadLevel, PartitionLoad, RateSource
from mirror.options import Settings

if TYPE_CHECKING:
    from assigner.problem.problem import Policy


class UnknownLoads(Settings):
    """Load that is assumed for a partition if neither its own load nor the load of its topic is known."""

    bytes_per_second: float = Field(default=5 * 1024, ge=0, le=HIGHEST_RATE)
    """Assumed load of the partition, in bytes per second."""
    messages_per_second: float = Field(default=5.0, ge=0, le=HIGHEST_RATE)
    """Assumed load of the partition, in messages per second."""


class AssignerSettings(Settings):
    """Settings of the planner; docs/placement/settings.md explains each setting."""

    rebalance_tolerance: float = Field(default=0.01, ge=0, le=1)
    """Fraction by which the load of the fullest task may exceed the lowest possible value after a rebalance.
    A lower fraction means that rebalances move more bytes."""
    rebalance_gain: float = Field(default=0.05, ge=0, le=1)
    """A rebalance moves partitions only if it reduces the load of the fullest task or instance by at least
    this share of a task's usable capacity."""
    scale_in_headroom: float = Field(default=0.2, ge=0, le=0.9)
    """Share of each remaining task's usable capacity that must stay free when tasks are removed. 0.2
    tolerates load fluctuations of 10 %."""
    overload_band: float = Field(default=0.1, ge=0, le=1)
    """Share by which the load of a task may exceed the usable capacity before partitions are moved away from
    it. A rebalance ignores this share."""
    settling_observations: int = Field(default=3, ge=1)
    """Number of consecutive load observations that must agree before tasks are added or partitions are moved
    away from overloaded tasks."""
    move_slack: float = Field(default=0.1, ge=0, le=1)
    """Share by which a plan may exceed the minimum number of moved bytes to move fewer partitions. Fewer
    moves mean fewer interruptions, because each moved partition pauses. 0 moves as few bytes as possible."""
    move_budget: float | None = Field(default=None, ge=0, le=1)
    """Share of all bytes that one plan may move; unset means no limit."""
    full_move_cost: float | None = Field(default=None, ge=0)
    """Minimum capacity (bytes/s) that a full plan must free for each byte/s that it moves more than an
    incremental plan. A full plan that meets this ratio is chosen automatically. If unset, full plans are made
    only on request."""
    exact_cells: int = Field(default=14_000, ge=0)
    """Maximum problem size for which the solver minimizes the moved bytes over all partitions. The size is
    the number of partitions with load times the number of tasks."""
    effort: float = Field(default=1.0, gt=0, le=100)
    """Factor for the step limits of the solver: 0.2 is quick, 5 is thorough."""
    seed: int = Field(default=1, ge=0, le=1_000_000_000)
    """Seed of random choices; equal seeds give equal plans."""
    unknown: UnknownLoads = UnknownLoads()
    advice: AdviceSettings = AdviceSettings()

    def policy(self) -> Policy:
        """Return the planner's policy as configured."""
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
        """Return the assumed load."""
        return PartitionLoad(
            self.unknown.bytes_per_second,
            self.unknown.messages_per_second,
            LoadLevel.DEFAULT,
            RateSource.CONFIGURED,
        )

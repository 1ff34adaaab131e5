"""Settings of the planner. The capacity of a task is set by `mirror.leader.task_…`."""

from __future__ import annotations

from pydantic import Field

from assigner.advice.settings import AdviceSettings
from assigner.problem.policy import PlanningOptions, Policy
from mirror.model.load import HIGHEST_RATE, LoadLevel, PartitionLoad, RateSource
from mirror.options import DerivedSettings, Settings


class UnknownLoads(Settings):
    """Load to assume for a partition if its own load and that of its topic are unknown."""

    bytes_per_second: float = Field(default=5 * 1024, ge=0, le=HIGHEST_RATE)
    """Assumed load of the partition, in bytes per second."""
    messages_per_second: float = Field(default=5.0, ge=0, le=HIGHEST_RATE)
    """Assumed load of the partition, in messages per second."""


class AssignerSettings(DerivedSettings, PlanningOptions):
    """Settings of the planner; docs/placement/settings.md explains each setting."""

    rebalance_tolerance: float = Field(default=0.01, ge=0, le=1)
    """Fraction by which the load of the fullest task may exceed the lowest possible value after a rebalance.
    A lower fraction means that rebalances move more bytes."""
    rebalance_gain: float = Field(default=0.05, ge=0, le=1)
    """A rebalance moves partitions only if it reduces the load of the fullest task or instance by at least
    this share of a task's usable capacity."""
    settling_observations: int = Field(default=3, ge=1)
    """Number of consecutive observations that must agree before tasks are added or partitions are moved away
    from overloaded tasks."""
    overload_band: float = 0.1
    move_slack: float = 0.1
    unknown: UnknownLoads = UnknownLoads()
    advice: AdviceSettings = AdviceSettings()

    def policy(self) -> Policy:
        """Return the planner's policy with these settings."""
        return Policy(
            **self.values(),
            tolerance=self.rebalance_tolerance,
            least_gain=self.rebalance_gain,
            settling=self.settling_observations,
        )

    def unknown_load(self) -> PartitionLoad:
        """Assumed load of a partition whose load is unknown."""
        return PartitionLoad(
            self.unknown.bytes_per_second,
            self.unknown.messages_per_second,
            LoadLevel.DEFAULT,
            RateSource.CONFIGURED,
        )

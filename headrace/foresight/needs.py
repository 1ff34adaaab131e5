"""Computes a lower bound on the number of tasks that each past hour required.

Results are cached, so each computation adds only a few hours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assigner.advice.past import LeastTerms, least_tasks
from headrace.foresight.history import DAY, HOUR_MS
from headrace.foresight.sums import HourlySums
from mirror.model.identifiers import GroupName
from mirror.model.load import LoadSums, TaskLimits
from mirror.model.topics import TopicPartition

if TYPE_CHECKING:
    from assigner.what_if.document import Fallback

WEEK: Final = 7 * DAY


@dataclass(frozen=True)
class Sizing:
    """Everything except the loads that determines how many tasks a group requires.

    `planned`: planned partitions of the group.
    """

    planned: frozenset[TopicPartition]
    limits: TaskLimits
    how: Fallback

    @property
    def terms(self) -> LeastTerms:
        """Parameters for computing the lower bound on the number of tasks."""
        how = self.how
        return LeastTerms(len(self.planned), how.capacity, how.default, self.limits.max_partitions_per_task)


class PastNeeds:
    """Cache of the number of tasks that each group required in each hour of the last week. Not
    thread-safe."""

    def __init__(self, least: Callable[[LoadSums, LeastTerms], int] = least_tasks) -> None:
        self._least = least
        self._kept: dict[GroupName, tuple[Sizing, dict[int, int]]] = {}

    def of(self, group: GroupName, sizing: Sizing, past: HourlySums, now_ms: int) -> Mapping[int, int]:
        """Map each past hour (epoch ms) to the lower bound on the tasks that it required. Hours with unknown
        loads are omitted.

        If partitions, limits or capacity have changed, only the hours of the last day are computed again.
        `past`: load sums of the group.
        """
        end = now_ms // HOUR_MS * HOUR_MS
        before, kept = self._kept.get(group, (sizing, {}))
        valid_until = end if before == sizing else end - DAY * HOUR_MS
        needs: dict[int, int] = {}
        for hour in range(end - WEEK * HOUR_MS, end, HOUR_MS):
            if hour in kept and hour < valid_until:
                needs[hour] = kept[hour]
            elif (sums := past.get(hour)) is not None:
                needs[hour] = self._least(sums, sizing.terms)
        self._kept[group] = sizing, needs
        return needs

    def keep(self, groups: Collection[GroupName]) -> None:
        """Drop the results of datastream groups that no longer exist."""
        self._kept = {group: known for group, known in self._kept.items() if group in groups}

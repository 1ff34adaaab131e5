"""Tasks that past hours required. Results are cached, so that a turn plans few hours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.foresight.history import DAY, HOUR_MS, Hours
from mirror.model.identifiers import GroupName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicPartition

if TYPE_CHECKING:
    from assigner.what_if.document import Fallback

WEEK: Final = 7 * DAY


@dataclass(frozen=True)
class Sizing:
    """Inputs that determine the tasks of a group, apart from its loads. `planned`: its planned partitions."""

    planned: frozenset[TopicPartition]
    limits: TaskLimits
    how: Fallback


class PastNeeds:
    """Tasks required in the last week, by group. Not thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[GroupName, tuple[Sizing, dict[int, int]]] = {}

    def of(self, group: GroupName, sizing: Sizing, past: Hours, now_ms: int) -> Mapping[int, int]:
        """Return the tasks that the group required, by hour (epoch ms); hours without known loads are
        omitted.

        If partitions, limits or capacity have changed, only the hours of the last day are planned again,
        older hours keep their result: a turn plans at most 24 hours, except for the first turn of a leader,
        which plans a week. `past`: loads of the group alone.
        """
        end = now_ms // HOUR_MS * HOUR_MS
        before, kept = self._kept.get(group, (sizing, {}))
        valid_until = end if before == sizing else end - DAY * HOUR_MS
        needs: dict[int, int] = {}
        for hour in range(end - WEEK * HOUR_MS, end, HOUR_MS):
            if hour in kept and hour < valid_until:
                needs[hour] = kept[hour]
            elif loads := past.get(hour):
                from assigner.what_if.ahead import needed_tasks

                needs[hour] = needed_tasks(sizing.planned, loads, sizing.limits, sizing.how)
        self._kept[group] = sizing, needs
        return needs

    def keep(self, groups: Collection[GroupName]) -> None:
        """Drop the results of all other groups, which no longer exist."""
        self._kept = {group: one for group, one in self._kept.items() if group in groups}

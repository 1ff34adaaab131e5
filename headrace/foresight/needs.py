"""The tasks that the hours behind needed. What was planned once is kept, so that a turn plans few of them."""

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
    """What the tasks of a group follow from, beside its loads: the partitions that are planned, and how."""

    planned: frozenset[TopicPartition]
    limits: TaskLimits
    how: Fallback


class PastNeeds:
    """Of the last week, by group. Used by one thread."""

    def __init__(self) -> None:
        self._kept: dict[GroupName, tuple[Sizing, dict[int, int]]] = {}

    def of(self, group: GroupName, sizing: Sizing, past: Hours, now_ms: int) -> Mapping[int, int]:
        """Tasks that the group needed, by hour (epoch ms); without the hours in which nothing of it is known.

        The hours of the last day are planned again where partitions, limits or capacity are others now. An
        older hour stays as it was planned last: a turn plans 24 hours at the most, and only the first of a
        leader plans a week. `past`: loads of the group alone.
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
        """Only of these: the others are gone."""
        self._kept = {group: one for group, one in self._kept.items() if group in groups}

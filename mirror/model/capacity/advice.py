"""Sizing advice: required number of tasks and instances, now and in the coming hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror.model.identifiers import GroupName
from mirror.wording import duration_text

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class HourNeed:
    """Number of tasks required in one hour of the forecast. `tasks`: for the median; `most_tasks`: for the
    upper bound.

    `hour_ms`: start of the hour (epoch ms).
    """

    hour_ms: int
    tasks: int
    most_tasks: int


@dataclass(frozen=True, slots=True)
class GroupNeed:
    """Required number of tasks of one group of datastreams.

    `tasks`: current number of tasks. `now`: number required for the current load, None if unknown. `coming`:
    number required in the next hours, empty without a forecast. `why`: missing data and the reason, or an
    empty string. `tried`, `covered`, `error`: accuracy of the forecast, as in
    `assigner.forecast.seasonal.ForecastGrade`; None without enough history.
    """

    group: GroupName
    tasks: int
    now: int | None
    coming: tuple[HourNeed, ...] = ()
    why: str = ""
    tried: int = 0
    covered: float | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Hours:
    """Current and required task-hours and instance-hours, in total over the hours of a forecast.

    `needed_instance_hours`: None if the number of tasks per instance is unknown.
    """

    hours: int
    task_hours: int
    needed_task_hours: int
    instance_hours: int
    needed_instance_hours: int | None


@dataclass(frozen=True, slots=True)
class PastNeed:
    """Required task-hours in the past, over hours in which the load of every group is known.

    `task_hours`: task-hours with the current number of tasks. `peak_task_hours`: task-hours if every hour had
    the tasks of the busiest hour. `needed_task_hours`: sum of the tasks that each hour requires for its mean
    load, regardless of task limits. No sizing can use less.
    """

    hours: int
    task_hours: int
    peak_task_hours: int
    needed_task_hours: int


@dataclass(frozen=True, slots=True)
class Advice:
    """Sizing advice that the leader has computed at `computed_ms` (epoch ms).

    `required_tasks`, `required_instances`: number required now and very soon, smoothed for an autoscaler.
    None if the number for any group is unknown; `why` then contains the group. `tasks_at_least`,
    `instances_at_least`: number required by the groups with a known number. `last_required_tasks`: last known
    `required_tasks`. `lower_since_ms`, `lower_tasks`: time since which fewer tasks than `required_tasks`
    would have been sufficient, and the maximum required since then; None if all tasks are required. `rises`:
    first hour that requires more than `required_tasks`. `peak`, `peak_instances`: hour that requires most
    tasks, and the instances for it. `sums`: None without a forecast. `past_day`, `past_week`: sums over the
    last 24 and 168 whole hours; None without an hour in which the load of every group is known.
    `tasks_per_instance`: None if the capacity of an instance is unknown.
    """

    computed_ms: int
    tasks: int
    instances: int
    required_tasks: int | None
    required_instances: int | None
    why: str
    sentence: str
    tasks_at_least: int = 0
    instances_at_least: int | None = None
    last_required_tasks: int | None = None
    lower_since_ms: int | None = None
    lower_tasks: int | None = None
    rises: HourNeed | None = None
    peak: HourNeed | None = None
    peak_instances: int | None = None
    sums: Hours | None = None
    past_day: PastNeed | None = None
    past_week: PastNeed | None = None
    groups: tuple[GroupNeed, ...] = ()
    tasks_per_instance: int | None = None


def age_text(advice: Advice, now_ms: int) -> str:
    """Return the age of the advice, such as `12 min`."""
    return duration_text(max(now_ms - advice.computed_ms, 0) // 1000)


def sentence_with_age(advice: Advice, now_ms: int) -> str:
    """Return the advice as a sentence, followed by its age."""
    return f"{advice.sentence} (computed {age_text(advice, now_ms)} ago)"


def hours_together(groups: Sequence[GroupNeed], now_ms: int) -> list[HourNeed]:
    """Return the tasks that all groups together require in the current and the following hours.

    Groups without a forecast count with their current number.
    """
    by_group = [{hour.hour_ms: hour for hour in group.coming} for group in groups]
    hours = sorted({hour for coming in by_group for hour in coming if hour + HOUR_MS > now_ms})
    found = []
    for hour in hours:
        middle = most = 0
        for group, known in zip(groups, by_group, strict=True):
            need = known.get(hour)
            middle += need.tasks if need else group.now or 0
            most += need.most_tasks if need else group.now or 0
        found.append(HourNeed(hour, middle, most))
    return found

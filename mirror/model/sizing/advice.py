"""What the service should be given: tasks and instances, now and in the hours ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror.model.identifiers import GroupName
from mirror.wording import duration_text

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class HourNeed:
    """The tasks that an hour from `hour_ms` (epoch ms) on needs: for the middle of the forecast, and for its
    high end."""

    hour_ms: int
    tasks: int
    most_tasks: int


@dataclass(frozen=True, slots=True)
class GroupNeed:
    """Of one group of datastreams.

    `tasks`: in force. `now`: what the present load needs, None where it is not known. `coming`: the hours
    ahead, none where nothing is forecast. `why`: what is not known, and why; empty where all is. `tried`,
    `covered`, `error`: the grade of such forecasts, as in `assigner.forecast.seasonal.Grade`; None where the
    past says nothing.
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
    """Sums over the hours of a forecast: what stays as it is takes, and what is needed takes. Instance-hours
    are None where nobody says how many tasks an instance bears."""

    hours: int
    task_hours: int
    needed_task_hours: int
    instance_hours: int
    needed_instance_hours: int | None


@dataclass(frozen=True, slots=True)
class PastNeed:
    """Task-hours of those hours of a past time in which the load of every group is known.

    `task_hours`: what is in force now takes, if it stands in all of them. `peak_task_hours`: the number that
    the busiest of them needed, in all of them. `needed_task_hours`: what each needed by its mean load, which
    is the least that sizing can reach, whatever the limits on the number of tasks allow.
    """

    hours: int
    task_hours: int
    peak_task_hours: int
    needed_task_hours: int


@dataclass(frozen=True, slots=True)
class Advice:
    """Computed by the leader at `computed_ms` (epoch ms).

    `required_tasks`, `required_instances`: what is needed now and very soon, steady enough for an
    autoscaler; None where the need of a group is unknown, which `why` names. `tasks_at_least`,
    `instances_at_least`: the need of the other groups. `last_required_tasks`: the last number that was
    known for all groups. `lower_since_ms`, `lower_tasks`: since when less would do, and the most of that
    time; None while not. `rises`: the first hour that needs more than is required now. `peak`: the hour
    that needs most, `peak_instances`: how many that takes; both of the groups whose need is known. `sums`:
    None without a forecast. `past_day`, `past_week`: of the last 24 and 168 whole hours; None where no hour
    of it is known of every group. `tasks_per_instance`: None where nobody says how many an instance bears.
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
    """Return how old an advice is, such as `12 min`."""
    return duration_text(max(now_ms - advice.computed_ms, 0) // 1000)


def sentence_with_age(advice: Advice, now_ms: int) -> str:
    """Return its sentence and how old it is."""
    return f"{advice.sentence} (computed {age_text(advice, now_ms)} ago)"


def hours_together(groups: Sequence[GroupNeed], now_ms: int) -> list[HourNeed]:
    """Return the hours that are not over, for all groups; one without a forecast needs what it needs now."""
    by_group = [{hour.hour_ms: hour for hour in one.coming} for one in groups]
    hours = sorted({hour for one in by_group for hour in one if hour + HOUR_MS > now_ms})
    found = []
    for hour in hours:
        middle = most = 0
        for one, known in zip(groups, by_group, strict=True):
            need = known.get(hour)
            middle += need.tasks if need else one.now or 0
            most += need.most_tasks if need else one.now or 0
        found.append(HourNeed(hour, middle, most))
    return found

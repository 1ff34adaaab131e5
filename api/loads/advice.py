"""Advice to size the service on /v1."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import BaseModel

from mirror.model.sizing.advice import Advice, sentence_with_age


class HourNeedAnswer(BaseModel):
    """What an hour from `hour_ms` (epoch ms) on needs: `tasks` for the middle of the forecast, `most_tasks`
    for its high end."""

    hour_ms: int
    tasks: int
    most_tasks: int


class GroupNeedAnswer(BaseModel):
    """Of one group of datastreams. `tasks`: in force. `now`: needed by the present load, null where that is
    not known. `coming`: by hour, empty where nothing is forecast; `why` says what is not known. `tried`,
    `covered`, `error`: how such forecasts came out: their number, the share of them that lay at or above
    what came, and how far the middle was off (the median, as a share of what came)."""

    group: str
    tasks: int
    now: int | None
    coming: list[HourNeedAnswer]
    why: str
    tried: int
    covered: float | None
    error: float | None


class HoursAnswer(BaseModel):
    """Sums over the `hours` of the forecast: what is there now, if it stays, and what is needed. Their
    difference is what growing and shrinking would save, or what is missing."""

    hours: int
    task_hours: int
    needed_task_hours: int
    instance_hours: int
    needed_instance_hours: int | None


class PastNeedAnswer(BaseModel):
    """Task-hours of those `hours` of a past time in which every load is known. `task_hours`: what is in force
    now takes, if it stands in all of them; `peak_task_hours`: the number that the busiest of them needed, in
    all of them; `needed_task_hours`: what each needed by its mean load. What is needed below the others is
    the most that sizing hour by hour can save; it is computed also where limits forbid it."""

    hours: int
    task_hours: int
    peak_task_hours: int
    needed_task_hours: int


class AdviceAnswer(BaseModel):
    """`required_tasks`, `required_instances`: now and very soon; they rise at once and fall late. Null
    where the need of a datastream is unknown, which `why` names; `tasks_at_least`, `instances_at_least`: the
    need of the others. `rises`: the first hour that needs more; `peak`: the hour that
    needs most, and the instances it takes. `lower_since_ms`: since when fewer tasks would do, `lower_tasks`:
    how many. `past_day`, `past_week`: of the last 24 and 168 whole hours, null where no hour of them is
    known. `tasks_per_instance`: as it is set. `computed_ms` is null where the leader has not computed it
    yet."""

    computed_ms: int | None
    tasks: int | None
    instances: int | None
    required_tasks: int | None
    required_instances: int | None
    why: str
    sentence: str
    tasks_at_least: int | None = None
    instances_at_least: int | None = None
    lower_since_ms: int | None = None
    lower_tasks: int | None = None
    rises: HourNeedAnswer | None = None
    peak: HourNeedAnswer | None = None
    peak_instances: int | None = None
    sums: HoursAnswer | None = None
    past_day: PastNeedAnswer | None = None
    past_week: PastNeedAnswer | None = None
    groups: list[GroupNeedAnswer] = []
    tasks_per_instance: int | None = None

    @classmethod
    def from_advice(cls, found: Advice | None, now_ms: int) -> AdviceAnswer:
        """None: not computed yet. The sentence says how old it is."""
        if found is None:
            why = "the leader has not computed it yet"
            return cls(
                computed_ms=None,
                tasks=None,
                instances=None,
                required_tasks=None,
                required_instances=None,
                why=why,
                sentence="nothing is advised yet",
            )
        fields = {name: one for name, one in asdict(found).items() if name in cls.model_fields}
        return cls.model_validate(fields | {"sentence": sentence_with_age(found, now_ms)})

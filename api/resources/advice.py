"""/v1/advice: sizing advice of the leader."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from fastapi import APIRouter
from pydantic import BaseModel

from api.fleet.dependencies import ReadsDep, ServicesDep
from api.http.problems import RecordAnswer
from mirror.model.capacity.advice import Advice, GroupNeed, HourNeed, Hours, PastNeed, sentence_with_age

router = APIRouter(prefix="/v1", tags=["plans"])


@dataclass(frozen=True)
class HourNeedAnswer(HourNeed, RecordAnswer):
    """Tasks that the hour from `hour_ms` (epoch ms) requires. `tasks`: number for the median of the load
    forecast. `most_tasks`: number for its upper bound."""


@dataclass(frozen=True)
class GroupNeedAnswer(GroupNeed, RecordAnswer):
    """Required tasks of one group of datastreams.

    `tasks`: current number of tasks. `now`: number of tasks that the current load needs; null if unknown.
    `coming`: need by hour; empty without a forecast, and then `why` names the missing data. `tried`: number
    of past forecasts. `covered`: fraction of past forecasts whose upper bound was not exceeded. `error`:
    median relative error of the median forecast.
    """

    coming: tuple[HourNeedAnswer, ...] = ()


@dataclass(frozen=True)
class HoursAnswer(Hours, RecordAnswer):
    """Task-hours and instance-hours over the `hours` of the forecast: with the current numbers, and with the
    numbers that each hour needs. The difference is the possible saving, or the shortage."""


@dataclass(frozen=True)
class PastNeedAnswer(PastNeed, RecordAnswer):
    """Task-hours over the `hours` of a past period in which all loads are known.

    `task_hours`: task-hours with the current number of tasks. `peak_task_hours`: task-hours with the number
    of tasks that the busiest hour needed. `needed_task_hours`: task-hours with the number of tasks that each
    hour needed for its mean load, regardless of limits; no hourly sizing can need fewer.
    """


class AdviceAnswer(BaseModel):
    """Sizing advice of the leader.

    `required_tasks`, `required_instances`: need now and in the near future. Both numbers rise immediately and
    fall with a delay. Null if the need of a datastream is unknown, which `why` names. `tasks_at_least`,
    `instances_at_least`: lower bounds of the need, which count only datastreams whose need is known. `rises`:
    first hour that needs more tasks than now. `peak`: hour with the greatest need; `peak_instances`: number
    of instances for that hour. `lower_since_ms`: time since which fewer tasks have been sufficient;
    `lower_tasks`: that lower number of tasks. `past_day`, `past_week`: the last 24 and 168 full hours, null
    if all hours are unknown. `tasks_per_instance`: configured value. `computed_ms`: time of the computation;
    null if the leader has not computed advice yet.
    """

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
        """Return the sizing advice as a response. `found` None means that the leader has not computed advice
        yet. The `sentence` of the response includes the age of the advice."""
        if found is None:
            why = "the leader has not computed it yet"
            return cls(
                computed_ms=None,
                tasks=None,
                instances=None,
                required_tasks=None,
                required_instances=None,
                why=why,
                sentence="no advice yet",
            )
        fields = {name: value for name, value in asdict(found).items() if name in cls.model_fields}
        return cls.model_validate(fields | {"sentence": sentence_with_age(found, now_ms)})


@router.get("/advice")
def advice(reads: ReadsDep, services: ServicesDep) -> AdviceAnswer:
    """Return the number of tasks and instances that the service needs now and in the next day.

    The leader computes the advice once an hour. `required_instances` and `required_tasks` are stable enough
    for an autoscaler; if one is null, `why` names the missing input. Any instance responds.
    """
    return AdviceAnswer.from_advice(reads.advice(), services.clock.now_ms())

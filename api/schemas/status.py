"""Health and instances on /v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, ConfigDict

from api.services import InstanceStatus
from mirror.coordination.stores.membership import LiveInstance
from mirror.instance.health import Condition
from monitor.records.record import IncidentRecord


class _StatusModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ConditionAnswer(_StatusModel):
    """What one part of an instance says of itself."""

    is_well: bool
    sentence: str


class ClockSkewAnswer(_StatusModel):
    """How far the clock of a broker is off from the instance's: of the broker of a cluster that is off by
    most."""

    ahead_seconds: float
    """By how much it is ahead; below 0: behind."""
    bound_seconds: float
    """How far the truth may lie from that, either way."""


class ReadyAnswer(_StatusModel):
    """Whether an instance can serve."""

    instance: str
    """Its name."""
    is_ready: bool
    """Whether every part is well."""
    parts: dict[str, ConditionAnswer]
    """ZooKeeper session, threads, worker processes, token file and certificate."""

    @classmethod
    def from_conditions(cls, name: str, conditions: Mapping[str, Condition]) -> ReadyAnswer:
        """The JSON form."""
        parts = {
            part: ConditionAnswer(is_well=condition.is_well, sentence=condition.sentence)
            for part, condition in conditions.items()
        }
        return cls(instance=name, is_ready=all(part.is_well for part in parts.values()), parts=parts)


class HealthAnswer(_StatusModel):
    """How an instance is."""

    instance: str
    """Its name."""
    is_well: bool
    """Whether every part is."""
    is_leading: bool
    epoch: int
    """Of the plan that it obeys."""
    data_plane: str | None
    """What its workers run: compiled, interpreted, or both; null until one is ready."""
    parts: dict[str, ConditionAnswer]
    clocks: dict[str, ClockSkewAnswer]
    """By cluster; without those of which it is not known: it is where the instance writes to a topic with
    append times."""
    processes: int | None = None
    """Of the instance: one that controls, and worker processes; null where the system does not say."""
    memory_bytes: int | None = None
    """Resident memory of these together."""
    cpu_cores: float | None = None
    """Cores that these used on average in the last seconds; null at the first look."""
    strategies: list[str] | None = None
    """Placement strategies that it has, with those of plug-ins; null where it is of a version that does not
    say that."""
    load_providers: list[str] | None = None
    """Likewise."""

    @classmethod
    def from_status(cls, status: InstanceStatus) -> HealthAnswer:
        """The JSON form."""
        parts = {
            part: ConditionAnswer(is_well=condition.is_well, sentence=condition.sentence)
            for part, condition in sorted(status.conditions.items())
        }
        return cls(
            instance=status.name,
            is_well=all(part.is_well for part in parts.values()),
            is_leading=status.is_leading,
            epoch=status.epoch,
            data_plane=", ".join(sorted(status.data_planes)) or None,
            parts=parts,
            clocks={
                cluster: ClockSkewAnswer(ahead_seconds=one.ahead_ms / 1000, bound_seconds=one.bound_ms / 1000)
                for cluster, one in sorted(status.clock_skews.items())
            },
            **status.usage._asdict(),
            strategies=list(status.strategies),
            load_providers=list(status.load_providers),
        )


class InstanceStateAnswer(_StatusModel):
    """Whether an instance has answered."""

    name: str
    state: Literal["answered", "unreachable", "timed out"]
    reason: str
    """Why it has not; empty where it has."""


class InstanceAnswer(InstanceStateAnswer):
    """One instance of the service, as it has announced itself, and as it says now that it is."""

    health: HealthAnswer | None
    """Null where it has not answered."""
    sequence: int
    """Orders instances by their arrival; the first one leads."""
    host: str
    process_id: int
    rest_address: str
    """Where it answers, as `host:port`."""
    weight: float
    """Its share of the work, next to that of the others."""
    incarnation: str
    """Differs between processes, also of one name."""
    is_leaving: bool
    """Whether it wants no tasks any more."""

    @classmethod
    def from_live(
        cls, one: LiveInstance, state: InstanceStateAnswer, health: HealthAnswer | None
    ) -> InstanceAnswer:
        """The JSON form."""
        return cls(
            name=one.name,
            state=state.state,
            reason=state.reason,
            health=health,
            sequence=one.sequence,
            host=one.host,
            process_id=one.process_id,
            rest_address=one.rest_address,
            weight=one.weight,
            incarnation=one.incarnation,
            is_leaving=one.is_leaving,
        )


class TimelineAnswer(_StatusModel):
    """Something that happened to an incident."""

    time_ms: int
    """Of the last time."""
    phase: Literal["detected", "classified", "acted", "decided", "recovered", "relapsed", "closed"]
    text: str
    """What was seen, done or decided, with its figures, how often, and since when."""
    times: int
    """How often."""
    first_ms: int | None
    """The first time, of what happened more than once."""


class BudgetCostAnswer(_StatusModel):
    """What was left of the error budget of one objective, as shares of it; null where that was not known."""

    objective: str
    before: float | None
    """When the incident was detected."""
    now: float | None
    """As of the last turn of the incident."""
    spent: float | None
    """The share of the budget that the incident has cost."""


class DeliveryCostAnswer(_StatusModel):
    """Of one objective: how late records arrived between the beginning and the end of an incident."""

    objective: str
    records: int
    """That arrived."""
    late: float
    """Of them, those later than the objective; no whole number, as it is by interpolation in a histogram."""


class GainAnswer(_StatusModel):
    """What the first rebalance of an incident was predicted to save, against what came. Seconds of breach
    from then on; null where that is not known."""

    acted_ms: int
    """When it was asked for."""
    left: float | None
    """For how long the breach would have lasted without it: as those that nothing was done about."""
    predicted: float | None
    """How much of that it would save."""
    lasted: float | None
    """For how long the breach did last; null while it does."""
    saved: float | None
    """`left` less `lasted`; below 0: it took longer."""


class IncidentAnswer(_StatusModel):
    """A time in which something was the matter with a datastream, from its beginning to its end: it was later
    than its objective, not copied, or about to lose data."""

    id: str
    datastream: str
    cluster: str
    """Of the source."""
    opened_ms: int
    closed_ms: int | None
    """Null while it lasts."""
    worst_ms: float | None
    """The highest value of the objective's percentile that was seen; null where nothing arrived."""
    timeline: list[TimelineAnswer]
    left_out: int
    """Entries in the middle of a long timeline that are not kept."""
    is_late: bool
    """Whether an objective is missed now; of one that is over, whether one was missed in the end."""
    matters: list[str]
    """What else was the matter, by the names of alerts."""
    cause: str
    """Of most of its bad seconds; empty: it was not diagnosed."""
    evidence: dict[str, float | str]
    """The figures of that, by name."""
    bad_seconds: float
    """Of its time, those in which something was the matter."""
    unknown_seconds: float
    """Of its time, those of which nobody knows."""
    judged_ms: int
    """Up to when these are counted."""
    costs: list[BudgetCostAnswer]
    """What it cost of the error budgets."""
    gain: GainAnswer | None
    """Null where no rebalance was asked for."""
    deliveries: list[DeliveryCostAnswer] | None
    """What it cost in records, of each objective: counted half a minute after its end; null is not known, or
    not yet."""
    causes: dict[str, float]
    """Bad seconds by cause."""
    closing_ms: int | None
    """When it closes if it stays as it is, of one that has recovered; null: it has not."""

    @classmethod
    def from_record(cls, record: IncidentRecord) -> IncidentAnswer:
        """The JSON form."""
        costs = [{**asdict(one), "spent": one.spent} for one in record.costs]
        gain = None if record.gain is None else {**asdict(record.gain), "saved": record.gain.saved}
        timeline = [{**asdict(one), "text": one.said} for one in record.timeline]
        return cls.model_validate({**asdict(record), "costs": costs, "gain": gain, "timeline": timeline})

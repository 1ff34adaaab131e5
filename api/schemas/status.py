"""Health and instances on /v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, ConfigDict

from api.services import InstanceStatus
from mirror.coordination.stores.membership import LiveInstance
from mirror.instance.health import HealthCondition
from monitor.records.record import IncidentRecord


class _StatusModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ConditionAnswer(_StatusModel):
    """Condition of one part of an instance."""

    is_well: bool
    sentence: str


class ClockSkewAnswer(_StatusModel):
    """Clock skew between the instance and a cluster: that of the broker with the largest skew."""

    ahead_seconds: float
    """Seconds by which the broker is ahead; negative: behind."""
    bound_seconds: float
    """Maximum error of `ahead_seconds`, in either direction."""


class ReadyAnswer(_StatusModel):
    """Readiness of an instance."""

    instance: str
    """Name of the instance."""
    is_ready: bool
    """True if every part is well."""
    parts: dict[str, ConditionAnswer]
    """ZooKeeper session, threads, worker processes, token file and certificate."""

    @classmethod
    def from_conditions(cls, name: str, conditions: Mapping[str, HealthCondition]) -> ReadyAnswer:
        """Return the JSON form."""
        parts = {
            part: ConditionAnswer(is_well=condition.is_well, sentence=condition.sentence)
            for part, condition in conditions.items()
        }
        return cls(instance=name, is_ready=all(part.is_well for part in parts.values()), parts=parts)


class HealthAnswer(_StatusModel):
    """Health of an instance."""

    instance: str
    """Name of the instance."""
    is_well: bool
    """True if every part is well."""
    is_leading: bool
    epoch: int
    """Epoch of the plan that the instance follows."""
    data_plane: str | None
    """Data plane of the workers: compiled, interpreted, or both; null until a worker is ready."""
    parts: dict[str, ConditionAnswer]
    clocks: dict[str, ClockSkewAnswer]
    """Clock skew by cluster; only clusters in which the instance writes to a topic with append times, as the
    skew of others is unknown."""
    processes: int | None = None
    """Number of processes: the control process and the worker processes; null if the operating system does
    not report it."""
    memory_bytes: int | None = None
    """Resident memory of all processes."""
    cpu_cores: float | None = None
    """Average cores used by all processes in the last seconds; null for the first measurement."""
    strategies: list[str] | None = None
    """Available placement strategies, including plug-ins; null: the instance's version does not report
    them."""
    load_providers: list[str] | None = None
    """Available load providers, including plug-ins; null as for `strategies`."""

    @classmethod
    def from_status(cls, status: InstanceStatus) -> HealthAnswer:
        """Return the JSON form."""
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
    """Response state of an instance."""

    name: str
    state: Literal["answered", "unreachable", "timed out"]
    reason: str
    """Reason for a missing response; empty otherwise."""


class InstanceAnswer(InstanceStateAnswer):
    """Instance of the service: its registration and its current health."""

    health: HealthAnswer | None
    """Null if the instance did not respond."""
    sequence: int
    """Order of registration; the first instance leads."""
    host: str
    process_id: int
    rest_address: str
    """Address of its REST interface, as `host:port`."""
    weight: float
    """Share of the work relative to other instances."""
    incarnation: str
    """Unique per process, even if the name is the same."""
    is_leaving: bool
    """True if the instance is leaving and accepts no more tasks."""

    @classmethod
    def from_live(
        cls, instance: LiveInstance, state: InstanceStateAnswer, health: HealthAnswer | None
    ) -> InstanceAnswer:
        """Return the JSON form."""
        return cls(
            name=instance.name,
            state=state.state,
            reason=state.reason,
            health=health,
            sequence=instance.sequence,
            host=instance.host,
            process_id=instance.process_id,
            rest_address=instance.rest_address,
            weight=instance.weight,
            incarnation=instance.incarnation,
            is_leaving=instance.is_leaving,
        )


class TimelineAnswer(_StatusModel):
    """Entry in the timeline of an incident."""

    time_ms: int
    """Time of the last occurrence."""
    phase: Literal["detected", "classified", "acted", "decided", "recovered", "relapsed", "closed"]
    text: str
    """Observation, action or decision with its figures, number of occurrences, and first time."""
    times: int
    """Number of occurrences."""
    first_ms: int | None
    """Time of the first occurrence, if there was more than one."""


class BudgetCostAnswer(_StatusModel):
    """Remaining error budget of one objective, as fractions of the budget; null if unknown."""

    objective: str
    before: float | None
    """When the incident was detected."""
    now: float | None
    """At the last evaluation of the incident."""
    spent: float | None
    """Fraction of the budget that the incident has cost."""


class DeliveryCostAnswer(_StatusModel):
    """Late deliveries for one objective between start and end of an incident."""

    objective: str
    records: int
    """Number of records that arrived."""
    late: float
    """Number of records later than the objective; interpolated from a histogram and therefore fractional."""


class GainAnswer(_StatusModel):
    """Predicted and actual gain of the first rebalance of an incident, in seconds of breach after `acted_ms`;
    null if unknown."""

    acted_ms: int
    """Time at which the rebalance was requested."""
    left: float | None
    """Expected remaining duration of the breach without it, from earlier breaches without a rebalance."""
    predicted: float | None
    """Predicted reduction of that duration."""
    lasted: float | None
    """Actual remaining duration of the breach; null while it continues."""
    saved: float | None
    """`left` minus `lasted`; negative: the breach lasted longer than expected."""


class IncidentAnswer(_StatusModel):
    """Incident of a datastream, from start to end: records were later than an objective, were not copied, or
    were about to be lost."""

    id: str
    datastream: str
    cluster: str
    """Source cluster."""
    opened_ms: int
    closed_ms: int | None
    """Null while the incident is open."""
    worst_ms: float | None
    """Highest value of the objective's percentile; null if nothing arrived."""
    timeline: list[TimelineAnswer]
    left_out: int
    """Number of entries dropped from the middle of a long timeline."""
    is_late: bool
    """True if an objective is missed now; for a closed incident, if one was missed at the end."""
    matters: list[str]
    """Other problems, by alert names."""
    cause: str
    """Cause of most bad seconds; empty: not diagnosed."""
    evidence: dict[str, float | str]
    """Figures behind the cause, by name."""
    bad_seconds: float
    """Seconds of the incident with a problem."""
    unknown_seconds: float
    """Seconds of the incident without measurements."""
    judged_ms: int
    """Time up to which these seconds are counted."""
    costs: list[BudgetCostAnswer]
    """Cost in error budgets."""
    gain: GainAnswer | None
    """Null if no rebalance was requested."""
    deliveries: list[DeliveryCostAnswer] | None
    """Cost in records for each objective, counted half a minute after the end; null: unknown or not counted
    yet."""
    causes: dict[str, float]
    """Bad seconds by cause."""
    closing_ms: int | None
    """Time at which a recovered incident closes unless it relapses; null: not recovered."""

    @classmethod
    def from_record(cls, record: IncidentRecord) -> IncidentAnswer:
        """Return the JSON form."""
        costs = [{**asdict(cost), "spent": cost.spent} for cost in record.costs]
        gain = None if record.gain is None else {**asdict(record.gain), "saved": record.gain.saved}
        timeline = [{**asdict(one), "text": one.said} for one in record.timeline]
        return cls.model_validate({**asdict(record), "costs": costs, "gain": gain, "timeline": timeline})

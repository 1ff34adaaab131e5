"""Settings of an instance, its worker processes and its duties as leader."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from mirror.instance.loads.observations import NEWEST
from mirror.model.capacity.capacity import CapacityTerms
from mirror.model.capacity.catch_up import LONGEST_SECONDS, SHORTEST_SECONDS
from mirror.model.capacity.freeze import read_freeze
from mirror.model.capacity.knobs import PLUG_IN_NAME
from mirror.model.load import LARGEST_CAPACITY, MOST_TASKS, TaskCapacity
from mirror.options import Seconds, Settings, read_by


class WorkerSettings(Settings):
    """Settings of the worker processes of an instance.

    `headrace copy` uses only `restart_delay_seconds` and `silence_limit_seconds`.
    """

    processes: int = Field(default=0, ge=0)
    """Number of worker processes; 0 means one per available core, within the limit of the container."""
    checkpoint_interval_seconds: Seconds = 2.0
    """Interval between checkpoints. After a crash, at most the records of this interval are copied again.
    Datastreams whose consumer groups follow at an interval below 4 s store a checkpoint twice in this
    interval."""
    metrics_interval_seconds: Seconds = 5.0
    """Interval at which measurements are published."""
    restart_delay_seconds: Seconds = 1.0
    """Delay before a dead worker is restarted. The delay doubles with each crash, up to 30 s."""
    silence_limit_seconds: float = Field(default=20.0, ge=5)
    """A worker that sends no message for this long and uses no CPU (frozen or hung) is killed, and its tasks
    restart from their checkpoints. After half of this time, the lanes of the worker no longer count as
    copying."""
    stop_deadline_seconds: Seconds = 20.0
    """Maximum time for draining lanes when the instance stops. Records that are still unacknowledged after
    this time are copied again later."""
    task_bytes_per_second_limit: int = Field(default=0, ge=0)
    """Maximum copy rate of one task; 0 means no limit."""
    handover_deadline_seconds: Seconds = 10.0
    """Maximum time that a moved partition waits for its former owner to release it. After this time, the new
    owner starts, and the destination rejects further writes of the former owner."""


class LeaderSettings(Settings):
    """Settings of the leading instance."""

    load_provider: str = Field(default="self", pattern=PLUG_IN_NAME)
    """Source of partition loads: `self` (the mirror's own counts), `pinot` (samples of Cruise Control or of
    Headrace's sampler), `none` (no loads), or the name of a plug-in (docs/plug-ins.md)."""
    load_provider_options: dict[str, SecretStr] = Field(default={})
    """Options of the load provider plug-in: a table of names and texts."""
    provider_options_by_name: dict[Annotated[str, Field(pattern=PLUG_IN_NAME)], dict[str, SecretStr]] = Field(
        default={}
    )
    """Options of load providers that single datastreams choose: one table per plug-in, named after the
    plug-in. All values are text."""
    placement_strategy: str = Field(default="auto", pattern=PLUG_IN_NAME)
    """Strategy that chooses the number of tasks and their partitions: `assigner` (proven bounds), `simple`
    (no dependencies), `auto` (the assigner if it is installed), or the name of a plug-in."""
    placement_strategy_options: dict[str, SecretStr] = Field(default={})
    """Options of the placement strategy plug-in: a table of names and texts."""
    strategy_options_by_name: dict[Annotated[str, Field(pattern=PLUG_IN_NAME)], dict[str, SecretStr]] = Field(
        default={}
    )
    """Options of placement strategies that single datastreams choose: one table per plug-in, named after the
    plug-in. All values are text."""
    task_capacity_bytes_per_second: Annotated[int, Field(gt=0, le=LARGEST_CAPACITY)] | Literal["learned"] = (
        "learned"
    )
    """Capacity of one task: a number, or `learned`: the throughput of one core, measured for each datastream.
    A datastream can set its own number."""
    unlearned_capacity_bytes_per_second: int = Field(default=10 * 2**20, gt=0, le=LARGEST_CAPACITY)
    """Assumed capacity of one task of a datastream until its capacity is learned."""
    task_capacity_messages_per_second: int | None = Field(default=None, gt=0, le=LARGEST_CAPACITY)
    """Capacity of one task in messages; if unset, only bytes count."""
    task_utilisation_percent: int = Field(default=70, gt=0, le=100)
    """Share of a task's capacity that placement fills."""
    replan_interval_seconds: Seconds = 600.0
    """Interval at which the leader observes loads and plans every datastream again, keeping partitions in
    their tasks if possible. The first plan at this interval follows the third observation."""
    scale_in_after_hours: float = Field(default=24.0, gt=0, le=24)
    """Time for which a task is kept after the last observed load that required the task. The value must be at
    least three times `replan_interval_seconds`."""
    tick_interval_seconds: Seconds = 1.0
    """Maximum interval between two ticks of the leader; events trigger a tick earlier."""
    discovery_interval_seconds: Seconds = 3.0
    """Interval at which source clusters are checked for new topics and partitions."""
    return_delay_seconds: float = Field(default=300.0, ge=0)
    """Time within which a returning instance (for example after a restart) gets its previous tasks back. If
    0, instances never get their previous tasks back."""
    imbalance_threshold: float = Field(default=1.3, ge=1)
    """Maximum ratio of an instance's load to its share of the load by weight. Above this ratio, tasks move to
    other instances."""
    catch_up_seconds: float = Field(default=3_600.0, ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)
    """Target time for copying a backlog. Planning adds the backlog divided by this time to the load. A
    datastream can set its own value (metadata key `headrace-catch-up-seconds`)."""
    freeze_windows: list[Annotated[str, read_by(read_freeze)]] = Field(default=[], max_length=50)
    """Times without optional moves: no task is removed, and no task moves to balance instances. Overloaded
    tasks still lose partitions, new partitions get tasks, and requested rebalances are executed. Syntax as
    for `monitor.freeze_windows`."""
    patience_seconds: Seconds = 2.0
    """Maximum time that a tick of the leader waits for a slow cluster or load provider. A response that
    arrives later is used in a later tick."""
    max_partitions_per_topic: int = Field(default=1000, ge=1)
    """Maximum number of partitions that a destination topic may have after Headrace creates it or adds
    partitions to it. Source partitions beyond this number are not copied."""
    replication_factor: int = Field(default=-1, ge=-1)
    """Replication factor of topics created at the destination; -1 means the default of the destination."""

    @property
    def capacity_terms(self) -> CapacityTerms:
        """Terms that determine the task capacity for datastreams without their own settings."""
        number = self.task_capacity_bytes_per_second
        return CapacityTerms(
            bytes_per_second=None if number == "learned" else number,
            unlearned_bytes_per_second=self.unlearned_capacity_bytes_per_second,
            messages_per_second=self.task_capacity_messages_per_second,
            utilisation_percent=self.task_utilisation_percent,
        )

    @property
    def task_capacity(self) -> TaskCapacity:
        """Capacity of a task as long as no capacity has been learned."""
        terms = self.capacity_terms
        number = terms.bytes_per_second or terms.unlearned_bytes_per_second
        return TaskCapacity(number, terms.messages_per_second, terms.utilisation_percent)

    @model_validator(mode="after")
    def _fills_something(self) -> LeaderSettings:
        usable = self.task_capacity
        if usable.usable_bytes_per_second < 1 or usable.usable_messages_per_second == 0:
            raise ValueError(
                f"task_utilisation_percent of {self.task_utilisation_percent} leaves no task capacity:"
                " set a larger value"
            )
        return self

    @model_validator(mode="after")
    def _remembers_enough(self) -> LeaderSettings:
        if self.scale_in_after_hours * 3_600 < NEWEST * self.replan_interval_seconds:
            raise ValueError(
                f"scale_in_after_hours of {self.scale_in_after_hours:g} must be at least {NEWEST} times "
                f"replan_interval_seconds, which is {self.replan_interval_seconds:g} s"
            )
        return self

    @model_validator(mode="after")
    def _has_one_place_for_options(self) -> LeaderSettings:
        if self.placement_strategy in self.strategy_options_by_name:
            raise ValueError(
                f"the options of {self.placement_strategy}, the placement_strategy of the service, belong to"
                " placement_strategy_options, not to strategy_options_by_name"
            )
        if self.load_provider in self.provider_options_by_name:
            raise ValueError(
                f"the options of {self.load_provider}, the load_provider of the service, belong to"
                " load_provider_options, not to provider_options_by_name"
            )
        return self


class AuditSettings(Settings):
    """Settings of continuous audits. Each instance audits its own lanes of datastreams with the option
    `audit`."""

    topic: str = "headrace-audit-windows"
    """Topic for the results of audits by window of event time, on the cluster of the metrics topic; empty:
    results are not written."""
    window_seconds: int = Field(default=600, ge=60, le=86_400)
    """Length of a window of event time."""
    interval_seconds: float = Field(default=300.0, ge=0.5, le=3_600.0)
    """Time between two audits. Each audit covers the records copied since the previous audit."""
    lateness_seconds: float = Field(default=600.0, ge=0.0, le=604_800.0)
    """Maximum expected time from the timestamp of a record to its arrival at the source."""
    bytes_per_second: int = Field(default=10_000_000, ge=100_000)
    """Maximum rate at which the audits of an instance read. The audits also use at most a quarter of a
    core."""


class OwnerQuotaSettings(Settings):
    """Limits for the sum over an owner's datastreams. The entry `*` applies to each owner without an
    entry."""

    datastreams: int = Field(default=0, ge=0)
    """Maximum number of datastreams; 0 means no limit."""
    bytes_per_second: int = Field(default=0, ge=0)
    """Maximum sum of the quotas (`quota.bytes_per_second`) of the owner's datastreams. If this limit is set,
    each datastream of the owner must have a quota. 0 means no limit."""
    partitions: int = Field(default=0, ge=0)
    """Maximum number of selected source partitions; datastreams that share tasks count once. Partitions
    beyond the limit are not copied, even if a topic grows later. 0 means no limit."""


class DefinitionSettings(Settings):
    """Limits that new and changed definitions must respect. Existing datastreams continue to run; those that
    exceed the limits show a warning.
    """

    addresses: list[str] = Field(default=[])
    """Addresses that a definition may use instead of an alias: `host:port`, where `*` matches any text, such
    as `*.kafka.example.com:9092`. Each server in the definition must match. Addresses of clusters in
    `[clusters]` are always allowed, and refer to these clusters."""
    most_tasks: int = Field(default=1_000, ge=1, le=MOST_TASKS)
    """Maximum number of tasks that one datastream may request."""
    quotas: dict[str, OwnerQuotaSettings] = Field(default={})
    """Limits by owner."""

    @field_validator("addresses")
    @classmethod
    def _have_ports(cls, patterns: list[str]) -> list[str]:
        wrong = [pattern for pattern in patterns if ":" not in pattern or "," in pattern]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not host:port")
        return patterns

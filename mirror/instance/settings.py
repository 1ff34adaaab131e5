"""What an operator can set about an instance, its worker processes and its duties as leader."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from mirror.instance.loads.observations import NEWEST
from mirror.model.load import LARGEST_CAPACITY, MOST_TASKS, TaskCapacity
from mirror.model.sizing.capacity import CapacityTerms
from mirror.model.sizing.catch_up import LONGEST_SECONDS, SHORTEST_SECONDS
from mirror.model.sizing.freeze import read_freeze
from mirror.model.sizing.knobs import PLUG_IN_NAME
from mirror.options import Seconds, Settings, read_by


class WorkerSettings(Settings):
    """The worker processes of an instance. Those of `headrace copy` obey `restart_delay_seconds` and
    `silence_limit_seconds` as well, and nothing else of this."""

    processes: int = Field(default=0, ge=0)
    """Number of worker processes; 0 means one for each core we may use, in a container its limit."""
    checkpoint_interval_seconds: Seconds = 2.0
    """How often progress is made durable; a crash copies at most this much again."""
    metrics_interval_seconds: Seconds = 5.0
    """How often measurements are published."""
    restart_delay_seconds: Seconds = 1.0
    """Wait before a worker that died is started again; doubles up to 30 s while it keeps dying."""
    silence_limit_seconds: float = Field(default=20.0, ge=5)
    """A worker that says nothing for this long and does not compute (it is frozen, or hangs) is killed, and
    its tasks start again from their checkpoints. After half of it its lanes do not count as copying."""
    stop_deadline_seconds: Seconds = 20.0
    """How long a stop may drain before what is left is given up (and copied again later)."""
    task_bytes_per_second_limit: int = Field(default=0, ge=0)
    """Quota of one task; 0 means none."""
    handover_deadline_seconds: Seconds = 10.0
    """How long a moved partition waits for an instance that does not release it; then it is taken, and the
    broker refuses what the former owner still writes."""


class LeaderSettings(Settings):
    """The duties of the leading instance."""

    load_provider: str = Field(default="self", pattern=PLUG_IN_NAME)
    """Where loads come from: `self`, the mirror's own counts; `pinot`, samples of Cruise Control or of the
    sampler; `none`, nowhere; or the name of a plug-in (docs/plug-ins.md)."""
    load_provider_options: dict[str, SecretStr] = Field(default={})
    """What a plug-in is given: text by name."""
    provider_options_by_name: dict[Annotated[str, Field(pattern=PLUG_IN_NAME)], dict[str, SecretStr]] = Field(
        default={}
    )
    """What plug-ins are given that datastreams choose for their loads and that are not the service's: for the
    name of each a table of text by name."""
    placement_strategy: str = Field(default="auto", pattern=PLUG_IN_NAME)
    """Who decides how many tasks there are and what each carries: `assigner`, with bounds and proofs;
    `simple`, which needs nothing else; `auto`, the assigner where it is installed; or the name of a plug-in.
    """
    placement_strategy_options: dict[str, SecretStr] = Field(default={})
    """What a plug-in is given: text by name."""
    strategy_options_by_name: dict[Annotated[str, Field(pattern=PLUG_IN_NAME)], dict[str, SecretStr]] = Field(
        default={}
    )
    """What plug-ins are given that datastreams choose and that are not the service's: for the name of each
    a table of text by name."""
    task_capacity_bytes_per_second: Annotated[int, Field(gt=0, le=LARGEST_CAPACITY)] | Literal["learned"] = (
        "learned"
    )
    """What one task bears: a number, or `learned`: of each datastream what one core was seen to copy of it.
    A datastream can say a number of its own."""
    unlearned_capacity_bytes_per_second: int = Field(default=10 * 2**20, gt=0, le=LARGEST_CAPACITY)
    """What one task is taken to bear of a datastream for as long as nothing is learned of it."""
    task_capacity_messages_per_second: int | None = Field(default=None, gt=0, le=LARGEST_CAPACITY)
    """What one task bears; unset means that only bytes count."""
    task_utilisation_percent: int = Field(default=70, gt=0, le=100)
    """Share of a task's capacity that placement fills."""
    replan_interval_seconds: Seconds = 600.0
    """How often loads are observed and every datastream is planned by them; what is placed stays as
    far as it can. The first such plan follows the third observation."""
    scale_in_after_hours: float = Field(default=24.0, gt=0, le=24)
    """For how long an observed load keeps the tasks that it needed: they are given up when nothing that was
    observed within this time needs them. At least three intervals of replanning."""
    tick_interval_seconds: Seconds = 1.0
    """How often the leader looks at the world when nothing wakes it."""
    discovery_interval_seconds: Seconds = 3.0
    """How often source clusters are asked for new topics and partitions."""
    return_delay_seconds: float = Field(default=300.0, ge=0)
    """An instance that is back within this time (a restart) gets its former tasks; 0 means never."""
    imbalance_threshold: float = Field(default=1.3, ge=1)
    """Tasks move between instances when one carries more than this many times the mean for its weight."""
    catch_up_seconds: float = Field(default=3_600.0, ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)
    """In which time what is late is to be copied, beside what arrives: the backlog divided by it counts as
    load. A datastream may choose another one (metadata `headrace-catch-up-seconds`)."""
    freeze_windows: list[Annotated[str, read_by(read_freeze)]] = Field(default=[], max_length=50)
    """Times in which nothing moves that need not: no task is given up, and none changes instance to level
    them. Overloads are relieved, partitions get tasks and requests are carried out as ever. Written as
    `monitor.freeze_windows`."""
    patience_seconds: Seconds = 2.0
    """How long a look at the world waits for a slow cluster or load provider; its answer counts later."""
    max_partitions_per_topic: int = Field(default=1000, ge=1)
    """No topic at a destination is made or grown larger; what a source has beyond is not copied."""
    replication_factor: int = Field(default=-1, ge=-1)
    """Of topics created at the destination; -1 means the destination's default."""

    @property
    def capacity_terms(self) -> CapacityTerms:
        """Of datastreams that say nothing else."""
        number = self.task_capacity_bytes_per_second
        return CapacityTerms(
            bytes_per_second=None if number == "learned" else number,
            unlearned_bytes_per_second=self.unlearned_capacity_bytes_per_second,
            messages_per_second=self.task_capacity_messages_per_second,
            utilisation_percent=self.task_utilisation_percent,
        )

    @property
    def task_capacity(self) -> TaskCapacity:
        """Of a task of which nothing is learned."""
        terms = self.capacity_terms
        number = terms.bytes_per_second or terms.unlearned_bytes_per_second
        return TaskCapacity(number, terms.messages_per_second, terms.utilisation_percent)

    @model_validator(mode="after")
    def _fills_something(self) -> LeaderSettings:
        usable = self.task_capacity
        if usable.usable_bytes_per_second < 1 or usable.usable_messages_per_second == 0:
            raise ValueError(
                f"task_utilisation_percent of {self.task_utilisation_percent} leaves nothing of the capacity"
                " of a task: set a larger one"
            )
        return self

    @model_validator(mode="after")
    def _remembers_enough(self) -> LeaderSettings:
        if self.scale_in_after_hours * 3_600 < NEWEST * self.replan_interval_seconds:
            raise ValueError(
                f"scale_in_after_hours of {self.scale_in_after_hours:g} forgets before {NEWEST} observations "
                f"are made, one every {self.replan_interval_seconds:g} s (replan_interval_seconds)"
            )
        return self

    @model_validator(mode="after")
    def _has_one_place_for_options(self) -> LeaderSettings:
        if self.placement_strategy in self.strategy_options_by_name:
            raise ValueError(
                f"the options of {self.placement_strategy}, the service's own strategy, belong to"
                " placement_strategy_options, not to strategy_options_by_name"
            )
        if self.load_provider in self.provider_options_by_name:
            raise ValueError(
                f"the options of {self.load_provider}, the service's own load provider, belong to"
                " load_provider_options, not to provider_options_by_name"
            )
        return self


class OwnerQuotaSettings(Settings):
    """What the datastreams of the owner `NAME` may be, and take, together; `NAME` = `*`: of each owner that
    no other entry names."""

    datastreams: int = Field(default=0, ge=0)
    """How many; 0: any number."""
    bytes_per_second: int = Field(default=0, ge=0)
    """Sum of their quotas, which each of them then has to have (`quota.bytes_per_second`); 0: any."""
    partitions: int = Field(default=0, ge=0)
    """Of source topics that they select; those of datastreams that share tasks count once. What comes beyond
    it, also as topics grow, waits uncopied; 0: any number."""


class DefinitionSettings(Settings):
    """What a new definition, or a changed one, may ask for. What is stored already runs on; where it asks for
    more, that is said of the datastream."""

    addresses: list[str] = Field(default=[])
    """Plain addresses that a definition may name instead of an alias: `host:port` with `*` for any text, as
    in `*.kafka.example.com:9092`. Each server of a list must match. Addresses of `[clusters]` are always
    possible: they mean that cluster."""
    most_tasks: int = Field(default=1_000, ge=1, le=MOST_TASKS)
    """Tasks that the limits of one datastream may ask for."""
    quotas: dict[str, OwnerQuotaSettings] = Field(default={})
    """By owner."""

    @field_validator("addresses")
    @classmethod
    def _have_ports(cls, patterns: list[str]) -> list[str]:
        wrong = [one for one in patterns if ":" not in one or "," in one]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no host:port")
        return patterns

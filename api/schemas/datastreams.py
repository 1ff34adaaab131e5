"""Datastreams on /v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.partitions import HaltAnswer, PauseAnswer
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.coordination.stores.problems import Problem
from mirror.model.datastreams.datastream import Datastream, LatencyObjective, StartPosition
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicNaming, TopicSelection

_DAMAGED: Final = "DAMAGED"


class DatastreamModel(BaseModel):
    """Has the fields that it names, and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class SourceBody(DatastreamModel):
    """Where from."""

    cluster: str
    """Alias from the settings, or `host:port[,host:port…]`."""
    topics: str
    """Regular expression over whole topic names."""
    exclude: str = ""
    """Regular expression of topics to leave out."""
    internal: bool = False
    """Whether names that begin with two underscores may be mirrored."""


class DestinationBody(DatastreamModel):
    """Where to."""

    cluster: str
    """Alias from the settings, or `host:port[,host:port…]`."""
    name: str = "*"
    """Topic name there; `*` stands for the source name."""


class LimitsBody(DatastreamModel):
    """Bounds on tasks."""

    min_tasks: Annotated[int, Field(ge=1)] = 1
    max_tasks: Annotated[int, Field(ge=1)] | None = None
    max_partitions_per_task: Annotated[int, Field(ge=1)] | None = None


class ObjectiveBody(DatastreamModel):
    """The SLA: `percentile` of the records arrive within `milliseconds`."""

    milliseconds: Annotated[int, Field(gt=0)]
    percentile: Annotated[float, Field(gt=0, lt=100)] = 99.0


class DatastreamBody(DatastreamModel):
    """A definition as it is created."""

    name: str
    source: SourceBody
    destination: DestinationBody | None = None
    start: Literal["earliest", "latest", "committed", "committed-or-latest"] = "earliest"
    limits: LimitsBody = LimitsBody()
    objective: ObjectiveBody | None = None
    metadata: dict[str, str] = {}

    def to_datastream(
        self, default_destination: ClusterRef, cluster_of_address: Callable[[str], ClusterRef]
    ) -> Datastream:
        """One cluster has one name here, however it was called. Raises InvalidRequest."""
        destination = self.destination or DestinationBody(cluster=default_destination)
        objective = self.objective
        return Datastream(
            name=DatastreamName(self.name.strip()),
            source=cluster_of_address(self.source.cluster),
            selection=TopicSelection(self.source.topics, self.source.exclude, self.source.internal),
            destination=cluster_of_address(destination.cluster),
            naming=TopicNaming(destination.name),
            start=StartPosition(self.start),
            limits=TaskLimits(**self.limits.model_dump()),
            objective=LatencyObjective(**objective.model_dump()) if objective else None,
            metadata=self.metadata,
        )


class ProblemAnswer(BaseModel):
    """Why a datastream is set aside, and since when (epoch ms). `sets_aside` false: it is served
    and this is a remark."""

    reason: str
    since_ms: int
    sets_aside: bool

    @classmethod
    def from_problem(cls, problem: Problem) -> ProblemAnswer:
        """The JSON form."""
        return cls(reason=problem.reason, since_ms=problem.since_ms, sets_aside=problem.sets_aside)


class DatastreamAnswer(DatastreamModel):
    """A definition as it is stored.

    One that is damaged has the status DAMAGED, a problem, and what was known of it before, if anything.
    """

    name: str
    source: SourceBody | None = None
    destination: DestinationBody | None = None
    start: str = ""
    limits: LimitsBody = LimitsBody()
    objective: ObjectiveBody | None = None
    metadata: dict[str, str] = {}
    status: str
    problem: ProblemAnswer | None = None
    """What cannot be done for it, or read of it."""
    pauses: dict[str, PauseAnswer] = {}
    """Partitions that somebody paused, by topic."""
    halt: HaltAnswer | None = None
    """Why the whole datastream is paused or stopped, if that was said."""

    @classmethod
    def from_datastream(cls, datastream: Datastream, problem: Problem | None = None) -> DatastreamAnswer:
        """The JSON form."""
        limits, objective = datastream.limits, datastream.objective
        return cls(
            name=datastream.name,
            source=SourceBody(
                cluster=datastream.source,
                topics=datastream.selection.include,
                exclude=datastream.selection.exclude,
                internal=datastream.selection.internal,
            ),
            destination=DestinationBody(cluster=datastream.destination, name=datastream.naming.template),
            start=datastream.start.value,
            limits=LimitsBody(
                min_tasks=limits.min_tasks,
                max_tasks=limits.max_tasks,
                max_partitions_per_task=limits.max_partitions_per_task,
            ),
            objective=(
                ObjectiveBody(milliseconds=objective.milliseconds, percentile=objective.percentile)
                if objective
                else None
            ),
            metadata=dict(datastream.metadata),
            status=datastream.status.value,
            problem=ProblemAnswer.from_problem(problem) if problem is not None else None,
            pauses={topic: PauseAnswer.from_pause(one) for topic, one in datastream.pauses.items()},
            halt=HaltAnswer.from_halt(datastream.halt) if datastream.halt is not None else None,
        )

    @classmethod
    def from_damaged(cls, damaged: DamagedDefinition, problem: Problem) -> DatastreamAnswer:
        """The JSON form of a definition that cannot be read."""
        if damaged.last is None:
            known = cls(name=damaged.name, status=_DAMAGED)
        else:
            known = cls.from_datastream(damaged.last)
        update = {"status": _DAMAGED, "problem": ProblemAnswer.from_problem(problem)}
        return known.model_copy(update=update)

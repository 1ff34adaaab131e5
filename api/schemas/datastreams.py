"""Datastreams on /v1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from api.ignored import refuse_ignored
from api.restli import key_contradictions
from api.schemas.partitions import HaltAnswer, PauseAnswer
from api.schemas.plans import PlanningAnswer
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.coordination.stores.problems import Problem
from mirror.errors import InvalidRequest, RefusedFields
from mirror.instance.loads.assessments import Assessment
from mirror.model.bounds import shown
from mirror.model.clusters import checked_cluster
from mirror.model.datastreams.change import FieldProblems, check_metadata, joined_metadata
from mirror.model.datastreams.datastream import Datastream, LatencyObjective, check_name
from mirror.model.datastreams.objectives.mode import Mode
from mirror.model.datastreams.objectives.objective import (
    HIGHEST_PERCENT,
    LARGEST_OBJECTIVE_MS,
    LONGEST_PERIOD_DAYS,
    LONGEST_WINDOW_SECONDS,
    LOWEST_PERCENT,
    MOST_OBJECTIVES,
    SHORTEST_WINDOW_SECONDS,
)
from mirror.model.datastreams.policy import (
    LARGEST_RATE,
    CopyPath,
    Guarantee,
    Isolation,
    OnLoss,
    OnRejection,
)
from mirror.model.datastreams.positions.start_positions import LARGEST_OFFSET, positions_of_document
from mirror.model.datastreams.secrets import kept_secrets, without_secrets
from mirror.model.datastreams.starts import WORDS, Start, read_start
from mirror.model.datastreams.typed_keys import free_metadata, given_values, typed_document
from mirror.model.documents import pointer_to
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.load import LARGEST_CAPACITY, TaskLimits
from mirror.model.sizing.capacity import LEAST_CAPACITY
from mirror.model.sizing.knobs import LARGEST_HEADROOM, LEAST_MESSAGES, PLUG_IN_NAME
from mirror.model.topics import TopicNaming, TopicSelection

_DAMAGED: Final = "DAMAGED"
_TAKES_ALL: Final = "it takes every topic of the cluster, also those that come later"


_ByName: Final = Field(strict=False)
"""Of enumerations: JSON has no other form of them than their text."""


class DatastreamModel(BaseModel):
    """Has the fields that it names, and no others; nothing is made of another type: 1 is not true."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


def _start_text(value: object) -> object:
    """A start as answers show it."""
    try:
        return str(read_start("the start", value))
    except InvalidRequest as error:
        raise PydanticCustomError("start", "{problem}", {"problem": str(error)}) from error


StartText = Annotated[
    str,
    BeforeValidator(_start_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(WORDS), "type": "string"},
                {"format": "date-time", "type": "string", "description": "The first record not older."},
                {"type": "integer", "minimum": 10**11, "description": "The same in epoch milliseconds."},
            ]
        }
    ),
]


PositionsByTopic = dict[str, dict[str, Annotated[int, Field(ge=0, le=LARGEST_OFFSET)]]]


class SourceBody(DatastreamModel):
    """Where from."""

    cluster: str
    """Alias from the settings, or `host:port[,host:port…]`."""
    topics: str
    """Which topics are allowed: a regular expression over whole names, `orders|users` for several."""
    exclude: str = ""
    """Which of these are denied: a regular expression over whole names."""
    internal: bool = False
    """Whether names that begin with two underscores may be mirrored."""
    match_all: bool = False
    """Whether every topic of the cluster is meant, also those that come later. An expression that takes them
    all, such as `.*` without `exclude`, is refused without it."""

    def selection(self, present: TopicSelection | None, problems: FieldProblems) -> TopicSelection | None:
        """The topics that are meant; the present ones where an expression is none, which is noted."""
        chosen = problems.attempt(
            "/source/topics", lambda: TopicSelection(self.topics, "", self.internal), present
        )
        include = chosen.include if chosen is not None else ".*"
        found = problems.attempt(
            "/source/exclude", lambda: TopicSelection(include, self.exclude, self.internal), present
        )
        if chosen and found and found.takes_all and found != present and not self.match_all:
            problems.refuse("/source/topics", _TAKES_ALL, "say match_all = true, or name what to leave out")
        return found


class DestinationBody(DatastreamModel):
    """Where to."""

    cluster: str
    """Alias from the settings, or `host:port[,host:port…]`."""
    name: str = "*"
    """Topic name there; `*` stands for the source name."""
    shared: bool = False
    """Whether other datastreams may write its topics too, if they allow it as well."""
    grow_existing: bool = False
    """Whether topics that were there before it may get more partitions."""
    adopt: bool | None = None
    """Whether it may write into topics that were there before it. Null: where everybody may, and where
    they may grow."""
    excluded_settings: list[str] = []
    """Topic settings that are not carried to topics that are created, such as `segment.bytes`."""


class PoliciesBody(DatastreamModel):
    """What is seen of the source, and what happens to trouble."""

    isolation: Annotated[Isolation, _ByName] = Isolation.READ_COMMITTED
    """Whether records of aborted transactions are left out."""
    on_loss: Annotated[OnLoss, _ByName] = OnLoss.HALT
    """When records are gone from the source, or it is another log."""
    on_rejection: Annotated[OnRejection, _ByName] = OnRejection.PAUSE
    """When the destination refuses a record: too large, no key, its timestamp."""
    path: Annotated[CopyPath, _ByName] = CopyPath.AUTO
    """Whether batches pass unopened."""
    transforms: list[str] = []
    """Plug-ins that every record passes, in order, each as `name:text`."""


class QuotaBody(DatastreamModel):
    """What it may take, over all instances."""

    bytes_per_second: Annotated[int, Field(ge=1, le=LARGEST_RATE)] | None = None
    """Null: as much as there is."""


class LimitsBody(DatastreamModel):
    """Bounds on tasks."""

    min_tasks: Annotated[int, Field(ge=1)] = 1
    max_tasks: Annotated[int, Field(ge=1)] | None = None
    max_partitions_per_task: Annotated[int, Field(ge=1)] | None = None


class ObjectiveBody(DatastreamModel):
    """The SLA: `percentile` of the records arrive within `milliseconds`."""

    milliseconds: Annotated[int, Field(gt=0)]
    percentile: Annotated[float, Field(gt=0, lt=100)] = 99.0


Percent = Annotated[float, Field(ge=LOWEST_PERCENT, le=HIGHEST_PERCENT)]


class ServiceObjectiveBody(DatastreamModel):
    """One of several objectives, with its error budget."""

    milliseconds: Annotated[int, Field(ge=1, le=LARGEST_OBJECTIVE_MS)]
    """A record that arrives later is late."""
    target_percent: Percent
    """Of the records of the period: how many are to arrive in time. The rest is the budget."""
    percentile: Percent = 99.0
    """Of the records of the window: how many are to arrive in time, else it is a breach."""
    window_seconds: Annotated[int, Field(ge=SHORTEST_WINDOW_SECONDS, le=LONGEST_WINDOW_SECONDS)] = 60
    period_days: Annotated[int, Field(ge=1, le=LONGEST_PERIOD_DAYS)] = 30


class PlacementBody(DatastreamModel):
    """How its tasks are planned; null: as the settings say. Where datastreams share tasks the strictest
    choice counts, and all that choose a strategy or a load provider choose the same."""

    capacity_bytes_per_second: (
        Annotated[int, Field(ge=LEAST_CAPACITY, le=LARGEST_CAPACITY)] | Literal["learned"] | None
    ) = None
    """What one task bears; `learned`: what one core was seen to copy."""
    capacity_messages_per_second: Annotated[int, Field(ge=LEAST_MESSAGES, le=LARGEST_CAPACITY)] | None = None
    """What one task bears."""
    utilisation_percent: Annotated[int, Field(ge=1, le=100)] | None = None
    """Share of the capacity that placement fills."""
    scale_in_headroom: Annotated[float, Field(ge=0, le=LARGEST_HEADROOM)] | None = None
    """Tasks are given up only when this share of each remaining one stays free."""
    strategy: Annotated[str, Field(pattern=PLUG_IN_NAME)] | None = None
    """Who decides how many tasks there are and what each carries: `assigner`, `simple`, `auto` (the assigner
    where it is installed), or the name of a plug-in."""
    load_provider: Annotated[str, Field(pattern=PLUG_IN_NAME)] | None = None
    """Who says what its partitions carry: `self`, `pinot`, the name of a plug-in, or `none`: its tasks are
    planned by count, whatever is known of their loads."""


class ChoicesBody(DatastreamModel):
    """Choices that Brooklin's interface has as keys of the metadata. `metadata` may give these keys instead,
    or with the same values."""

    owner: str = ""
    """The team that answers for it. Required, here or in the metadata."""
    guarantee: Annotated[Guarantee, _ByName] = Guarantee.EFFECTIVELY_ONCE
    """What holds for every record when processes, brokers and networks fail."""
    policies: PoliciesBody = PoliciesBody()
    quota: QuotaBody = QuotaBody()
    limits: LimitsBody = LimitsBody()
    objective: ObjectiveBody | None = None
    objectives: Annotated[list[ServiceObjectiveBody], Field(max_length=MOST_OBJECTIVES)] = []
    """More objectives, each with a target over a period. Two are not the same."""
    monitor: Annotated[Mode | None, _ByName] = None
    """What the monitor does about a breach: it asks for a rebalance that can help, or only says what it would
    have done; null: as its settings say."""
    placement: PlacementBody = PlacementBody()
    start_positions: PositionsByTopic = {}
    """Offsets at which partitions without a checkpoint begin, by topic (`*`: all others) and partition. Those
    that are not named begin at `start`, which may have both as `{"at": "earliest", "positions": …}`. Fixed at
    the creation."""
    metadata: dict[str, str] = {}
    """Keys of anybody's, and those of Brooklin's that have no field here."""

    @model_validator(mode="before")
    @classmethod
    def _positions_of_start(cls, value: object) -> object:
        """A start with positions is two fields."""
        if not isinstance(value, dict) or not isinstance(start := value.get("start"), dict):
            return value
        if "start_positions" in value or not {"positions"} <= start.keys() <= {"at", "positions"}:
            raise PydanticCustomError("start", "start has `at` and `positions`, each once")
        rest = {key: one for key, one in value.items() if key != "start"}
        at = {"start": start["at"]} if "at" in start else {}
        return {**rest, **at, "start_positions": start["positions"]}

    def joined(
        self, present: Mapping[str, str], problems: FieldProblems
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The metadata to store, and where the body has what its keys say."""
        document = self.model_dump(mode="json", exclude_unset=True)
        if "objectives" in document:
            document["objectives"] = [one.model_dump() for one in self.objectives]
        if "placement" in document:
            document["placement"] = self.placement.model_dump()
        no_positions: dict[str, dict[str, int]] = {}
        positions = problems.attempt(
            "/start_positions",
            lambda: positions_of_document("start_positions", self.start_positions).document,
            no_positions,
        )
        if "start_positions" in document:
            document["start_positions"] = positions
        typed = given_values(document)
        for key, value in kept_secrets(self.metadata, present).items():
            if value != present.get(key):
                pointer = pointer_to(["metadata", key])
                problems.attempt(pointer, partial(refuse_ignored, {key: value}), None)
        return joined_metadata(typed, self.metadata, present, problems)

    def check_keys(
        self,
        present: Mapping[str, str],
        known: tuple[TaskLimits, Start, TopicNaming],
        problems: FieldProblems,
    ) -> None:
        """Note the keys that say something else than these fields, which are stored by themselves."""
        given = {key: value for key, value in self.metadata.items() if value != present.get(key)}
        for key, pointer in key_contradictions(given, *known):
            said = f"metadata {key} is {shown(given[key])}, and the field says something else"
            problems.contradiction((pointer, pointer_to(["metadata", key])), said, "leave the key out")


class DatastreamBody(ChoicesBody):
    """A definition as it is created."""

    name: str
    source: SourceBody
    destination: DestinationBody | None = None
    start: StartText = "earliest"
    """Where a partition without a checkpoint begins."""

    def to_datastream(
        self, default_destination: ClusterRef, cluster_of_address: Callable[[str], ClusterRef]
    ) -> Datastream:
        """One cluster has one name here, however it was called. Raises InvalidRequest with every field that
        cannot be as it is given, RefusedFields where two of them contradict each other."""
        problems = FieldProblems()
        attempt = problems.attempt
        place, objective = self.destination or DestinationBody(cluster=default_destination), self.objective
        name = DatastreamName(self.name.strip())

        def cluster(role: str, address: str) -> ClusterRef:
            return ClusterRef(checked_cluster(f"{role} cluster", cluster_of_address(address)))

        attempt("/name", lambda: check_name(name), None)
        metadata, pointers = self.joined({}, problems)
        check_metadata(metadata, problems, pointers)
        start = read_start("the start", self.start)
        parts: dict[str, Any] = {
            "start": start.position,
            "start_ms": start.at_ms,
            "source": attempt("/source/cluster", lambda: cluster("the source", self.source.cluster), None),
            "selection": self.source.selection(None, problems),
            "destination": attempt(
                "/destination/cluster", lambda: cluster("the destination", place.cluster), None
            ),
            "naming": attempt("/destination/name", lambda: TopicNaming(place.name), None),
            "limits": attempt("/limits", lambda: TaskLimits(**self.limits.model_dump()), None),
            "objective": attempt(
                "/objective",
                lambda: LatencyObjective(**objective.model_dump()) if objective else None,
                None,
            ),
        }
        if parts["limits"] and parts["naming"]:
            self.check_keys({}, (parts["limits"], start, parts["naming"]), problems)
        error = RefusedFields if problems.contradicts else InvalidRequest
        problems.check(error)
        datastream = attempt(
            "/destination",
            lambda: Datastream(name=name, metadata=metadata, **parts),
            None,
        )
        problems.check(error)
        assert datastream is not None  # the check raises otherwise
        return datastream


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

    model_config = ConfigDict(strict=False)

    name: str
    owner: str = ""
    source: SourceBody | None = None
    destination: DestinationBody | None = None
    start: str = ""
    guarantee: Guarantee | None = None
    policies: PoliciesBody | None = None
    quota: QuotaBody | None = None
    limits: LimitsBody = LimitsBody()
    objective: ObjectiveBody | None = None
    objectives: list[ServiceObjectiveBody] = []
    monitor: Mode | None = None
    placement: PlacementBody = PlacementBody()
    start_positions: PositionsByTopic = {}
    metadata: dict[str, str] = {}
    status: str
    problem: ProblemAnswer | None = None
    """What cannot be done for it, or read of it."""
    pauses: dict[str, PauseAnswer] = {}
    """Partitions that somebody paused, by topic."""
    halt: HaltAnswer | None = None
    """Why, since when and for whom the whole datastream is paused, stopped or deleted."""
    planning: PlanningAnswer | None = None
    """What the last planning of its tasks found, which it may share with others; null: none is known."""

    @classmethod
    def from_datastream(
        cls, datastream: Datastream, problem: Problem | None = None, planning: Assessment | None = None
    ) -> DatastreamAnswer:
        """The JSON form, without secrets."""
        limits, objective = datastream.limits, datastream.objective
        metadata = without_secrets(datastream.metadata)
        typed = typed_document(metadata)
        return cls(
            name=datastream.name,
            owner=typed["owner"],
            source=SourceBody(
                cluster=datastream.source,
                topics=datastream.selection.include,
                exclude=datastream.selection.exclude,
                internal=datastream.selection.internal,
                match_all=datastream.selection.takes_all,
            ),
            destination=DestinationBody(
                cluster=datastream.destination, name=datastream.naming.template, **typed["destination"]
            ),
            start=str(Start(datastream.start, datastream.start_ms)),
            guarantee=typed["guarantee"],
            policies=PoliciesBody(**typed["policies"]),
            quota=QuotaBody(**typed["quota"]),
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
            objectives=[ServiceObjectiveBody(**one) for one in typed["objectives"]],
            monitor=typed["monitor"],
            placement=PlacementBody(**typed["placement"]),
            start_positions=typed["start_positions"],
            metadata=free_metadata(metadata),
            status=datastream.status.value,
            problem=ProblemAnswer.from_problem(problem) if problem is not None else None,
            pauses={topic: PauseAnswer.from_pause(one) for topic, one in datastream.pauses.items()},
            halt=HaltAnswer.from_halt(datastream.halt) if datastream.halt is not None else None,
            planning=PlanningAnswer.from_assessment(planning) if planning is not None else None,
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

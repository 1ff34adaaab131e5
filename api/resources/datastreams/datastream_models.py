"""Request bodies and responses for datastreams on /v1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from api.brooklin.metadata_keys import key_contradictions, refuse_ignored
from api.http.problems import SharedFields, StrictModel
from api.resources.datastreams.halts import HaltAnswer, PauseAnswer
from api.resources.plan_answers import PlanningAnswer
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.coordination.stores.problems import Problem
from mirror.errors import InvalidRequest, RefusedFields
from mirror.instance.loads.assessments import Assessment
from mirror.model.bounds import LARGEST_OFFSET, shown
from mirror.model.clusters import checked_cluster
from mirror.model.datastreams.change import FieldProblems, check_metadata, joined_metadata
from mirror.model.datastreams.datastream import Datastream, LatencyObjective, check_name
from mirror.model.datastreams.objectives import (
    HIGHEST_PERCENT,
    LARGEST_OBJECTIVE_MS,
    LONGEST_PERIOD_DAYS,
    LONGEST_WINDOW_SECONDS,
    LOWEST_PERCENT,
    MOST_OBJECTIVES,
    SHORTEST_WINDOW_SECONDS,
)
from mirror.model.datastreams.options import DatastreamOption, options_of
from mirror.model.datastreams.policy import Guarantee
from mirror.model.datastreams.secrets import kept_secrets, without_secrets
from mirror.model.datastreams.start_positions import positions_of_document
from mirror.model.datastreams.starts import WORDS, Start, read_start
from mirror.model.datastreams.typed_keys import free_metadata, given_values, typed_document
from mirror.model.documents import pointer_to
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicNaming, TopicSelection

DAMAGED: Final = "DAMAGED"
_UNGROUPED: Final = ("monitor", "canary", "audit", "audit_lateness_seconds")
"""Options that are direct fields of requests and responses, in no nested object."""
_TAKES_ALL: Final = "matches every topic of the cluster, including future ones"


_Model = TypeVar("_Model", bound=BaseModel)
_ANNOTATED: Final[Any] = Annotated
_LITERAL: Final[Any] = Literal
_ByName: Final = Field(strict=False)
"""Field of an enumeration, which JSON represents as text."""


def _start_text(value: object) -> object:
    """Return a start position from a request in the form that responses use."""
    try:
        return str(read_start("the start", value))
    except InvalidRequest as error:
        raise ValueError(str(error)) from error


StartText = Annotated[
    str,
    BeforeValidator(_start_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(WORDS), "type": "string"},
                {"format": "date-time", "type": "string", "description": "First record from this time on."},
                {"type": "integer", "minimum": 10**11, "description": "The same in epoch milliseconds."},
            ]
        }
    ),
]


PositionsByTopic = dict[str, dict[str, Annotated[int, Field(ge=0, le=LARGEST_OFFSET)]]]


def with_options(*groups: str) -> Callable[[type[_Model]], type[_Model]]:
    """Return a class decorator that adds options of datastreams as fields of a model."""

    def decorate(model: type[_Model]) -> type[_Model]:
        fields: dict[str, Any] = {
            option.field: (_annotation(option), Field(default=option.default, description=option.text))
            for group in groups
            for option in options_of(group)
        }
        return create_model(
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **fields
        )

    return decorate


def _annotation(option: DatastreamOption) -> Any:
    """Return the type annotation of the model field for an option of datastreams."""
    kind = option.kind
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        kind = _ANNOTATED[kind, _ByName]
    elif option.pattern is not None:
        kind = _ANNOTATED[kind, Field(pattern=option.pattern)]
    elif option.least is not None:
        kind = _ANNOTATED[kind, Field(ge=option.least, le=option.most)]
    if option.word:
        kind = kind | _LITERAL[option.word]
    return kind | None if option.default is None else kind


class SourceBody(StrictModel):
    """Source of a datastream."""

    cluster: str
    """Alias from the settings, or `host:port[,host:port…]`."""
    topics: str
    """Topics to mirror: a regular expression that must match the whole name, for example `orders|users`."""
    exclude: str = ""
    """Topics to exclude: a regular expression that must match the whole name."""
    internal: bool = False
    """Allow topics whose names start with two underscores."""
    match_all: bool = False
    """Mirror every topic of the cluster, including topics that are created later. Required for an expression
    that matches all topics, such as `.*` without `exclude`."""

    def selection(self, present: TopicSelection | None, problems: FieldProblems) -> TopicSelection | None:
        """Return the topic selection of the request. For an invalid expression, record the problem and return
        the current selection."""
        chosen = problems.attempt(
            "/source/topics", lambda: TopicSelection(self.topics, "", self.internal), present
        )
        include = chosen.include if chosen is not None else ".*"
        found = problems.attempt(
            "/source/exclude", lambda: TopicSelection(include, self.exclude, self.internal), present
        )
        if chosen and found and found.takes_all and found != present and not self.match_all:
            problems.refuse("/source/topics", _TAKES_ALL, "set match_all to true, or set exclude")
        return found


@with_options("destination")
class DestinationBody(StrictModel):
    """Destination of a datastream."""

    cluster: str
    """Alias from the settings, or `host:port[,host:port…]`."""
    name: str = "*"
    """Topic name at the destination; `*` is replaced by the source name."""


@with_options("policies")
class PoliciesBody(StrictModel):
    """Policies of a datastream: isolation level of reads, and handling of data loss and of rejected
    records."""


@with_options("quota")
class QuotaBody(StrictModel):
    """Quota of a datastream over all instances."""


@with_options("groups")
class GroupsBody(StrictModel):
    """Consumer groups whose committed offsets are translated to the destination."""


@with_options("limits")
class LimitsBody(StrictModel):
    """Limits on the tasks of a datastream."""


class ObjectiveBody(StrictModel):
    """SLA: `percentile` of the records must arrive within `milliseconds`."""

    milliseconds: Annotated[int, Field(gt=0)]
    percentile: Annotated[float, Field(gt=0, lt=100)] = 99.0


Percent = Annotated[float, Field(ge=LOWEST_PERCENT, le=HIGHEST_PERCENT)]


class ServiceObjectiveBody(StrictModel):
    """One of the datastream's service level objectives, with its error budget."""

    milliseconds: Annotated[int, Field(ge=1, le=LARGEST_OBJECTIVE_MS)]
    """Latency above which a record is late."""
    target_percent: Percent
    """Percentage of the period's records that must arrive in time. The rest is the error budget."""
    percentile: Percent = 99.0
    """Percentage of the window's records that must arrive in time; fewer is a breach."""
    window_seconds: Annotated[int, Field(ge=SHORTEST_WINDOW_SECONDS, le=LONGEST_WINDOW_SECONDS)] = 60
    period_days: Annotated[int, Field(ge=1, le=LONGEST_PERIOD_DAYS)] = 30


@with_options("placement")
class PlacementBody(StrictModel):
    """Parameters for planning the datastream's tasks; null means the default from the settings.

    If datastreams share tasks, the strictest value applies; datastreams that choose a strategy or a load
    provider must choose the same one.
    """


@with_options(*_UNGROUPED)
class OptionFields(StrictModel, SharedFields):
    """Options of a datastream, in requests and responses."""

    owner: str = ""
    """Team responsible for the datastream. Required, here or in the metadata."""
    limits: LimitsBody = LimitsBody()
    objective: ObjectiveBody | None = None
    objectives: list[ServiceObjectiveBody] = Field(default=[], max_length=MOST_OBJECTIVES)
    """Further objectives, each with a target over a period. Duplicates are rejected."""
    placement: PlacementBody = PlacementBody()
    start_positions: PositionsByTopic = Field(default={})
    """Start offsets of partitions without a checkpoint, by topic (`*`: all other topics) and partition.
    Partitions that are not listed start at `start`. Alternatively, `start` can contain the start and the
    positions: `{"at": "earliest", "positions": …}`. Cannot be changed after creation."""
    metadata: dict[str, str] = Field(default={})
    """User-defined metadata keys, and Brooklin's metadata keys that have no field here."""


@with_options("guarantee")
class ChoicesBody(OptionFields):
    """Options that Brooklin's interface expresses as metadata keys. A request may set the keys in `metadata`
    instead of fields, or both with the same values."""

    policies: PoliciesBody = PoliciesBody()
    quota: QuotaBody = QuotaBody()
    groups: GroupsBody = GroupsBody()

    @model_validator(mode="before")
    @classmethod
    def _positions_of_start(cls, value: object) -> object:
        """Move start positions in `start` to `start_positions`, because they are stored separately."""
        if not isinstance(value, dict) or not isinstance(start := value.get("start"), dict):
            return value
        if "start_positions" in value or not {"positions"} <= start.keys() <= {"at", "positions"}:
            raise ValueError("start accepts only `at` and `positions`, each once")
        rest = {key: field for key, field in value.items() if key != "start"}
        at = {"start": start["at"]} if "at" in start else {}
        return {**rest, **at, "start_positions": start["positions"]}

    def joined(
        self, present: Mapping[str, str], problems: FieldProblems
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the metadata to store, and map each of its keys to the JSON pointer of the request field."""
        document = self.model_dump(mode="json", exclude_unset=True)
        if "objectives" in document:
            document["objectives"] = [objective.model_dump() for objective in self.objectives]
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
        """Record an error for metadata keys that contradict fields stored outside the metadata."""
        given = {key: value for key, value in self.metadata.items() if value != present.get(key)}
        for key, pointer in key_contradictions(given, *known):
            text = f"metadata {key} is {shown(given[key])}, but the field has another value"
            problems.contradiction((pointer, pointer_to(["metadata", key])), text, "omit the key")


class DatastreamBody(ChoicesBody):
    """Definition of a datastream to create."""

    name: str
    source: SourceBody
    destination: DestinationBody | None = None
    start: StartText = "earliest"
    """Start position of a partition without a checkpoint."""

    def to_datastream(
        self, default_destination: ClusterRef, cluster_of_address: Callable[[str], ClusterRef]
    ) -> Datastream:
        """Return the datastream to create, with the alias of each cluster that has one.

        Raises InvalidRequest, which names every invalid field, and RefusedFields if fields contradict each
        other.
        """
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
                "/objective", lambda: LatencyObjective(**objective.model_dump()) if objective else None, None
            ),
        }
        if parts["limits"] and parts["naming"]:
            self.check_keys({}, (parts["limits"], start, parts["naming"]), problems)
        error = RefusedFields if problems.contradicts else InvalidRequest
        problems.check(error)
        datastream = attempt("/destination", lambda: Datastream(name=name, metadata=metadata, **parts), None)
        problems.check(error)
        assert datastream is not None  # the check raises otherwise
        return datastream


class ProblemAnswer(BaseModel):
    """Reason why a datastream is excluded from planning, and since when (epoch ms).

    If `sets_aside` is false, the problem is only a warning, and the datastream is not excluded.
    """

    reason: str
    since_ms: int
    sets_aside: bool

    @classmethod
    def from_problem(cls, problem: Problem) -> ProblemAnswer:
        """Return a datastream's problem as a response."""
        return cls(reason=problem.reason, since_ms=problem.since_ms, sets_aside=problem.sets_aside)


class DatastreamAnswer(OptionFields):
    """Stored definition of a datastream.

    A damaged definition has the status DAMAGED, a problem, and the last readable version if there is one.
    """

    model_config = ConfigDict(strict=False)

    name: str
    source: SourceBody | None = None
    destination: DestinationBody | None = None
    start: str = ""
    guarantee: Guarantee | None = None
    policies: PoliciesBody | None = None
    groups: GroupsBody | None = None
    quota: QuotaBody | None = None
    objectives: list[ServiceObjectiveBody] = Field(default=[])
    status: str
    problem: ProblemAnswer | None = None
    """Reason why the datastream cannot be processed or read."""
    pauses: dict[str, PauseAnswer] = Field(default={})
    """Partitions paused by an operator, by topic."""
    halt: HaltAnswer | None = None
    """Reason, time and requester of the pause, stop or deletion of the whole datastream."""
    planning: PlanningAnswer | None = None
    """Result of the latest planning run of the datastream's tasks, which other datastreams may share; null:
    unknown."""

    @classmethod
    def from_datastream(
        cls, datastream: Datastream, problem: Problem | None = None, planning: Assessment | None = None
    ) -> DatastreamAnswer:
        """Return a datastream as a response, without secrets."""
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
            groups=GroupsBody(**typed["groups"]),
            limits=LimitsBody(**asdict(limits)),
            objective=(
                ObjectiveBody(milliseconds=objective.milliseconds, percentile=objective.percentile)
                if objective
                else None
            ),
            objectives=[ServiceObjectiveBody(**objective) for objective in typed["objectives"]],
            **{name: typed[name] for name in _UNGROUPED},
            placement=PlacementBody(**typed["placement"]),
            start_positions=typed["start_positions"],
            metadata=free_metadata(metadata),
            status=datastream.status.value,
            problem=ProblemAnswer.from_problem(problem) if problem is not None else None,
            pauses={topic: PauseAnswer.from_pause(pause) for topic, pause in datastream.pauses.items()},
            halt=HaltAnswer(**asdict(datastream.halt)) if datastream.halt is not None else None,
            planning=PlanningAnswer.of(planning) if planning is not None else None,
        )

    @classmethod
    def from_damaged(cls, damaged: DamagedDefinition, problem: Problem) -> DatastreamAnswer:
        """Return an unreadable definition as a response."""
        if damaged.last is None:
            known = cls(name=damaged.name, status=DAMAGED)
        else:
            known = cls.from_datastream(damaged.last)
        update = {"status": DAMAGED, "problem": ProblemAnswer.from_problem(problem)}
        return known.model_copy(update=update)

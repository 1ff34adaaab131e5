"""A change of a datastream in place: what may change while it runs; what is refused, field by field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from mirror.errors import FieldProblem, InvalidRequest, RefusedFields
from mirror.model.datastreams.datastream import Datastream, LatencyObjective, StartPosition
from mirror.model.datastreams.metadata import CREATED_MS, GROUP_ID, OWNER, TASK_PREFIX, checked_metadata
from mirror.model.datastreams.policy import policy_from
from mirror.model.documents import ChangedValue, differences, pointer_to
from mirror.model.identifiers import ClusterRef
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicNaming, TopicSelection

_T = TypeVar("_T")
_ADVICE: Final = "create another datastream, or delete this one and create it as it should be"
_NAME: Final = "a datastream keeps its name: positions and producer ids are stored under it"
_SOURCE: Final = "a datastream keeps its source: its positions are offsets of that cluster"
_DESTINATION: Final = (
    "a datastream keeps its destination: its positions are stored there, with what was written"
)
_NAMING: Final = "destination topics keep their names: what was copied before lies under them"
_START: Final = "where a datastream began was decided when it was created"
_GROUP: Final = "a datastream keeps its group: tasks and positions are stored under it"
_CONSUMER_GROUP: Final = "a datastream keeps its consumer group: its positions are committed there"
_CREATED: Final = "the time of the creation is the service's to stamp"
_CONNECTOR: Final = "a datastream keeps its connector and its transport provider"
_FIXED_METADATA: Final[Mapping[str, str]] = {
    CREATED_MS: _CREATED,
    "system.auto.offset.reset": _START,
    "system.destination.destinationTopicPrefix": _NAMING,
    "system.connectorName": _CONNECTOR,
    "system.transportProviderName": _CONNECTOR,
}


class FieldProblems:
    """Collects what is wrong with the fields of a change, so that all of it is reported at once."""

    def __init__(self) -> None:
        self._found: list[FieldProblem] = []

    def refuse(self, pointer: str, detail: str) -> None:
        """Note what is wrong with a field."""
        self._found.append(FieldProblem(pointer, detail))

    def attempt(self, pointer: str, make: Callable[[], _T], otherwise: _T) -> _T:
        """What `make` returns; where it raises InvalidRequest, that is noted of the field."""
        try:
            return make()
        except InvalidRequest as error:
            self.refuse(pointer, str(error))
            return otherwise

    def check(self) -> None:
        """Raises RefusedFields with all that was noted."""
        if self._found:
            found = "; ".join(f"{one.pointer}: {one.detail}" for one in self._found)
            raise RefusedFields(found, fields=self._found)


@dataclass(frozen=True, slots=True)
class WantedDefinition:
    """A definition as somebody wants it to become. Of what cannot change, None says that nothing was said of
    it, so that it stays."""

    selection: TopicSelection
    limits: TaskLimits
    objective: LatencyObjective | None
    metadata: Mapping[str, str]
    name: str | None = None
    source: ClusterRef | None = None
    destination: ClusterRef | None = None
    naming: TopicNaming | None = None
    start: StartPosition | None = None


def changed(present: Datastream, wanted: WantedDefinition, problems: FieldProblems) -> Datastream:
    """The definition as it becomes; its status and its pauses stay. `problems`: what is wrong already.

    Raises RefusedFields with every field that cannot be as it is wanted.
    """
    for pointer, before, after, why in (
        ("/name", present.name, wanted.name, _NAME),
        ("/source/cluster", present.source, wanted.source, _SOURCE),
        ("/destination/cluster", present.destination, wanted.destination, _DESTINATION),
        ("/destination/name", present.naming, wanted.naming, _NAMING),
        ("/start", present.start, wanted.start, _START),
    ):
        if after is not None and after != before:
            problems.refuse(pointer, f"{why}; {_ADVICE}")
    metadata = _metadata(present, wanted.metadata, problems)
    problems.check()
    return replace(
        present,
        selection=wanted.selection,
        limits=wanted.limits,
        objective=wanted.objective,
        metadata=metadata,
    )


def _metadata(present: Datastream, wanted: Mapping[str, str], problems: FieldProblems) -> Mapping[str, str]:
    stamped = {CREATED_MS: present.metadata[CREATED_MS]} if CREATED_MS in present.metadata else {}
    metadata = {**stamped, **wanted}
    checks = [
        problems.attempt(pointer_to(["metadata", key]), partial(_is_possible, {key: value}), False)
        for key, value in metadata.items()
    ]
    if all(checks):
        problems.attempt("/metadata", partial(_is_possible, metadata), False)
    if not metadata.get(OWNER):
        problems.refuse(pointer_to(["metadata", OWNER]), "a datastream has an owner: the name of a team")
    for key, why in _FIXED_METADATA.items():
        if metadata.get(key) != present.metadata.get(key):
            problems.refuse(pointer_to(["metadata", key]), why)
    if (metadata.get(TASK_PREFIX) or present.name) != present.group:
        problems.refuse(pointer_to(["metadata", TASK_PREFIX]), f"{_GROUP}; {_ADVICE}")
    if (metadata.get(GROUP_ID) or present.name) != present.consumer_group:
        problems.refuse(pointer_to(["metadata", GROUP_ID]), f"{_CONSUMER_GROUP}; {_ADVICE}")
    return metadata


def _is_possible(metadata: Mapping[str, str]) -> bool:
    """Raises InvalidRequest."""
    checked_metadata(metadata)
    policy_from(metadata)
    return True


def described(datastream: Datastream) -> dict[str, Any]:
    """What people say of a datastream, without what becomes of it, as JSON-ready values: the fields that /v1
    has."""
    selection, objective = datastream.selection, datastream.objective
    return {
        "name": datastream.name,
        "source": {
            "cluster": datastream.source,
            "topics": selection.include,
            "exclude": selection.exclude,
            "internal": selection.internal,
        },
        "destination": {"cluster": datastream.destination, "name": datastream.naming.template},
        "start": datastream.start.value,
        "limits": asdict(datastream.limits),
        "objective": asdict(objective) if objective is not None else None,
        "metadata": dict(datastream.metadata),
    }


def definition_changes(before: Datastream, after: Datastream) -> tuple[ChangedValue, ...]:
    """The fields in which two versions of a definition differ, by pointer."""
    return tuple(differences(described(before), described(after)))

"""A change of a datastream in place: what may change while it runs; what is refused, field by field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Final, TypeVar

from mirror.errors import FieldProblem, InvalidRequest, RefusedFields
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream, LatencyObjective
from mirror.model.datastreams.metadata import (
    CREATED_MS,
    GROUP_ID,
    OWNER,
    RESTART,
    TASK_PREFIX,
    checked_metadata,
)
from mirror.model.datastreams.policy import PREFIX, lines_of, policy_from
from mirror.model.datastreams.positions.start_positions import START_POSITIONS
from mirror.model.datastreams.secrets import kept_secrets, without_secrets
from mirror.model.datastreams.starts import Start
from mirror.model.datastreams.typed_keys import (
    PLACES,
    free_metadata,
    pointer_of_key,
    says_nothing,
    text_of,
    typed_document,
    typed_values,
)
from mirror.model.documents import ChangedValue, differences, pointer_to
from mirror.model.identifiers import ClusterRef
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicNaming, TopicSelection

_T = TypeVar("_T")
_LONGEST_POINTER: Final = 500
_MOST_PROBLEMS: Final = 100
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
_RESTART: Final = "restart-from sets it"
_CONNECTOR: Final = "a datastream keeps its connector and its transport provider"
_FIXED_METADATA: Final[Mapping[str, str]] = {
    CREATED_MS: _CREATED,
    RESTART: _RESTART,
    "system.auto.offset.reset": _START,
    START_POSITIONS: _START,
    "system.destination.destinationTopicPrefix": _NAMING,
    "system.connectorName": _CONNECTOR,
    "system.transportProviderName": _CONNECTOR,
}

_LASTING: Final = (CREATED_MS, RESTART, START_POSITIONS)
"""Keys that stay where a change does not name them."""


class FieldProblems:
    """Collects what is wrong with the fields of a request, so that all of it is reported at once: the first
    hundred. `contradicts`: some fields say two things of one."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, str]] = []
        self.contradicts = False

    def refuse(self, pointer: str, detail: str, advice: str = "") -> None:
        """Note what is wrong with a field; where its name is too long to be shown, with what has it."""
        if len(pointer) > _LONGEST_POINTER:
            pointer = pointer[:_LONGEST_POINTER].rpartition("/")[0]
        if len(self._found) < _MOST_PROBLEMS:
            self._found.append((pointer, detail, advice))

    def attempt(self, pointer: str, make: Callable[[], _T], otherwise: _T) -> _T:
        """What `make` returns; where it raises InvalidRequest, that is noted of the field."""
        try:
            return make()
        except InvalidRequest as error:
            self.refuse(pointer, error.message, error.advice)
            return otherwise

    def contradiction(self, pointers: Sequence[str], detail: str, advice: str = "") -> None:
        """Note of each of these fields that they contradict one another."""
        self.contradicts = True
        for pointer in pointers:
            self.refuse(pointer, detail, advice)

    def check(self, error: type[InvalidRequest] = RefusedFields) -> None:
        """Raises the error with all that was noted."""
        fields = [
            FieldProblem(pointer, f"{detail}: {advice}" if advice else detail)
            for pointer, detail, advice in self._found
        ]
        if len(fields) == 1:
            ((pointer, detail, advice),) = self._found
            raise error(f"{pointer}: {detail}", fields=fields, advice=advice)
        if fields:
            raise error("; ".join(f"{one.pointer}: {one.detail}" for one in fields), fields=fields)


@dataclass(frozen=True, slots=True)
class WantedDefinition:
    """A definition as somebody wants it to become. Of what cannot change, None says that nothing was said of
    it, so that it stays. `pointers`: where the request has what keys of the metadata say, other than under
    their own names."""

    selection: TopicSelection
    limits: TaskLimits
    objective: LatencyObjective | None
    metadata: Mapping[str, str]
    name: str | None = None
    source: ClusterRef | None = None
    destination: ClusterRef | None = None
    naming: TopicNaming | None = None
    start: Start | None = None
    pointers: Mapping[str, str] = field(default_factory=dict)


def changed(present: Datastream, wanted: WantedDefinition, problems: FieldProblems) -> Datastream:
    """The definition as it becomes; its status and its pauses stay. `problems`: what is wrong already.

    Raises RefusedFields with every field that cannot be as it is wanted.
    """
    for pointer, before, after, why in (
        ("/name", present.name, wanted.name, _NAME),
        ("/source/cluster", present.source, wanted.source, _SOURCE),
        ("/destination/cluster", present.destination, wanted.destination, _DESTINATION),
        ("/destination/name", present.naming, wanted.naming, _NAMING),
        ("/start", Start(present.start, present.start_ms), wanted.start, _START),
    ):
        if after is not None and after != before:
            problems.refuse(pointer, f"{why}; {_ADVICE}")
    metadata = _metadata(present, wanted, problems)
    problems.check()
    return replace(
        present,
        selection=wanted.selection,
        limits=wanted.limits,
        objective=wanted.objective,
        metadata=metadata,
    )


def _metadata(present: Datastream, wanted: WantedDefinition, problems: FieldProblems) -> Mapping[str, str]:
    stamped = {key: present.metadata[key] for key in _LASTING if key in present.metadata}
    metadata = {**stamped, **wanted.metadata}
    check_metadata(metadata, problems, wanted.pointers)
    for key, why in _FIXED_METADATA.items():
        if metadata.get(key) != present.metadata.get(key):
            problems.refuse(wanted.pointers.get(key) or pointer_to(["metadata", key]), why)
    if (metadata.get(TASK_PREFIX) or present.name) != present.group:
        problems.refuse(pointer_to(["metadata", TASK_PREFIX]), f"{_GROUP}; {_ADVICE}")
    if (metadata.get(GROUP_ID) or present.name) != present.consumer_group:
        problems.refuse(pointer_to(["metadata", GROUP_ID]), f"{_CONSUMER_GROUP}; {_ADVICE}")
    return metadata


def check_metadata(
    metadata: Mapping[str, str], problems: FieldProblems, pointers: Mapping[str, str] | None = None
) -> None:
    """Note what is wrong with each key, with choices that contradict one another, and with all together.
    `pointers` as in `WantedDefinition`."""

    def pointer(key: str) -> str:
        return (pointers or {}).get(key) or pointer_to(["metadata", key])

    checks = [
        problems.attempt(pointer(key), partial(_is_possible, {key: value}), False)
        for key, value in metadata.items()
    ]
    if all(checks):
        choices = sorted(key for key in metadata if key.startswith(PREFIX))
        for pair in combinations(choices, 2):
            try:
                policy_from({key: metadata[key] for key in pair})
            except InvalidRequest as error:
                problems.contradiction([pointer(key) for key in pair], error.message, error.advice)
        problems.attempt("/metadata", partial(checked_metadata, metadata), metadata)
    if not metadata.get(OWNER):
        problems.refuse(pointer(OWNER), "a datastream has an owner: the name of a team")


def _is_possible(metadata: Mapping[str, str]) -> bool:
    """Raises InvalidRequest."""
    checked_metadata(metadata)
    policy_from(metadata)
    return True


def joined_metadata(
    typed: Mapping[str, Any], metadata: Mapping[str, str], present: Mapping[str, str], problems: FieldProblems
) -> tuple[dict[str, str], dict[str, str]]:
    """The metadata to store where a request makes choices by typed fields (`typed`: by their keys) and gives
    keys itself; and `pointers` as in `WantedDefinition`. What means the same as at present stays as it is
    written there. Notes each choice that is made twice, with two values."""
    before, shown_as = typed_values(present), typed_values(without_secrets(present))
    found = kept_secrets(metadata, present)
    for key, value in typed.items():
        pointers = pointer_to(PLACES[key]), pointer_to(["metadata", key])
        if key in metadata:
            if not _means(key, metadata[key], value):
                said = f"{shown(text_of(key, value))} and {shown(metadata[key])} are two values of one choice"
                problems.contradiction(pointers, said, "give one of them")
        elif value in (before[key], shown_as[key]):
            found |= {key: present[key]} if key in present else {}
        elif not says_nothing(value):
            found[key] = text_of(key, value)
            lines = [one.strip() for one in value if isinstance(one, str)] if isinstance(value, list) else []
            if lines and lines_of(found[key]) != tuple(lines):
                problems.refuse(pointers[0], "each is one line that is not empty")
    return found, {key: pointer_of_key(key, metadata) for key in PLACES}


def _means(key: str, text: str, value: object) -> bool:
    with suppress(InvalidRequest):
        return bool(typed_values({key: text})[key] == value)
    return False


def described(datastream: Datastream) -> dict[str, Any]:
    """What people say of a datastream, without what becomes of it and without secrets, as JSON-ready values:
    the fields that /v1 has."""
    selection, objective = datastream.selection, datastream.objective
    metadata = without_secrets(datastream.metadata)
    typed = typed_document(metadata)
    return {
        **typed,
        "name": datastream.name,
        "source": {
            "cluster": datastream.source,
            "topics": selection.include,
            "exclude": selection.exclude,
            "internal": selection.internal,
        },
        "destination": {
            **typed["destination"],
            "cluster": datastream.destination,
            "name": datastream.naming.template,
        },
        "start": str(Start(datastream.start, datastream.start_ms)),
        "limits": asdict(datastream.limits),
        "objective": asdict(objective) if objective is not None else None,
        "metadata": free_metadata(metadata),
    }


def definition_changes(before: Datastream, after: Datastream) -> tuple[ChangedValue, ...]:
    """The fields in which two versions of a definition differ, by pointer."""
    return tuple(differences(described(before), described(after)))

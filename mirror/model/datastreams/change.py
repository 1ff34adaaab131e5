"""Validates and merges the changes that a request makes to a datastream. Pure.

Determines which fields may change, and returns an error for every other field.
"""

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
from mirror.model.datastreams.options import FIXED_FIELDS
from mirror.model.datastreams.policy import PREFIX, lines_of, policy_from
from mirror.model.datastreams.secrets import kept_secrets, without_secrets
from mirror.model.datastreams.start_positions import START_POSITIONS
from mirror.model.datastreams.starts import Start
from mirror.model.datastreams.typed_keys import (
    PLACES,
    free_metadata,
    is_unset,
    pointer_of_key,
    text_of,
    typed_document,
    typed_values,
)
from mirror.model.documents import ChangedValue, differences, pointer_to
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicSelection

_T = TypeVar("_T")
_LONGEST_POINTER: Final = 500
_MOST_PROBLEMS: Final = 100
_ADVICE: Final = "create another datastream, or delete this one and create it again"
_GROUP: Final = "the group cannot change: tasks and positions are stored under it"
_CONSUMER_GROUP: Final = "the consumer group cannot change: positions are committed to it"
_CREATED: Final = "the creation time is set by the service"
_RESTART: Final = "set by restart-from"
_CONNECTOR: Final = "connector and transport provider cannot change"
_FIXED: Final[Mapping[str, str]] = {pointer_to(place): reason for place, reason in FIXED_FIELDS.items()}
"""Reasons why fields cannot change, by their JSON pointers."""
_FIXED_METADATA: Final[Mapping[str, str]] = {
    CREATED_MS: _CREATED,
    RESTART: _RESTART,
    "system.auto.offset.reset": _FIXED["/start"],
    START_POSITIONS: _FIXED["/start_positions"],
    "system.destination.destinationTopicPrefix": _FIXED["/destination/name"],
    "system.connectorName": _CONNECTOR,
    "system.transportProviderName": _CONNECTOR,
}

_LASTING: Final = (CREATED_MS, RESTART, START_POSITIONS)
"""Metadata keys that keep their values if a changed definition omits them."""


class FieldProblems:
    """Collects the errors of up to a hundred fields of a request, to report them together.

    `contradicts`: some fields contradict each other.
    """

    def __init__(self) -> None:
        self._found: list[tuple[str, str, str]] = []
        self.contradicts = False

    def refuse(self, pointer: str, detail: str, advice: str = "") -> None:
        """Add the error of a field.

        If the JSON pointer of the field is too long, the error is recorded for its parent object.
        """
        if len(pointer) > _LONGEST_POINTER:
            pointer = pointer[:_LONGEST_POINTER].rpartition("/")[0]
        if len(self._found) < _MOST_PROBLEMS:
            self._found.append((pointer, detail, advice))

    def attempt(self, pointer: str, make: Callable[[], _T], otherwise: _T) -> _T:
        """Return the result of `make`. If it raises InvalidRequest, add the error, and return `otherwise`."""
        try:
            return make()
        except InvalidRequest as error:
            self.refuse(pointer, error.message, error.advice)
            return otherwise

    def contradiction(self, pointers: Sequence[str], detail: str, advice: str = "") -> None:
        """Add an error for each of several fields that contradict each other."""
        self.contradicts = True
        for pointer in pointers:
            self.refuse(pointer, detail, advice)

    def check(self, error: type[InvalidRequest] = RefusedFields) -> None:
        """Raise one error with all collected field errors, if there are any."""
        fields = [
            FieldProblem(pointer, f"{detail}: {advice}" if advice else detail)
            for pointer, detail, advice in self._found
        ]
        if len(fields) == 1:
            ((pointer, detail, advice),) = self._found
            raise error(f"{pointer}: {detail}", fields=fields, advice=advice)
        if fields:
            raise error(
                "; ".join(f"{problem.pointer}: {problem.detail}" for problem in fields), fields=fields
            )


@dataclass(frozen=True, slots=True)
class WantedDefinition:
    """The definition that a request asks for.

    `fixed`: values of unchangeable fields by JSON pointer; None means that the request omits the field.
    `pointers`: JSON pointer of each typed field that sets an option, by metadata key.
    """

    selection: TopicSelection
    limits: TaskLimits
    objective: LatencyObjective | None
    metadata: Mapping[str, str]
    fixed: Mapping[str, object] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)


def changed(present: Datastream, wanted: WantedDefinition, problems: FieldProblems) -> Datastream:
    """Return the definition after the requested change. Status and pauses are kept.

    `problems`: errors found so far.

    Raises RefusedFields with every field that cannot be changed as requested.
    """
    before = {
        "/name": present.name,
        "/source/cluster": present.source,
        "/destination/cluster": present.destination,
        "/destination/name": present.naming,
        "/start": Start(present.start, present.start_ms),
    }
    for pointer, value in wanted.fixed.items():
        if value is not None and value != before[pointer]:
            problems.refuse(pointer, f"{_FIXED[pointer]}; {_ADVICE}")
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
    """Add the errors in the metadata of a request: invalid keys, and contradictions between keys.

    `pointers`: see `WantedDefinition`.
    """

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
        problems.refuse(pointer(OWNER), "the owner is required: the name of a team")


def _is_possible(metadata: Mapping[str, str]) -> bool:
    """Return True if the metadata is valid as a whole, otherwise raise InvalidRequest."""
    checked_metadata(metadata)
    policy_from(metadata)
    return True


def joined_metadata(
    typed: Mapping[str, Any], metadata: Mapping[str, str], present: Mapping[str, str], problems: FieldProblems
) -> tuple[dict[str, str], dict[str, str]]:
    """Merge the typed fields and the metadata keys of a request into metadata.

    Returns the metadata to store, and `pointers` as in `WantedDefinition`. `typed`: typed fields by metadata
    key. An unchanged value keeps its stored spelling. A contradiction is recorded for each option that the
    request sets to two different values.
    """
    before, shown_as = typed_values(present), typed_values(without_secrets(present))
    found = kept_secrets(metadata, present)
    for key, value in typed.items():
        pointers = pointer_to(PLACES[key]), pointer_to(["metadata", key])
        if key in metadata:
            if not _means(key, metadata[key], value):
                text = f"conflicting values {shown(text_of(key, value))} and {shown(metadata[key])}"
                problems.contradiction(pointers, text, "give only one of them")
        elif value in (before[key], shown_as[key]):
            found |= {key: present[key]} if key in present else {}
        elif not is_unset(value):
            found[key] = text_of(key, value)
            lines = (
                [line.strip() for line in value if isinstance(line, str)] if isinstance(value, list) else []
            )
            if lines and lines_of(found[key]) != tuple(lines):
                problems.refuse(pointers[0], "each must be one non-empty line")
    return found, {key: pointer_of_key(key, metadata) for key in PLACES}


def _means(key: str, text: str, value: object) -> bool:
    with suppress(InvalidRequest):
        return bool(typed_values({key: text})[key] == value)
    return False


def described(datastream: Datastream) -> dict[str, Any]:
    """Return the fields of a datastream that users set, as in /v1, without status and secrets."""
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
    """Return the fields that differ between two versions of a definition, sorted by JSON pointer."""
    return tuple(differences(described(before), described(after)))

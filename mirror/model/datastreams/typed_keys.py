"""Converts options between typed fields of /v1 and stored metadata keys. Pure.

The REST interface of Brooklin shows the options as metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from mirror.model.capacity.knobs import PLACEMENT, knobs_from, knobs_of_document
from mirror.model.datastreams.audit_mode import AUDIT_MODE, LATENESS, audit_mode_from, lateness_from
from mirror.model.datastreams.consumer_groups import FIELDS, groups_from
from mirror.model.datastreams.metadata import OWNER
from mirror.model.datastreams.objectives import (
    MONITOR_MODE,
    OBJECTIVES,
    Objective,
    mode_from,
    objectives_from,
)
from mirror.model.datastreams.options import OPTIONS, DatastreamOption
from mirror.model.datastreams.policy import (
    DEFAULT_POLICY,
    EXCLUDED_SETTINGS,
    CopyPolicy,
    excluded_settings,
    is_on,
    policy_from,
)
from mirror.model.datastreams.start_positions import START_POSITIONS, positions_from, positions_of_document
from mirror.model.documents import pointer_to

_BY_KEY: Final[Mapping[str, DatastreamOption]] = {
    option.key: option for option in OPTIONS if option.key and option.key != PLACEMENT
}
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    OWNER: ("owner",),
    **{key: option.place for key, option in _BY_KEY.items()},
    OBJECTIVES: ("objectives",),
    PLACEMENT: ("placement",),
    START_POSITIONS: ("start_positions",),
}
"""Path of the field in a /v1 document, by metadata key."""
_GETTERS: Final = {key: attrgetter(option.field) for key, option in _BY_KEY.items()}
"""Functions that return the value of an option from the object of its group, by metadata key."""
_READERS: Final[Mapping[str, Callable[[Mapping[str, str]], StrEnum | int | None]]] = {
    MONITOR_MODE: mode_from,
    AUDIT_MODE: audit_mode_from,
    LATENESS: lateness_from,
}
_DOCUMENTS: Final[Mapping[str, Callable[[Mapping[str, str]], Any]]] = {
    OWNER: lambda metadata: metadata.get(OWNER, ""),
    OBJECTIVES: lambda metadata: [asdict(objective) for objective in objectives_from(metadata)],
    PLACEMENT: lambda metadata: asdict(knobs_from(metadata)),
    START_POSITIONS: lambda metadata: positions_from(metadata).document,
    EXCLUDED_SETTINGS: lambda metadata: sorted(excluded_settings(metadata)),
}
"""Functions that return the values of /v1 that are not in the table of options."""


def typed_values(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Map metadata keys to the effective values of their options. Raises InvalidRequest for invalid metadata.

    Options that are not set have their defaults.
    """
    policy = policy_from(metadata)
    given = {key: _effective(key, metadata, policy) for key in PLACES if key in metadata}
    return {**{key: copy(value) for key, value in _DEFAULTS.items()}, **given}


def _effective(key: str, metadata: Mapping[str, str], policy: CopyPolicy) -> Any:
    """Return the effective value of an option."""
    if key in _DOCUMENTS:
        return _DOCUMENTS[key](metadata)
    option = _BY_KEY[key]
    if option.kind is bool:
        is_unknown = key not in metadata and option.default is None
        return None if is_unknown else is_on(metadata, key)
    if key in FIELDS:
        value: Any = _GETTERS[key](groups_from(metadata))
    elif key in _READERS:
        value = _READERS[key](metadata)
    else:
        value = _GETTERS[key](policy)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return value or option.default


_DEFAULTS: Final = {key: _effective(key, {}, DEFAULT_POLICY) for key in PLACES}


def text_of(key: str, value: object) -> str:
    """Return the text form of a typed option value, for the metadata. Raises InvalidRequest."""
    if key == START_POSITIONS:
        return positions_of_document("start_positions", value).text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return knobs_of_document(value).text
    if isinstance(value, list):
        return "\n".join(
            Objective(**objective).text if isinstance(objective, dict) else str(objective)
            for objective in value
        )
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def is_unset(value: object) -> bool:
    """Return whether a typed value unsets its option, so that no metadata key is stored."""
    return (
        value is None
        or value == []
        or (isinstance(value, dict) and all(inner is None for inner in value.values()))
    )


def typed_document(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the options as typed fields of a /v1 document. Raises the errors of `typed_values`."""
    document: dict[str, Any] = {}
    for key, value in typed_values(metadata).items():
        *parents, field = PLACES[key]
        level = document
        for parent in parents:
            level = level.setdefault(parent, {})
        level[field] = value
    return document


def free_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata keys that have no typed field."""
    return {key: value for key, value in metadata.items() if key not in PLACES}


def given_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Map metadata keys to the options that are set as typed fields of a /v1 document.

    A value is None if the field or an enclosing object is null.
    """
    found: dict[str, Any] = {}
    for key, place in PLACES.items():
        level: Any = document
        for part in place:
            if not isinstance(level, Mapping) or part not in level:
                break
            level = level[part]
            if level is None:
                found[key] = None
                break
        else:
            found[key] = level
    return found


def pointer_of_key(key: str, metadata: Mapping[str, str]) -> str:
    """Return the JSON pointer at which a request sets an option.

    `metadata`: metadata keys of the request.
    """
    return pointer_to(["metadata", key] if key in metadata or key not in PLACES else PLACES[key])

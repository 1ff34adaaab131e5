"""Named queries: functions of `queries.py` and `partitions/` that callers invoke by name, with parameters as
text.

`headrace pinot query` and dashboards call these queries; the catalogue also lists the available queries.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from mirror.errors import InvalidRequest, NotFound
from mirror.model import bounds
from pinot import queries
from pinot.client import PinotClient
from pinot.partitions import load_queries, offending_partitions
from pinot.time_range import TimeRange

_QUESTIONS: Final[Mapping[str, Callable[..., Sequence[Any]]]] = {
    "freshness": load_queries.freshness,
    "incidents": queries.incidents,
    "lag": queries.lag_by_partition,
    "latency": queries.latency_by_datastream,
    "latency-by-partition": queries.latency_by_partition,
    "latency-by-task": queries.latency_by_task,
    "loads": load_queries.partition_rates,
    "movers": load_queries.top_movers,
    "offending": offending_partitions.offending_partitions,
    "placement-events": queries.placement_events,
    "topic-loads": load_queries.topic_rates,
}
_NOT_ASKED_FOR: Final = frozenset({"client", "when"})
_MOST: Final = 10**15
"""Largest number that a parameter of a query may have."""
_PROPERTIES: Final = ("p50_ms", "p99_ms")


@dataclass(frozen=True)
class Question:
    """Description of a named query: its summary, and its parameters except the time range."""

    name: str
    summary: str
    required: tuple[str, ...]
    optional: tuple[str, ...]


def questions() -> list[Question]:
    """Map the name of each named query to its description."""
    return [_describe(name) for name in sorted(_QUESTIONS)]


def _describe(name: str) -> Question:
    function = _QUESTIONS[name]
    given = [p for p in inspect.signature(function).parameters.values() if p.name not in _NOT_ASKED_FOR]
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    return Question(
        name=name,
        summary=summary,
        required=tuple(p.name for p in given if p.default is p.empty),
        optional=tuple(p.name for p in given if p.default is not p.empty),
    )


def ask(
    client: PinotClient, name: str, when: TimeRange, parameters: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Run a named query and return its rows as mappings.

    Raises NotFound for an unknown name, InvalidRequest for a missing, unknown or invalid parameter, and the
    errors of the client.
    """
    if name not in _QUESTIONS:
        raise NotFound(f"unknown query {name}", advice=f"known: {', '.join(sorted(_QUESTIONS))}")
    question = _describe(name)
    known = {*question.required, *question.optional}
    for parameter in parameters:
        if parameter not in known:
            raise InvalidRequest(
                f"unknown parameter {parameter} of query {name}",
                advice=f"parameters: {', '.join(sorted(known)) or 'none'}",
            )
    missing = [parameter for parameter in question.required if parameter not in parameters]
    if missing:
        raise InvalidRequest(f"query {name} requires {', '.join(missing)}", advice="add --param name=value")
    hints = get_type_hints(_QUESTIONS[name])
    values = {parameter: _value(parameter, text, hints[parameter]) for parameter, text in parameters.items()}
    return [_row(row) for row in _QUESTIONS[name](client, when=when, **values)]


def _value(name: str, text: str, hint: Any) -> Any:
    """Convert a query parameter from text to its type; commas separate the items of a sequence."""
    if get_origin(hint) is UnionType:
        hint = next(choice for choice in get_args(hint) if choice is not NoneType)
    if get_origin(hint) is Sequence:
        return [part.strip() for part in text.split(",") if part.strip()]
    if hint is int:
        return bounds.digits(name, text, 0, _MOST)
    if hint is float:
        return bounds.decimal(name, text, 1 / _MOST, _MOST)
    return bounds.choice(name, hint, text) if issubclass(hint, StrEnum) else text


def _row(row: Any) -> dict[str, Any]:
    answer = row._asdict() if hasattr(row, "_asdict") else asdict(row)
    for name in _PROPERTIES:
        if hasattr(row, name):
            answer[name] = getattr(row, name)
    return answer

"""Converts objectives to and from OpenSLO v1 documents (`kind: SLO`). Pure.

A document may refer to its indicator (`indicatorRef`), which is a document of `kind: SLI` in the same import.
Documents of `kind: Service` are accepted and ignored.

An objective uses the standard fields of OpenSLO. The percentile and the window have no standard field, and
are in the vendor-specific `spec` of the metric source. A document may have several objectives. Documents with
unsupported fields are rejected, so that no objective differs from its document.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.change import FieldProblems
from mirror.model.datastreams.objectives import Objective, checked_objectives, percent_text, read_length
from mirror.model.documents import pointer_to
from mirror.wording import counted

API_VERSION: Final = "openslo/v1"
KIND: Final = "SLO"
INDICATOR: Final = "SLI"
SERVICE: Final = "Service"
METRIC_SOURCE: Final = "Headrace"
_METHOD: Final = "Occurrences"
_MOST_ENTRIES: Final = 100
_MOST_WRONG: Final = 10
"""Maximum number of invalid documents that an error describes; others are only counted."""
_DAYS: Final = re.compile(r"([1-9][0-9]{0,3})([dwMQY]?)", re.ASCII)
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 63
_HASH_DIGITS: Final = 8
_ADVICE: Final = "see the output of headrace slo export for an example"


@dataclass(frozen=True)
class NamedObjective:
    """An objective, and the name of its datastream."""

    datastream: str
    objective: Objective


def to_document(named_objective: NamedObjective, owner: str = "") -> dict[str, Any]:
    """Return the OpenSLO document of an objective. The name of the document is derived from the objective."""
    objective = named_objective.objective
    target = percent_text(objective.target_percent)
    description = f"{target} percent within {objective.milliseconds} ms"
    name = _name(
        named_objective.datastream,
        f"{target}-{objective.milliseconds}ms-{objective.period_days}d"
        f"-p{percent_text(objective.percentile)}-{objective.window_seconds}s",
    )
    source = {
        "datastream": named_objective.datastream,
        "percentile": objective.percentile,
        "window": f"{objective.window_seconds}s",
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "displayName": f"{named_objective.datastream}: {description}",
            **({"annotations": {"headrace/owner": owner}} if owner else {}),
        },
        "spec": {
            "description": f"{description} from the source's timestamp to the destination's acknowledgement",
            "service": named_objective.datastream,
            "indicator": {
                "metadata": {"name": f"{_name(named_objective.datastream, 'latency')}"},
                "spec": {"thresholdMetric": {"metricSource": {"type": METRIC_SOURCE, "spec": source}}},
            },
            "timeWindow": [{"duration": f"{objective.period_days}d", "isRolling": True}],
            "budgetingMethod": _METHOD,
            "objectives": [
                {
                    "displayName": description,
                    "op": "lte",
                    "value": objective.milliseconds,
                    "targetPercent": objective.target_percent,
                }
            ],
        },
    }


def _name(datastream: str, rest: str) -> str:
    """Return the name of an OpenSLO document, which must be a DNS label.

    If the name of the datastream is invalid or too long, the label ends with a part of a hash, which makes it
    unique.
    """
    start, end = (_NOT_IN_A_NAME.sub("-", text.lower()).strip("-") for text in (datastream, rest))
    name = f"{start}-{end}" if start else end
    if start == datastream and len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(f"{datastream} {rest}".encode()).hexdigest()[:_HASH_DIGITS]
    return f"{name[: _LONGEST_NAME - _HASH_DIGITS - 1].strip('-')}-{digest}"


class _DocumentReader:
    """Reads one OpenSLO document, and collects the problems that it finds in fields."""

    def __init__(self, document: object) -> None:
        self._document = document
        self.problems = FieldProblems()

    def refuse(self, path: Sequence[str | int], detail: str, advice: str = "") -> None:
        self.problems.refuse(pointer_to(path), detail, advice)

    def part(self, *path: str | int) -> Any:
        """Return the value at a path in the document; None if there is none."""
        found: Any = self._document
        for name in path:
            if isinstance(name, int) and isinstance(found, list) and name < len(found):
                found = found[name]
            elif isinstance(name, str) and isinstance(found, Mapping):
                found = found.get(name)
            else:
                return None
        return found

    def expect(self, wanted: object, *path: str | int) -> None:
        """Record a problem unless the field has the value `wanted`."""
        found = self.part(*path)
        if found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
            self.refuse(path, f"is {bounds.shown(found)}, must be {bounds.shown(wanted)}", _ADVICE)

    def only(self, names: Iterable[str], *path: str | int) -> None:
        """Record a problem if the object at a path has other fields than `names`."""
        found = self.part(*path)
        if not isinstance(found, Mapping):
            self.refuse(path, f"must be an object, not {bounds.shown(found)}", _ADVICE)
            return
        for name in found:
            if name not in set(names):
                self.refuse([*path, str(name)], "unsupported field", "remove it")

    def entries(self, *path: str | int) -> int:
        """Return the length of the list at a path; record a problem unless it is a non-empty list."""
        found = self.part(*path)
        if not isinstance(found, list) or not 1 <= len(found) <= _MOST_ENTRIES:
            self.refuse(path, f"must be a list of 1 to {_MOST_ENTRIES} entries", _ADVICE)
            return 0
        return len(found)


def from_document(
    document: object, indicators: Mapping[str, object] = MappingProxyType({})
) -> tuple[NamedObjective, ...]:
    """Return the objectives of an OpenSLO document, at least one. Raises RefusedFields with all invalid
    fields.

    `indicators`: indicators to which the document may refer, by name, in the inline form.
    """
    reader = _DocumentReader(_with_indicator(document, indicators))
    _read_head(reader, KIND)
    fields = ("description", "service", "indicator", "timeWindow", "budgetingMethod", "objectives")
    reader.only(fields, "spec")
    reader.expect(_METHOD, "spec", "budgetingMethod")
    datastream, judged = _source(reader)
    days = _days(reader)
    number = reader.entries("spec", "objectives")
    found = [_objective(reader, index, days, judged) for index in range(number)]
    reader.problems.check()
    return tuple(NamedObjective(datastream, objective) for objective in found if objective is not None)


def _read_head(reader: _DocumentReader, kind: str) -> None:
    reader.expect(API_VERSION, "apiVersion")
    reader.expect(kind, "kind")
    reader.only(("apiVersion", "kind", "metadata", "spec"))
    reader.only(("name", "displayName", "labels", "annotations"), "metadata")


def _with_indicator(document: object, indicators: Mapping[str, object]) -> object:
    """Replace the reference to an indicator by the indicator itself. Raises RefusedFields if it is
    missing."""
    reader, place = _DocumentReader(document), ("spec", "indicatorRef")
    name = reader.part(*place)
    if name is None:
        return document
    if reader.part("spec", "indicator") is not None:
        reader.refuse(place, "the document also has an inline indicator", "remove one of them")
    elif not isinstance(name, str) or name not in indicators:
        subject = f"unknown {INDICATOR} {bounds.shown(name)}"
        reader.refuse(place, subject, "import its document with this one")
    reader.problems.check()
    spec = {
        field: field_value for field, field_value in reader.part("spec").items() if field != "indicatorRef"
    }
    return {**reader.part(), "spec": {**spec, "indicator": indicators[name]}}


def _name_of(document: object, kind: str) -> str:
    """Return the name of an OpenSLO document, to which others may refer. Raises RefusedFields."""
    reader = _DocumentReader(document)
    _read_head(reader, kind)
    name = reader.part("metadata", "name")
    if not isinstance(name, str) or not name:
        reader.refuse(["metadata", "name"], "must be a name")
    reader.problems.check()
    return str(name)


def _source(reader: _DocumentReader) -> tuple[str, dict[str, Any]]:
    """Return datastream, percentile and window from the metric source of a document."""
    reader.only(("metadata", "spec"), "spec", "indicator")
    reader.only(("thresholdMetric", "description"), "spec", "indicator", "spec")
    place = "spec", "indicator", "spec", "thresholdMetric", "metricSource"
    reader.only(("metricSource",), *place[:-1])
    reader.only(("type", "spec", "metricSourceRef"), *place)
    reader.expect(METRIC_SOURCE, *place, "type")
    source = (*place, "spec")
    reader.only(("datastream", "percentile", "window"), *source)
    name = reader.part(*source, "datastream")
    if not isinstance(name, str) or not name:
        reader.refuse([*source, "datastream"], "must be the name of a datastream", _ADVICE)
        name = ""
    judged: dict[str, Any] = {}
    if (percentile := reader.part(*source, "percentile")) is not None:
        judged["percentile"] = percentile
    if (window := reader.part(*source, "window")) is not None:
        pointer = pointer_to([*source, "window"])
        judged["window_seconds"] = reader.problems.attempt(pointer, lambda: read_length(window, 1_000), 60)
    return name, judged


def _days(reader: _DocumentReader) -> int:
    """Return the period of the objective in days. Record a problem unless it is one rolling period."""
    place = "spec", "timeWindow"
    if reader.entries(*place) != 1:
        reader.refuse(place, "must have exactly one window")
        return 1
    reader.only(("duration", "isRolling"), *place, 0)
    reader.expect(True, *place, 0, "isRolling")
    duration = reader.part(*place, 0, "duration")
    found = _DAYS.fullmatch(duration) if isinstance(duration, str) else None
    if found is None or found[2] not in ("d", "w"):
        reader.refuse(
            [*place, 0, "duration"], f"invalid number of days {bounds.shown(duration)}", "examples: 30d, 4w"
        )
        return 1
    return int(found[1]) * (7 if found[2] == "w" else 1)


def _objective(reader: _DocumentReader, index: int, days: int, judged: Mapping[str, Any]) -> Objective | None:
    place = "spec", "objectives", index
    reader.only(("displayName", "op", "value", "target", "targetPercent"), *place)
    reader.expect("lte", *place, "op")
    value, percent = reader.part(*place, "value"), reader.part(*place, "targetPercent")
    target = reader.part(*place, "target")
    if (target is None) == (percent is None):
        reader.refuse(place, "must have exactly one of target and targetPercent")
        return None
    if target is not None:
        percent = reader.problems.attempt(pointer_to([*place, "target"]), lambda: _percent(target), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if percent is None:
        return None
    return reader.problems.attempt(
        pointer_to(place), lambda: Objective(value, percent, period_days=days, **judged), None
    )


def _percent(share: object) -> float:
    """Convert a fraction to percent without binary rounding errors."""
    return float(Decimal(repr(bounds.number("the target", share, 0, 1))) * 100)


def by_datastream(documents: Iterable[tuple[str, object]]) -> dict[str, tuple[Objective, ...]]:
    """Map each datastream to its objectives in the documents.

    Each document is passed with its origin, for errors. An indicator may come before or after the documents
    that refer to it. Raises InvalidRequest with every invalid document and field.
    """
    found: dict[str, list[Objective]] = {}
    objectives, indicators, wrong = _sorted_out(documents)
    for where, document in objectives:
        try:
            for objective in from_document(document, indicators):
                found.setdefault(objective.datastream, []).append(objective.objective)
        except InvalidRequest as error:
            wrong.append(f"{where}: {error}")
    if wrong:
        more = f"; and {counted(rest, 'more document')}" if (rest := len(wrong) - _MOST_WRONG) > 0 else ""
        raise InvalidRequest("; ".join(wrong[:_MOST_WRONG]) + more)
    return {name: checked_objectives(f"datastream {name}", objectives) for name, objectives in found.items()}


def _sorted_out(
    documents: Iterable[tuple[str, object]],
) -> tuple[list[tuple[str, object]], dict[str, object], list[str]]:
    """Separate documents into objectives and indicators, and collect the problems of invalid documents."""
    objectives: list[tuple[str, object]] = []
    indicators: dict[str, object] = {}
    wrong = []
    for where, document in documents:
        kind = document.get("kind") if isinstance(document, Mapping) else None
        try:
            if kind == SERVICE:
                _name_of(document, SERVICE)
            elif kind == INDICATOR and isinstance(document, Mapping):
                name = _name_of(document, INDICATOR)
                if name in indicators:
                    wrong.append(f"{where}: duplicate {INDICATOR} {bounds.shown(name)}")
                indicators[name] = {"metadata": document["metadata"], "spec": document.get("spec")}
            else:
                objectives.append((where, document))
        except InvalidRequest as error:
            wrong.append(f"{where}: {error}")
    return objectives, indicators, wrong

"""Converts definitions of datastreams to and from JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from mirror.coordination.stores import node_codec
from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.creation import Creation
from mirror.model.datastreams.datastream import (
    Datastream,
    DatastreamStatus,
    Halt,
    LatencyObjective,
    PartitionPause,
    StartPosition,
)
from mirror.model.load import TaskLimits
from mirror.model.movement.exemptions import Resumption
from mirror.model.topics import TopicNaming, selection_without_look_ahead


def to_document(datastream: Datastream) -> dict[str, Any]:
    """Return a definition as a JSON object."""
    return {
        "name": datastream.name,
        "source": datastream.source,
        "topics": replace(datastream.selection, canary="").document,
        "destination": datastream.destination,
        "naming": datastream.naming.template,
        "status": datastream.status.value,
        "start": datastream.start.value,
        **({"start_ms": datastream.start_ms} if datastream.start_ms is not None else {}),
        "limits": asdict(datastream.limits),
        "objective": asdict(datastream.objective) if datastream.objective else None,
        "metadata": dict(datastream.metadata),
        "pauses": {topic: _pause_document(pause) for topic, pause in datastream.pauses.items()},
        "halt": asdict(datastream.halt) if datastream.halt else None,
        "creation": asdict(datastream.creation) if datastream.creation else None,
        **({"resumptions": _resumption_documents(datastream)} if datastream.resumptions else {}),
    }


def from_document(document: Mapping[str, Any]) -> Datastream:
    """Parse the stored definition of a datastream.

    Unknown fields, which a newer version may have written, are ignored.

    Raises only InvalidRequest for a damaged document.
    """
    topics = bounds.mapping("topics", bounds.field(document, "topics"))
    pauses = bounds.mapping("pauses", document.get("pauses", {}))
    return Datastream(
        name=bounds.field(document, "name"),
        source=bounds.field(document, "source"),
        selection=selection_without_look_ahead(
            bounds.field(topics, "include"), topics.get("exclude", ""), topics.get("internal", False)
        ),
        destination=bounds.field(document, "destination"),
        naming=TopicNaming(bounds.field(document, "naming")),
        status=bounds.choice("the status", DatastreamStatus, bounds.field(document, "status")),
        start=bounds.choice("the start", StartPosition, bounds.field(document, "start")),
        start_ms=document.get("start_ms"),
        limits=_limits(bounds.mapping("limits", bounds.field(document, "limits"))),
        objective=_objective(document.get("objective")),
        metadata=bounds.field(document, "metadata"),
        pauses={topic: _pause(bounds.mapping("a pause", pause)) for topic, pause in pauses.items()},
        halt=_halt(document.get("halt")),
        creation=_creation(document.get("creation")),
        resumptions={
            topic: _resumption(bounds.mapping("a resumption", resumption))
            for topic, resumption in bounds.mapping("resumptions", document.get("resumptions", {})).items()
        },
    )


def _limits(document: Mapping[str, Any]) -> TaskLimits:
    names = ("min_tasks", "max_tasks", "max_partitions_per_task")
    return TaskLimits(**{name: document[name] for name in names if name in document})


def _objective(value: object) -> LatencyObjective | None:
    if value is None:
        return None
    document = bounds.mapping("the objective", value)
    return LatencyObjective(bounds.field(document, "milliseconds"), bounds.field(document, "percentile"))


def _halt(value: object) -> Halt | None:
    if value is None:
        return None
    document = bounds.mapping("the halt", value)
    return Halt(bounds.field(document, "reason"), *_cause(document))


def _creation(value: object) -> Creation | None:
    if value is None:
        return None
    document = bounds.mapping("the creation", value)
    return Creation(bounds.field(document, "key"), bounds.field(document, "wish"))


def _pause_document(pause: PartitionPause) -> dict[str, Any]:
    numbers = "*" if pause.numbers is None else node_codec.encode_ranges(pause.numbers)
    cause = {"reason": pause.reason, "since_ms": pause.since_ms, "requested_by": pause.requested_by}
    return {"partitions": numbers, **cause, "until_ms": pause.until_ms}


def _pause(document: Mapping[str, Any]) -> PartitionPause:
    return PartitionPause(_numbers(document), bounds.field(document, "reason"), *_cause(document))


def _numbers(document: Mapping[str, Any]) -> frozenset[int] | None:
    text = bounds.text("paused partitions", bounds.field(document, "partitions"), node_codec.CHUNK_BYTES)
    try:
        return None if text == "*" else frozenset(node_codec.decode_ranges(text))
    except ValueError as error:
        raise InvalidRequest(f"invalid paused partitions: {error}") from error


def _resumption_documents(datastream: Datastream) -> dict[str, Any]:
    return {
        topic: {
            "partitions": "*" if resumption.numbers is None else node_codec.encode_ranges(resumption.numbers),
            "since_ms": resumption.since_ms,
            "until_ms": resumption.until_ms,
            "began_ms": resumption.began_ms,
        }
        for topic, resumption in datastream.resumptions.items()
    }


def _resumption(document: Mapping[str, Any]) -> Resumption:
    names = ("since_ms", "until_ms", "began_ms")
    return Resumption(_numbers(document), *(bounds.field(document, name) for name in names))


def _cause(document: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return start, requester and end of a pause, as stored in the definition.

    The end may be missing, because older versions did not write it.
    """
    return bounds.field(document, "since_ms"), document.get("requested_by", ""), document.get("until_ms")

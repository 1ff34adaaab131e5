"""Metadata keys of Brooklin: keys that repeat a field of the definition, and keys that Headrace does not
support. Datastreams with keys that contradict a field or are not supported are rejected with advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model.bounds import digits
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.starts import Start, read_start
from mirror.model.load import TaskLimits
from mirror.model.topics import MOST_PARTITIONS, PLACEHOLDER, TopicNaming

PREFIX: Final = "system.destination.destinationTopicPrefix"
_START: Final = "system.auto.offset.reset"
_MIN_TASKS: Final = "minTasks"
_MAX_TASKS: Final = "maxTasks"
_PARTITIONS_PER_TASK: Final = "partitionsPerTask"
LIMITS: Final = {
    _MIN_TASKS: "min_tasks",
    _MAX_TASKS: "max_tasks",
    _PARTITIONS_PER_TASK: "max_partitions_per_task",
}
"""Fields of `TaskLimits` by metadata key."""
BROOKLINS_POSITIONS: Final = "system.start.position"
"""Brooklin's metadata key for start positions; read when a datastream is created."""
_EVENT: Final = "system.event.metadata"
"""Prefix of metadata keys to which one rule applies."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A metadata key that Headrace does not support: advice, and the values that are accepted nevertheless.

    Accepted values request what Headrace always does.
    """

    advice: str
    fine: frozenset[str] = frozenset({"", "false"})


_AS_THEY_ARE: Final = "bytes are copied unchanged; remove the key"
_NOTHING: Final = _Rule("it has no effect when mirroring Kafka; remove the key", frozenset({""}))
_STAMP: Final = _Rule("the service sets it; remove the key", frozenset({""}))
_RULES: Final[Mapping[str, _Rule]] = {
    "system.reuseExistingDestination": _Rule(
        "each datastream has its own destination; set false or remove the key"
    ),
    "system.IsUserManagedDestination": _Rule("set destination.connectionString"),
    "system.IsConnectorManagedDestination": _Rule(_STAMP.advice, frozenset({"", "true"})),
    "system.createValidationTime.ms": _STAMP,
    "system.destination.creation.ms": _STAMP,
    "system.destination.KafkaBrokers": _Rule(
        "set destination.connectionString to change the destination", frozenset({""})
    ),
    "system.destination.retention.ms": _Rule(
        "topics have the settings of their source; remove the key", frozenset({""})
    ),
    "system.destination.identityPartitioningEnabled": _Rule(
        "partition numbers are kept; set true or remove the key", frozenset({"", "true"})
    ),
    "system.destination.keySchemaName": _Rule(_AS_THEY_ARE, frozenset({""})),
    "system.destination.payloadSchemaName": _Rule(_AS_THEY_ARE, frozenset({""})),
    "system.destination.encryptionRequired": _Rule(_AS_THEY_ARE),
    "system.source.decryptionRequired": _Rule(_AS_THEY_ARE),
    BROOKLINS_POSITIONS: _Rule("set start_positions when creating the datastream", frozenset({"", "{}"})),
    "system.pausedSourcePartitions": _Rule("pause partitions after the creation", frozenset({"", "{}"})),
    "system.customCheckpoint": _Rule(
        "positions are always committed to its group.id; remove the key", frozenset({""})
    ),
    "system.usePassthroughCompression": _Rule(
        "batches pass unopened wherever possible; set true, or headrace.path = record",
        frozenset({"", "true"}),
    ),
    "system.enableTopicAutoCreation": _Rule(
        "missing topics are created; set true or remove the key", frozenset({"", "true"})
    ),
    "system.uid": _NOTHING,
    "system.cdcBootstrapRequired": _Rule(_NOTHING.advice),
    "system.isBootstrapComplete": _Rule(_NOTHING.advice),
    _EVENT: _NOTHING,
    "system.disableSlaMetric": _Rule("the latency of every partition is measured; remove the key"),
    "skipMessageOnSerializationErrors": _Rule("records are not serialised; use headrace.on-rejection"),
    "throughputViolatingTopics": _Rule("the latency of every topic counts; remove the key", frozenset({""})),
    "partitionFullnessThresholdPct": _Rule("use mirror.leader.task_utilisation_percent", frozenset({""})),
    "producersPerTask": _Rule(
        "a worker process has one connection to each broker; remove the key", frozenset({""})
    ),
}


def refuse_ignored(metadata: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a metadata key that requests a feature of Brooklin that Headrace lacks."""
    for key, value in metadata.items():
        rule = _RULES.get(_EVENT if key.startswith(_EVENT) else key)
        if rule is not None and value.strip().lower() not in rule.fine:
            raise InvalidRequest(f"metadata {key} is not supported", advice=rule.advice)


def start_of(metadata: Mapping[str, str]) -> Start:
    """Return the start position from Brooklin's metadata key. Raises InvalidRequest."""
    return read_start(f"metadata {_START}", metadata.get(_START, StartPosition.EARLIEST.value))


def limits_of(metadata: Mapping[str, str]) -> TaskLimits:
    """Return the task limits from Brooklin's metadata keys. Raises InvalidRequest."""

    def number(key: str) -> int | None:
        text = metadata.get(key)
        if text is None or text == "":
            return None
        return digits(f"metadata {key}", text, 1, MOST_PARTITIONS)

    return TaskLimits(
        min_tasks=number(_MIN_TASKS) or 1,
        max_tasks=number(_MAX_TASKS),
        max_partitions_per_task=number(_PARTITIONS_PER_TASK),
    )


def key_contradictions(
    metadata: Mapping[str, str], limits: TaskLimits, start: Start, naming: TopicNaming
) -> Iterator[tuple[str, str]]:
    """Yield each metadata key that contradicts a field of the definition, with the JSON pointer of that
    field."""
    for key, field in LIMITS.items():
        text = metadata.get(key, "")
        if text and text != str(getattr(limits, field)):
            yield key, f"/limits/{field}"
    is_same = not metadata.get(_START)
    with suppress(InvalidRequest):
        is_same = is_same or start_of(metadata) == start
    if not is_same:
        yield _START, "/start"
    if metadata.get(PREFIX) and metadata[PREFIX] + PLACEHOLDER != naming.template:
        yield PREFIX, "/destination/name"

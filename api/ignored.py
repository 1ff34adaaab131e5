"""Metadata of Brooklin's that would mean nothing here: it is refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror.errors import InvalidRequest

BROOKLINS_POSITIONS: Final = "system.start.position"
"""Brooklin's key of start positions, which its interface reads at a creation."""
_EVENT: Final = "system.event.metadata"
"""Keys that begin so belong to one kind."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """What to do instead, and the values that ask for what is done anyway."""

    advice: str
    fine: frozenset[str] = frozenset({"", "false"})


_AS_THEY_ARE: Final = "bytes are copied as they are; leave it out"
_NOTHING: Final = _Rule("it means nothing where Kafka is mirrored; leave it out", frozenset({""}))
_STAMP: Final = _Rule("it is the service's to say; leave it out", frozenset({""}))
_RULES: Final[Mapping[str, _Rule]] = {
    "system.reuseExistingDestination": _Rule(
        "each datastream has its own destination: false, or leave it out"
    ),
    "system.IsUserManagedDestination": _Rule("name the destination as destination.connectionString"),
    "system.IsConnectorManagedDestination": _Rule(_STAMP.advice, frozenset({"", "true"})),
    "system.createValidationTime.ms": _STAMP,
    "system.destination.creation.ms": _STAMP,
    "system.destination.KafkaBrokers": _Rule(
        "name another destination as destination.connectionString", frozenset({""})
    ),
    "system.destination.retention.ms": _Rule(
        "topics have the settings of their source; leave it out", frozenset({""})
    ),
    "system.destination.identityPartitioningEnabled": _Rule(
        "partition numbers are kept: true, or leave it out", frozenset({"", "true"})
    ),
    "system.destination.keySchemaName": _Rule(_AS_THEY_ARE, frozenset({""})),
    "system.destination.payloadSchemaName": _Rule(_AS_THEY_ARE, frozenset({""})),
    "system.destination.encryptionRequired": _Rule(_AS_THEY_ARE),
    "system.source.decryptionRequired": _Rule(_AS_THEY_ARE),
    BROOKLINS_POSITIONS: _Rule("give start_positions at the creation", frozenset({"", "{}"})),
    "system.pausedSourcePartitions": _Rule("pause the partitions once it is there", frozenset({"", "{}"})),
    "system.customCheckpoint": _Rule(
        "positions are always committed to its group.id; leave it out", frozenset({""})
    ),
    "system.usePassthroughCompression": _Rule(
        "batches pass as they are wherever they can: true, or headrace.path = record", frozenset({"", "true"})
    ),
    "system.enableTopicAutoCreation": _Rule(
        "topics are made where they are missing: true, or leave it out", frozenset({"", "true"})
    ),
    "system.uid": _NOTHING,
    "system.cdcBootstrapRequired": _Rule(_NOTHING.advice),
    "system.isBootstrapComplete": _Rule(_NOTHING.advice),
    _EVENT: _NOTHING,
    "system.disableSlaMetric": _Rule("latency is measured of every partition; leave it out"),
    "skipMessageOnSerializationErrors": _Rule("nothing is serialised on the way; see headrace.on-rejection"),
    "throughputViolatingTopics": _Rule("the latency of every topic counts; leave it out", frozenset({""})),
    "partitionFullnessThresholdPct": _Rule("mirror.leader.task_utilisation_percent counts", frozenset({""})),
    "producersPerTask": _Rule("a worker process shares one connection to each broker", frozenset({""})),
}


def refuse_ignored(metadata: Mapping[str, str]) -> None:
    """Raises InvalidRequest for a key that asks for something which is not done."""
    for key, value in metadata.items():
        rule = _RULES.get(_EVENT if key.startswith(_EVENT) else key)
        if rule is not None and value.strip().lower() not in rule.fine:
            raise InvalidRequest(f"metadata {key} is not followed", advice=rule.advice)

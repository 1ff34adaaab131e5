"""Decides how to import each datastream of a Brooklin cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from api.brooklin.restli import RestliConfiguration, datastream_from_restli
from mirror.coordination.brooklin import (
    PAUSED_PARTITIONS,
    BrooklinCluster,
    BrooklinDatastream,
    paused_partitions,
)
from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, PartitionPause, StartPosition
from mirror.model.datastreams.metadata import GROUP_ID, OWNER
from mirror.model.datastreams.policy import GROW_EXISTING
from mirror.model.expressions import LONGEST
from mirror.model.identifiers import ClusterRef

_RESET: Final = "system.auto.offset.reset"
_IDENTITY: Final = "system.destination.identityPartitioningEnabled"
_BROKERS: Final = "system.destination.KafkaBrokers"
_PAUSE_REASON: Final = "paused in Brooklin"
_AN_INTERNAL_TOPIC: Final = "__consumer_offsets"
_NESTED_CLASS: Final = re.compile(
    r"""(?<!\\)(?:\\\\)*  # not escaped
    \[\^?\]?(?:[^\]\[\\]|\\.)*\[""",
    re.VERBOSE,
)
_INTERSECTION: Final = re.compile(r"(?<!\\)(?:\\\\)*\[(?:[^\]\\]|\\.)*&&")
_STATUSES: Final = {
    "INITIALIZING": DatastreamStatus.INITIALIZING,
    "READY": DatastreamStatus.INITIALIZING,
    "PAUSED": DatastreamStatus.PAUSED,
    "STOPPING": DatastreamStatus.STOPPED,
    "STOPPED": DatastreamStatus.STOPPED,
}
_WITHOUT_EFFECT: Final = {
    "system.start.position": "copying starts at committed offsets, else at the beginning of the topic",
    "system.customCheckpoint": "checkpoints are stored in the destination's progress topic",
    "system.event.metadata": "records are copied without additions",
    "system.destination.keySchemaName": "bytes are copied unchanged",
    "system.destination.payloadSchemaName": "bytes are copied unchanged",
    "system.destination.encryptionRequired": "bytes are copied unchanged",
    "system.source.decryptionRequired": "bytes are copied unchanged",
    "skipMessageOnSerializationErrors": "records are not serialised",
    "throughputViolatingTopics": "the monitor judges every topic",
    "partitionFullnessThresholdPct": "mirror.leader.task_utilisation_percent applies",
    "producersPerTask": "a worker process shares one connection to each broker",
}
"""Metadata keys without effect in Headrace, and what Headrace does instead. The definition keeps them."""


class ImportVerdict(StrEnum):
    """Decision on the import of a Brooklin datastream."""

    CREATE = "create"
    PRESENT = "present"
    """The same definition already exists and is not changed."""
    CONFLICT = "conflict"
    """A different definition with this name exists and is not changed."""
    IMPOSSIBLE = "impossible"
    SKIP = "skip"
    """Brooklin is deleting the datastream."""


@dataclass(frozen=True)
class ImportFinding:
    """Decision on the import of one datastream, with its reason.

    Contains the verdict, the definition if it can be imported, and notes for the operator. `status`: initial
    status.
    """

    name: str
    verdict: ImportVerdict
    notes: tuple[str, ...] = ()
    datastream: Datastream | None = None
    status: DatastreamStatus = DatastreamStatus.INITIALIZING

    @property
    def is_trouble(self) -> bool:
        """True if the operator must act."""
        return self.verdict in {ImportVerdict.CONFLICT, ImportVerdict.IMPOSSIBLE}


@dataclass(frozen=True)
class ListTopics:
    """Inputs of the decisions on an import: existing definitions, settings and options.

    `present`: definitions by name. `damaged`: problems of unreadable definitions, by name. `tls`: clusters
    with TLS. `connectors`: names of connectors that mirror Kafka. `transports`: names of transport providers
    that write to Kafka. `paused`: import running datastreams as paused.
    """

    cluster_of_address: Callable[[str], ClusterRef]
    default_destination: ClusterRef
    present: Mapping[str, Datastream]
    tls: frozenset[ClusterRef]
    connectors: frozenset[str]
    transports: frozenset[str]
    owner: str
    paused: bool
    now_ms: int
    damaged: Mapping[str, str] = field(default_factory=dict)


def plan_import(cluster: BrooklinCluster, here: ListTopics) -> tuple[ImportFinding, ...]:
    """Decide on the import of each Brooklin datastream, and return the findings sorted by name."""
    found = [
        ImportFinding(name, ImportVerdict.IMPOSSIBLE, (why,)) for name, why in cluster.unreadable.items()
    ]
    found += [_judged(datastream, here) for datastream in cluster.datastreams]
    routes: dict[str, Datastream] = {datastream.group: datastream for datastream in here.present.values()}
    return tuple(_in_group(verdict, routes) for verdict in sorted(found, key=lambda verdict: verdict.name))


def _judged(brooklin_datastream: BrooklinDatastream, here: ListTopics) -> ImportFinding:
    if brooklin_datastream.status == DatastreamStatus.DELETING:
        return ImportFinding(brooklin_datastream.name, ImportVerdict.SKIP, ("Brooklin is deleting it",))
    try:
        datastream, notes = _carried(brooklin_datastream, here)
    except InvalidRequest as error:
        return ImportFinding(brooklin_datastream.name, ImportVerdict.IMPOSSIBLE, (str(error),))
    status = _STATUSES.get(brooklin_datastream.status)
    if status is None:
        return ImportFinding(
            brooklin_datastream.name,
            ImportVerdict.IMPOSSIBLE,
            (f"unknown status {shown(brooklin_datastream.status)}",),
        )
    if status is DatastreamStatus.INITIALIZING and here.paused:
        status = DatastreamStatus.PAUSED
    if brooklin_datastream.name in here.damaged:
        why = f"the existing definition with this name is damaged: {here.damaged[brooklin_datastream.name]}"
        return ImportFinding(brooklin_datastream.name, ImportVerdict.CONFLICT, (why,), datastream)
    present = here.present.get(brooklin_datastream.name)
    if present is None:
        return ImportFinding(brooklin_datastream.name, ImportVerdict.CREATE, notes, datastream, status)
    if _essence(present) == _essence(datastream):
        return ImportFinding(
            brooklin_datastream.name,
            ImportVerdict.PRESENT,
            (f"already exists, status {present.status}",),
            present,
        )
    return ImportFinding(
        brooklin_datastream.name,
        ImportVerdict.CONFLICT,
        ("a different datastream has this name",),
        datastream,
    )


def _carried(brooklin_datastream: BrooklinDatastream, here: ListTopics) -> tuple[Datastream, tuple[str, ...]]:
    """Return the definition converted to Headrace, and notes for the operator. Raises InvalidRequest if it
    cannot be converted."""
    metadata = dict(brooklin_datastream.metadata)
    metadata.pop("numTasks", None)
    reset = metadata.pop(_RESET, StartPosition.EARLIEST.value)
    pauses = {
        topic: PartitionPause(numbers, _PAUSE_REASON, here.now_ms)
        for topic, numbers in paused_partitions(metadata).items()
    }
    metadata.pop(PAUSED_PARTITIONS, None)
    metadata[GROUP_ID] = brooklin_datastream.group_id
    metadata.setdefault(GROW_EXISTING, "true")  # Brooklin created the topics
    if not metadata.get(OWNER):
        if not here.owner:
            raise InvalidRequest("the datastream has no owner", advice="set one with --owner")
        metadata[OWNER] = here.owner
    _check_expression(_source(brooklin_datastream).rpartition("/")[2])
    document = {
        **brooklin_datastream.document,
        "metadata": metadata,
        "destination": _destination(brooklin_datastream),
    }
    terms = RestliConfiguration(
        here.cluster_of_address, here.default_destination, here.tls, here.connectors, here.transports
    )
    datastream = replace(
        datastream_from_restli(document, terms),
        start=StartPosition.COMMITTED_OR_LATEST if reset == "latest" else StartPosition.COMMITTED,
        pauses=pauses,
    )
    if datastream.expires_ms is not None and datastream.expires_ms <= here.now_ms:
        raise InvalidRequest(
            "the time to live of the datastream has expired", advice="delete the datastream in Brooklin"
        )
    return datastream, tuple(_notes(brooklin_datastream, datastream, reset))


def _source(datastream: BrooklinDatastream) -> str:
    source = datastream.document.get("source")
    return str(source.get("connectionString", "")) if isinstance(source, Mapping) else ""


def _destination(datastream: BrooklinDatastream) -> dict[str, Any]:
    """Return the destination of a datastream as the converted definition contains it.

    If the address is missing, returns the brokers that Brooklin's transport provider recorded in the
    metadata.
    """
    destination = datastream.document.get("destination")
    destination = destination if isinstance(destination, Mapping) else {}
    brokers = datastream.metadata.get(_BROKERS, "")
    if not destination.get("connectionString") and brokers:
        return {"connectionString": f"kafka://{brokers}/*"}
    return dict(destination)


def _check_expression(expression: str) -> None:
    """Raise InvalidRequest for a Java regular expression that has a different meaning in RE2.

    Other meanings apply to nested character classes (a union in Java) and intersections of classes. RE2
    itself rejects all other unsupported syntax.
    """
    why = ""
    if len(expression) <= LONGEST and _NESTED_CLASS.search(expression):
        why = "nested character class"
    elif len(expression) <= LONGEST and _INTERSECTION.search(expression):
        why = "intersection of character classes"
    if why:
        raise InvalidRequest(
            f"Java expression {shown(expression)} has a different meaning in RE2 ({why})",
            advice="create the datastream manually with an equivalent expression",
        )


def _notes(brooklin_datastream: BrooklinDatastream, datastream: Datastream, reset: str) -> Iterable[str]:
    metadata = brooklin_datastream.metadata
    if metadata.get(_IDENTITY, "false").lower() != "true":
        yield "records keep their partition numbers; Brooklin partitioned them by key"
    if reset == "none":
        yield "partitions without a committed offset start at the beginning; Brooklin rejected them"
    if replace(datastream.selection, internal=True).matches(_AN_INTERNAL_TOPIC):
        yield "topics that start with two underscores are excluded; Brooklin copied matching ones"
    if not _destination(brooklin_datastream).get("connectionString"):
        yield f"no destination in the definition: using {datastream.destination}"
    for key, instead in _WITHOUT_EFFECT.items():
        if metadata.get(key) or any(name.startswith(key + ".") for name in metadata):
            yield f"{key} has no effect: {instead}"
    if any(_destination(brooklin_datastream).get(f"{part}SerDe") for part in ("key", "payload", "envelope")):
        yield "serialisers have no effect: bytes are copied unchanged"


def _essence(datastream: Datastream) -> tuple[object, ...]:
    return (
        *_route(datastream),
        datastream.selection,
        datastream.group,
        datastream.consumer_group,
        datastream.limits,
    )


def _route(datastream: Datastream) -> tuple[object, ...]:
    return datastream.source, datastream.destination, datastream.naming


def _in_group(finding: ImportFinding, routes: dict[str, Datastream]) -> ImportFinding:
    """Change the verdict to `impossible` if clusters or topic names differ within the datastream's group."""
    datastream = finding.datastream
    if finding.verdict is not ImportVerdict.CREATE or datastream is None:
        return finding
    first = routes.setdefault(datastream.group, datastream)
    if _route(first) == _route(datastream):
        return finding
    why = f"it shares tasks with {first.name}, which has other clusters or topic names"
    return replace(finding, verdict=ImportVerdict.IMPOSSIBLE, notes=(why, *finding.notes))

"""What becomes of each datastream of a Brooklin cluster here, and what of it cannot be carried. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from api.restli import Terms, datastream_from_restli
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
    "system.start.position": "committed offsets count, and where there are none the topic's beginning",
    "system.customCheckpoint": "checkpoints lie in the destination's progress topic",
    "system.event.metadata": "nothing is added to records",
    "system.destination.keySchemaName": "bytes are copied as they are",
    "system.destination.payloadSchemaName": "bytes are copied as they are",
    "system.destination.encryptionRequired": "bytes are copied as they are",
    "system.source.decryptionRequired": "bytes are copied as they are",
    "skipMessageOnSerializationErrors": "nothing is serialised on the way",
    "throughputViolatingTopics": "the monitor judges every topic",
    "partitionFullnessThresholdPct": "mirror.leader.task_utilisation_percent counts",
    "producersPerTask": "a worker process shares one connection to each broker",
}
"""Metadata that is kept with the definition but does nothing here, and what holds instead."""


class Verdict(StrEnum):
    """What the import does with one datastream."""

    CREATE = "create"
    PRESENT = "present"
    """The same definition is here already; it is left as it is."""
    CONFLICT = "conflict"
    """Another definition of this name is here; it is left as it is."""
    IMPOSSIBLE = "impossible"
    SKIP = "skip"
    """Brooklin is deleting it."""


@dataclass(frozen=True)
class Finding:
    """One datastream: what is done with it, the definition if there can be one, and what a person should
    know. `status`: what it begins with."""

    name: str
    verdict: Verdict
    notes: tuple[str, ...] = ()
    datastream: Datastream | None = None
    status: DatastreamStatus = DatastreamStatus.INITIALIZING

    @property
    def is_trouble(self) -> bool:
        """Whether somebody has to do something about it."""
        return self.verdict in {Verdict.CONFLICT, Verdict.IMPOSSIBLE}


@dataclass(frozen=True)
class TopicDiscovery:
    """What the import needs to know of this side. `present`: definitions by name; `damaged`: what is wrong
    with those that cannot be read, by name; `tls`: clusters that are reached through TLS; `connectors`:
    names of those that mirror Kafka; `transports`: of transport providers that write into Kafka; `paused`:
    everything that runs arrives paused."""

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


def plan_import(cluster: BrooklinCluster, here: TopicDiscovery) -> tuple[Finding, ...]:
    """A finding for each datastream, by name."""
    found = [Finding(name, Verdict.IMPOSSIBLE, (why,)) for name, why in cluster.unreadable.items()]
    found += [_judged(one, here) for one in cluster.datastreams]
    routes: dict[str, Datastream] = {one.group: one for one in here.present.values()}
    return tuple(_in_group(one, routes) for one in sorted(found, key=lambda one: one.name))


def _judged(one: BrooklinDatastream, here: TopicDiscovery) -> Finding:
    if one.status == DatastreamStatus.DELETING:
        return Finding(one.name, Verdict.SKIP, ("Brooklin is deleting it",))
    try:
        datastream, notes = _carried(one, here)
    except InvalidRequest as error:
        return Finding(one.name, Verdict.IMPOSSIBLE, (str(error),))
    status = _STATUSES.get(one.status)
    if status is None:
        return Finding(one.name, Verdict.IMPOSSIBLE, (f"its status is {shown(one.status)}",))
    if status is DatastreamStatus.INITIALIZING and here.paused:
        status = DatastreamStatus.PAUSED
    if one.name in here.damaged:
        why = f"the definition of this name that is here is damaged: {here.damaged[one.name]}"
        return Finding(one.name, Verdict.CONFLICT, (why,), datastream)
    present = here.present.get(one.name)
    if present is None:
        return Finding(one.name, Verdict.CREATE, notes, datastream, status)
    if _essence(present) == _essence(datastream):
        return Finding(one.name, Verdict.PRESENT, (f"it is here already and is {present.status}",), present)
    return Finding(one.name, Verdict.CONFLICT, ("another datastream of this name is here",), datastream)


def _carried(one: BrooklinDatastream, here: TopicDiscovery) -> tuple[Datastream, tuple[str, ...]]:
    """The definition and notes about it. Raises InvalidRequest with what makes it impossible."""
    metadata = dict(one.metadata)
    metadata.pop("numTasks", None)
    reset = metadata.pop(_RESET, StartPosition.EARLIEST.value)
    pauses = {
        topic: PartitionPause(numbers, _PAUSE_REASON, here.now_ms)
        for topic, numbers in paused_partitions(metadata).items()
    }
    metadata.pop(PAUSED_PARTITIONS, None)
    metadata[GROUP_ID] = one.group_id
    metadata.setdefault(GROW_EXISTING, "true")  # Brooklin has made them
    if not metadata.get(OWNER):
        if not here.owner:
            raise InvalidRequest("it has no owner", advice="give one with --owner")
        metadata[OWNER] = here.owner
    _check_expression(_source(one).rpartition("/")[2])
    document = {**one.document, "metadata": metadata, "destination": _destination(one)}
    terms = Terms(
        here.cluster_of_address, here.default_destination, here.tls, here.connectors, here.transports
    )
    datastream = replace(
        datastream_from_restli(document, terms),
        start=StartPosition.COMMITTED_OR_LATEST if reset == "latest" else StartPosition.COMMITTED,
        pauses=pauses,
    )
    if datastream.expires_ms is not None and datastream.expires_ms <= here.now_ms:
        raise InvalidRequest("its time to live is over", advice="delete it in Brooklin")
    return datastream, tuple(_notes(one, datastream, reset))


def _source(one: BrooklinDatastream) -> str:
    source = one.document.get("source")
    return str(source.get("connectionString", "")) if isinstance(source, Mapping) else ""


def _destination(one: BrooklinDatastream) -> dict[str, Any]:
    """As stored, or the brokers that Brooklin's transport provider stamped on it."""
    destination = one.document.get("destination")
    destination = destination if isinstance(destination, Mapping) else {}
    brokers = one.metadata.get(_BROKERS, "")
    if not destination.get("connectionString") and brokers:
        return {"connectionString": f"kafka://{brokers}/*"}
    return dict(destination)


def _check_expression(expression: str) -> None:
    """Brooklin's are Java's. What RE2 reads otherwise is a class within a class, which is a union in Java,
    and an intersection of classes; what it does not read at all it says itself."""
    why = ""
    if len(expression) <= LONGEST and _NESTED_CLASS.search(expression):
        why = "a class holds another"
    elif len(expression) <= LONGEST and _INTERSECTION.search(expression):
        why = "a class is an intersection"
    if why:
        raise InvalidRequest(
            f"topics {shown(expression)} are Java's and mean something else here ({why})",
            advice="create it by hand with another expression for the same topics",
        )


def _notes(one: BrooklinDatastream, datastream: Datastream, reset: str) -> Iterable[str]:
    metadata = one.metadata
    if metadata.get(_IDENTITY, "false").lower() != "true":
        yield "records will keep their partition numbers; Brooklin spread them by key"
    if reset == "none":
        yield "partitions of which nothing is committed will begin at the beginning; Brooklin refused them"
    if replace(datastream.selection, internal=True).matches(_AN_INTERNAL_TOPIC):
        yield "topics that begin with two underscores are left out; Brooklin took those that match"
    if not _destination(one).get("connectionString"):
        yield f"it names no destination: it goes to {datastream.destination}"
    for key, instead in _WITHOUT_EFFECT.items():
        if metadata.get(key) or any(name.startswith(key + ".") for name in metadata):
            yield f"{key} has no effect: {instead}"
    if any(_destination(one).get(f"{part}SerDe") for part in ("key", "payload", "envelope")):
        yield "serialisers have no effect: bytes are copied as they are"


def _essence(one: Datastream) -> tuple[object, ...]:
    return (*_route(one), one.selection, one.group, one.consumer_group, one.limits)


def _route(one: Datastream) -> tuple[object, ...]:
    return one.source, one.destination, one.naming


def _in_group(finding: Finding, routes: dict[str, Datastream]) -> Finding:
    """Datastreams that share tasks must share clusters and names. The first of a group decides."""
    datastream = finding.datastream
    if finding.verdict is not Verdict.CREATE or datastream is None:
        return finding
    first = routes.setdefault(datastream.group, datastream)
    if _route(first) == _route(datastream):
        return finding
    why = f"it shares tasks with {first.name}, which copies other clusters or under other names"
    return replace(finding, verdict=Verdict.IMPOSSIBLE, notes=(why, *finding.notes))

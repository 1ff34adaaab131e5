"""Brooklin's wire form of a datastream (Rest.li): JSON to and from `Datastream`. Pure.

Facts: the source is `kafka://host:port[,…]/<regex>`, the regex being everything after the last
slash; a destination is `kafka://host:port[,…]/<name with *>`; `Status` has a capital S; all
metadata values are strings; unset fields are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.errors import InvalidRequest
from mirror.model.bounds import choice, digits, shown
from mirror.model.datastreams.datastream import Datastream, StartPosition
from mirror.model.expressions import joined_look_ahead
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.load import TaskLimits
from mirror.model.topics import (
    MOST_PARTITIONS,
    PLACEHOLDER,
    TopicNaming,
    TopicSelection,
    selection_without_look_ahead,
)

CONNECTOR: Final = "system.connectorName"
OUR_CONNECTOR: Final = "headrace"
"""Of datastreams that were not created by Brooklin's interface."""
TRANSPORT: Final = "system.transportProviderName"
PREFIX: Final = "system.destination.destinationTopicPrefix"
_START: Final = "system.auto.offset.reset"
_TASK_COUNT: Final = "numTasks"
_TLS: Final = "kafkassl://"
_SCHEMES: Final = ("kafka://", _TLS)


@dataclass(frozen=True)
class Terms:
    """What a definition is read with. `tls`: clusters that are reached through TLS; `connectors`: names that
    stand for mirroring Kafka."""

    cluster_of_address: Callable[[str], ClusterRef]
    default_destination: ClusterRef
    tls: Collection[ClusterRef]
    connectors: Collection[str]


def datastream_from_restli(document: Mapping[str, Any], terms: Terms) -> Datastream:
    """A definition as a Brooklin client sends it. Raises InvalidRequest that names the field."""
    for field in ("name", "connectorName", "source", "metadata"):
        if not document.get(field):
            raise InvalidRequest(f"Must specify {field}")
    metadata = _metadata(document["metadata"])
    source, pattern = _split(_connection(document["source"], "source"), "source")
    place = document.get("destination") or {}
    destination, template = cluster_address(place)
    prefix = metadata.get(PREFIX, "")
    metadata[CONNECTOR] = _connector(document["connectorName"], terms)
    if document.get("transportProviderName"):
        metadata[TRANSPORT] = _text(document["transportProviderName"], "transportProviderName")
    return Datastream(
        name=DatastreamName(_text(document["name"], "name").strip()),
        source=_cluster(source, "source", document["source"], terms),
        selection=selection_without_look_ahead(pattern, "", False),
        destination=_cluster(destination, "destination", place, terms),
        naming=TopicNaming(template if template != PLACEHOLDER else prefix + PLACEHOLDER),
        start=_start(metadata),
        limits=_limits(metadata),
        metadata=metadata,
    )


def _connector(value: object, terms: Terms) -> str:
    name = _text(value, "connectorName")
    if name not in terms.connectors:
        raise InvalidRequest(
            f"Invalid connector: {shown(name)}",
            advice=f"known are {', '.join(sorted(terms.connectors))}; others that mirror Kafka"
            " are named in the setting api.connector_names",
        )
    return name


def _cluster(address: str, role: str, place: object, terms: Terms) -> ClusterRef:
    if not address:
        return terms.default_destination
    cluster = terms.cluster_of_address(address)
    if _connection(place, role).startswith(_TLS) and cluster not in terms.tls:
        raise InvalidRequest(
            f"its {role} {shown(cluster)} is reached through TLS, of which nothing is configured",
            advice="add the cluster under [clusters] with security.protocol = SSL",
        )
    return cluster


def datastream_to_restli(
    datastream: Datastream, address_of_cluster: Callable[[ClusterRef], str]
) -> dict[str, Any]:
    """The definition as a Brooklin client expects it."""
    metadata = dict(datastream.metadata)
    connector = metadata.pop(CONNECTOR, OUR_CONNECTOR)
    transport = metadata.pop(TRANSPORT, "")
    transport_field = {"transportProviderName": transport} if transport else {}
    source = f"kafka://{address_of_cluster(datastream.source)}/{_pattern(datastream.selection)}"
    destination = f"kafka://{address_of_cluster(datastream.destination)}/{datastream.naming.template}"
    return {
        "name": datastream.name,
        "connectorName": connector,
        **transport_field,
        "source": {"connectionString": source},
        "destination": {"connectionString": destination},
        "Status": datastream.status.value,
        "metadata": metadata,
    }


def damaged_to_restli(damaged: DamagedDefinition) -> dict[str, Any]:
    """A definition that cannot be read, with what a Brooklin client needs to list and delete it: without a
    status, since none of Brooklin's is true."""
    return {
        "name": damaged.name,
        "connectorName": OUR_CONNECTOR,
        "source": {"connectionString": ""},
        "metadata": {"headrace.problem": damaged.problem},
    }


def _pattern(selection: TopicSelection) -> str:
    """Brooklin has one expression, so what is left out becomes a look-ahead."""
    if not selection.exclude:
        return selection.include
    return joined_look_ahead(selection.include, selection.exclude)


def text_field(document: Mapping[str, Any], field: str) -> str:
    """Text that a request must have under this name. Raises InvalidRequest."""
    return _text(document.get(field, ""), field)


def cluster_address(destination: object) -> tuple[str, str]:
    """Address and name template of a destination that may be empty. Raises InvalidRequest."""
    text = _connection(destination, "destination")
    return _split(text, "destination") if text else ("", PLACEHOLDER)


def _connection(value: object, role: str) -> str:
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{role} must be an object with a connectionString")
    return _text(value.get("connectionString", ""), f"{role}.connectionString")


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{field} must be text, not {shown(value)}")
    return value


def _split(connection: str, role: str) -> tuple[str, str]:
    for scheme in _SCHEMES:
        if connection.startswith(scheme):
            address, slash, rest = connection.removeprefix(scheme).rpartition("/")
            if slash and address and rest:
                return address, rest
    raise InvalidRequest(
        f"{role} {shown(connection)} is not kafka://host:port/<topics>",
        advice="for example kafka://broker:9092/^(orders|users)$",
    )


def _metadata(given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidRequest("metadata must map strings to strings")
    if _TASK_COUNT in given:
        raise InvalidRequest(
            f"metadata {_TASK_COUNT} is the service's to say", advice="give minTasks and maxTasks"
        )
    return dict(given)


def _start(metadata: Mapping[str, str]) -> StartPosition:
    return choice(f"metadata {_START}", StartPosition, metadata.get(_START, StartPosition.EARLIEST.value))


def _limits(metadata: Mapping[str, str]) -> TaskLimits:
    def number(key: str) -> int | None:
        text = metadata.get(key)
        if text is None or text == "":
            return None
        return digits(f"metadata {key}", text, 1, MOST_PARTITIONS)

    return TaskLimits(
        min_tasks=number("minTasks") or 1,
        max_tasks=number("maxTasks"),
        max_partitions_per_task=number("partitionsPerTask"),
    )

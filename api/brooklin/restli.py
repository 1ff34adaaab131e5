"""Converts Brooklin's JSON of a datastream (Rest.li) to and from `Datastream`. Pure.

Brooklin's server adds metadata when it creates a datastream. Headrace adds the same metadata when it shows a
datastream, because it follows from the definition. Format: the source is `kafka://host:port[,…]/<regex>`,
where everything after the last slash is the regular expression; a destination is `kafka://host:port[,…]/<name
with *>`; `Status` has a capital S; all metadata values are strings; unset fields are omitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

from api.brooklin.metadata_keys import (
    BROOKLINS_POSITIONS,
    LIMITS,
    PREFIX,
    limits_of,
    refuse_ignored,
    start_of,
)
from mirror.coordination.brooklin import PAUSED_PARTITIONS
from mirror.coordination.stores.definitions import DamagedDefinition
from mirror.errors import InvalidRequest
from mirror.model.bounds import LONGEST_NAME, shown
from mirror.model.datastreams.change import FieldProblems, WantedDefinition, changed
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import BROKERS, GROUP_ID, MANAGED, OWNER, TASK_PREFIX
from mirror.model.datastreams.secrets import kept_secrets, without_secrets
from mirror.model.datastreams.start_positions import START_POSITIONS, read_positions
from mirror.model.documents import pointer_to
from mirror.model.expressions import joined_look_ahead
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import (
    PLACEHOLDER,
    TopicNaming,
    TopicSelection,
    selection_without_look_ahead,
)

CONNECTOR: Final = "system.connectorName"
OUR_CONNECTOR: Final = "headrace"
"""Connector name of datastreams that were not created through Brooklin's interface."""
TRANSPORT: Final = "system.transportProviderName"
_TASK_COUNT: Final = "numTasks"
_IDS: Final = "ids="
_LIST: Final = ("List(", ")")
_SAME: Final = {
    "Status": "status",
    "connectorName": "connector",
    "transportProviderName": "transport provider",
}
"""Fields that an update must repeat unchanged, and Brooklin's names of these fields."""
_TLS: Final = "kafkassl://"
_SCHEMES: Final = ("kafka://", _TLS)


class UnknownConnector(InvalidRequest):
    """Raised for an unknown connector, or a connector that does not mirror Kafka."""


class UnknownTransport(InvalidRequest):
    """Raised for an unknown transport provider, or a provider that does not write to Kafka."""


@dataclass(frozen=True)
class RestliConfiguration:
    """Names and clusters that a definition may contain. `tls`: clusters to which Headrace connects with TLS.
    `connectors`: names of connectors that mirror Kafka. `transports`: names of transport providers that write
    to Kafka."""

    cluster_of_address: Callable[[str], ClusterRef]
    default_destination: ClusterRef
    tls: Collection[ClusterRef]
    connectors: Collection[str]
    transports: Collection[str]


def datastream_from_restli(document: Mapping[str, Any], terms: RestliConfiguration) -> Datastream:
    """Parse a definition as sent by a Brooklin client. Raises InvalidRequest, which names the field."""
    if not document.get("name"):
        raise InvalidRequest("invalid datastream name", advice="Must specify name")
    for field in ("connectorName", "source", "metadata"):
        if not document.get(field):
            raise InvalidRequest(f"Must specify {field}")
    metadata = _metadata(document["metadata"])
    if not metadata.get(OWNER):
        raise InvalidRequest("missing or invalid owner", advice='give metadata {"owner": "your team"}')
    source, pattern = _split(_connection(document["source"], "source"), "source")
    start = start_of(metadata)
    place = document.get("destination") or {}
    destination, template = cluster_address(place)
    prefix = metadata.get(PREFIX, "")
    _take_positions(metadata)
    metadata[CONNECTOR] = _connector(document["connectorName"], terms)
    if document.get("transportProviderName"):
        metadata[TRANSPORT] = _transport(document["transportProviderName"], terms)
    return Datastream(
        name=DatastreamName(_text(document["name"], "name").strip()),
        source=_cluster(source, "source", document["source"], terms),
        selection=selection_without_look_ahead(pattern, "", False),
        destination=_cluster(destination, "destination", place, terms),
        naming=TopicNaming(template if template != PLACEHOLDER else prefix + PLACEHOLDER),
        start=start.position,
        start_ms=start.at_ms,
        limits=limits_of(metadata),
        metadata=metadata,
    )


def _connector(value: object, terms: RestliConfiguration) -> str:
    name = _text(value, "connectorName")
    if name not in terms.connectors:
        raise UnknownConnector(
            f"Invalid connector: {plain(name)}",
            advice=f"known connectors: {', '.join(sorted(terms.connectors))}; add others that mirror Kafka to"
            " api.connector_names",
        )
    return name


def _transport(value: object, terms: RestliConfiguration) -> str:
    name = _text(value, "transportProviderName")
    if name not in terms.transports:
        raise UnknownTransport(
            f'Transport provider "{plain(name)}" is undefined',
            advice=f"known transport providers: {', '.join(sorted(terms.transports))}; add others that write"
            " to Kafka to api.transport_provider_names",
        )
    return name


def _cluster(address: str, role: str, place: object, terms: RestliConfiguration) -> ClusterRef:
    if not address:
        return terms.default_destination
    cluster = terms.cluster_of_address(address)
    if _connection(place, role).startswith(_TLS) and cluster not in terms.tls:
        raise InvalidRequest(
            f"the {role} {shown(cluster)} requires TLS, which is not configured for the cluster",
            advice="add the cluster under [clusters] with security.protocol = SSL",
        )
    return cluster


def datastream_to_restli(
    datastream: Datastream, address_of_cluster: Callable[[ClusterRef], str]
) -> dict[str, Any]:
    """Return the definition in Brooklin's format, without secrets."""
    brokers = address_of_cluster(datastream.destination)
    metadata = {**without_secrets(datastream.metadata), **_limit_keys(datastream), **_pause_keys(datastream)}
    metadata |= _stamps(datastream, brokers)
    if positions := metadata.pop(START_POSITIONS, ""):
        metadata[BROOKLINS_POSITIONS] = positions
    connector = metadata.pop(CONNECTOR, OUR_CONNECTOR)
    transport = metadata.pop(TRANSPORT, "")
    transport_field = {"transportProviderName": transport} if transport else {}
    source = f"kafka://{address_of_cluster(datastream.source)}/{_pattern(datastream.selection)}"
    destination = f"kafka://{brokers}/{_template(datastream)}"
    return {
        "name": datastream.name,
        "connectorName": connector,
        **transport_field,
        "source": {"connectionString": source},
        "destination": {"connectionString": destination},
        "Status": datastream.status.value,
        "metadata": metadata,
    }


def _stamps(datastream: Datastream, brokers: str) -> dict[str, str]:
    """Return the metadata keys that Brooklin's server would add to a datastream."""
    return {
        GROUP_ID: datastream.consumer_group,
        TASK_PREFIX: datastream.group,
        BROKERS: brokers,
        MANAGED: "true",
    }


def _template(datastream: Datastream) -> str:
    """Return the name template of the destination. The prefix is removed if the metadata contains it."""
    template = datastream.naming.template
    is_prefixed = template == datastream.metadata.get(PREFIX, "") + PLACEHOLDER
    return PLACEHOLDER if is_prefixed else template


def damaged_to_restli(damaged: DamagedDefinition) -> dict[str, Any]:
    """Return the parts of an unreadable definition that a client needs to list and delete it.

    The result has no status, because none of Brooklin's statuses applies.
    """
    return {
        "name": damaged.name,
        "connectorName": OUR_CONNECTOR,
        "source": {"connectionString": ""},
        "metadata": {"headrace.problem": damaged.problem},
    }


def _pattern(selection: TopicSelection) -> str:
    """Return one regular expression that describes which topics the datastream selects.

    Brooklin has no exclusions: excluded topics become a negative look-ahead.
    """
    if not selection.exclude:
        return selection.include
    return joined_look_ahead(selection.include, selection.exclude)


def plain(value: object) -> str:
    """Return a value as Brooklin's messages contain it.

    Long values and values with special characters are quoted and truncated.
    """
    is_harmless = isinstance(value, str) and value.isprintable() and len(value) <= LONGEST_NAME
    return str(value) if is_harmless else shown(value)


def cluster_address(destination: object) -> tuple[str, str]:
    """Return the broker address and the name template in a destination. Raises InvalidRequest. The defaults
    of an empty destination are no address and the placeholder."""
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
        f"{plain(connection)} is not a valid kafka connection string",
        advice=f"example of a {role}: kafka://broker:9092/^(orders|users)$",
    )


def _metadata(given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidRequest("metadata must map strings to strings")
    if _TASK_COUNT in given:
        raise InvalidRequest(
            f"metadata {_TASK_COUNT} is set by the service", advice="set minTasks and maxTasks"
        )
    return dict(given)


def _take_positions(metadata: dict[str, str]) -> None:
    """Replace Brooklin's metadata key of start positions with Headrace's. Raises InvalidRequest."""
    positions = read_positions(f"metadata {BROOKLINS_POSITIONS}", metadata.get(BROOKLINS_POSITIONS, ""))
    if positions.offsets:
        del metadata[BROOKLINS_POSITIONS]
        metadata[START_POSITIONS] = positions.text


def _limit_keys(datastream: Datastream) -> dict[str, str]:
    """Return the current task limits as Brooklin's metadata keys; empty if the metadata already contains
    them."""
    limits, metadata = datastream.limits, datastream.metadata
    numbers = {key: getattr(limits, field) for key, field in LIMITS.items()}
    try:
        are_said = limits_of(metadata) == limits
    except InvalidRequest:
        are_said = False
    return {} if are_said else {key: "" if number is None else str(number) for key, number in numbers.items()}


def _pause_keys(datastream: Datastream) -> dict[str, str]:
    """Return the metadata key with the paused partitions in Brooklin's form, which maps topics to lists of
    strings."""
    pauses = {
        topic: ["*"] if pause.numbers is None else [str(number) for number in sorted(pause.numbers)]
        for topic, pause in sorted(datastream.pauses.items())
    }
    return {PAUSED_PARTITIONS: json.dumps(pauses, separators=(",", ":"))} if pauses else {}


def batch_keys(query: str, version: str) -> tuple[str, ...]:
    """Return the keys of a batch request from its raw query. Raises InvalidRequest.

    Protocol 2 uses `ids=List(a,b)`, where brackets and commas within a key are percent-encoded. Older
    protocols use `ids=a&ids=b`.
    """
    found = [pair.removeprefix(_IDS) for pair in query.split("&") if pair.startswith(_IDS)]
    if version.startswith("2"):
        begin, end = _LIST
        text = found[0] if len(found) == 1 else ""
        if not text.startswith(begin) or not text.endswith(end):
            raise InvalidRequest("ids must be a list", advice="write ids=List(first,second)")
        inside = text.removeprefix(begin).removesuffix(end)
        keys = [unquote(part) for part in inside.split(",")] if inside else []
    else:
        keys = [unquote_plus(encoded) for encoded in found]
    if len(set(keys)) < len(keys):
        raise InvalidRequest("duplicate key in ids")
    return tuple(keys)


def datastream_changed_by(
    present: Datastream,
    document: Mapping[str, Any],
    cluster_of_address: Callable[[str], ClusterRef],
    address_of_cluster: Callable[[ClusterRef], str],
) -> Datastream:
    """Return the current definition updated from the request of a Brooklin client.

    The request contains the whole definition. Properties that Brooklin's interface does not show (the
    objective, the selection of internal topics) are kept. Raises InvalidRequest, RefusedFields.
    """
    known = datastream_to_restli(present, address_of_cluster)
    failed = f"Failed to update {present.name}"
    if document.get("name") != present.name:
        raise InvalidRequest(f"{failed} because datastream name doesn't match")
    for field, description in _SAME.items():
        given = document.get(field)
        if given != known.get(field):
            raise InvalidRequest(f"{failed}. Can't update {description} in update request: {shown(given)}")
    place = _connection(document.get("destination") or {}, "destination")
    if not place:
        raise InvalidRequest(f"{failed}. Can't update destination in update request")
    problems = FieldProblems()
    given = kept_secrets(_metadata(document.get("metadata")), present.metadata)
    metadata = _changed_metadata(present, given, known["metadata"], problems)
    source, pattern = _split(_connection(document.get("source"), "source"), "source")
    fixed: dict[str, object] = {"/source/cluster": cluster_of_address(source)}
    selection = _changed_selection(present.selection, pattern, problems)
    limits = problems.attempt("/metadata", partial(limits_of, metadata), present.limits)
    if place != known["destination"]["connectionString"]:
        destination, template = _split(place, "destination")
        prefix = present.metadata.get(PREFIX, "") if template == PLACEHOLDER else ""
        fixed["/destination/cluster"] = cluster_of_address(destination)
        fixed["/destination/name"] = problems.attempt(
            "/destination/name", lambda: TopicNaming(prefix + template), None
        )
    wanted = WantedDefinition(selection, limits, present.objective, metadata, fixed)
    return changed(present, wanted, problems)


def _changed_metadata(
    present: Datastream, given: Mapping[str, str], known: Mapping[str, str], problems: FieldProblems
) -> dict[str, str]:
    """Return the metadata to store after an update through Brooklin's interface: without keys that the
    interface derives from the definition, and with keys that the interface shows as separate fields."""
    metadata = {}
    for key, value in given.items():
        is_stated = key not in present.metadata and known.get(key) == value
        if key == PAUSED_PARTITIONS and value not in ("", "{}", known.get(key)):
            problems.refuse(
                pointer_to(["metadata", key]), "use pauseSourcePartitions and resumeSourcePartitions"
            )
        elif key != PAUSED_PARTITIONS and (not is_stated or key in LIMITS):
            metadata[key] = value
            if value != present.metadata.get(key):
                problems.attempt(pointer_to(["metadata", key]), partial(refuse_ignored, {key: value}), None)
    fields = {CONNECTOR, TRANSPORT, START_POSITIONS} & present.metadata.keys()
    return {**metadata, **{key: present.metadata[key] for key in fields}}


def _changed_selection(present: TopicSelection, pattern: str, problems: FieldProblems) -> TopicSelection:
    """Return the topic selection for the pattern in an update. A pattern equal to the current one keeps the
    current selection, because a pattern combines included and excluded topics."""
    if pattern == _pattern(present):
        return present
    chosen = problems.attempt(
        "/source/topics", lambda: selection_without_look_ahead(pattern, "", present.internal), present
    )
    return replace(chosen, internal=present.internal)

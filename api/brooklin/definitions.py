"""Datastreams as they come in through Brooklin's interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from api.brooklin.actions import REST
from api.ignored import refuse_ignored
from api.restli import Terms, datastream_from_restli
from api.services import Services
from mirror.coordination.brooklin import PAUSED_PARTITIONS, paused_partitions
from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, Halt
from mirror.model.datastreams.metadata import BROKERS, CREATED_MS, GROUP_ID, MANAGED, TASK_PREFIX, UUID
from mirror.model.datastreams.pauses import paused

_REASON: Final = PAUSED_PARTITIONS


def definition_of(document: Mapping[str, Any], services: Services) -> Datastream:
    """The definition that a client sends, without what the service itself says of it. Raises InvalidRequest
    also for metadata that would not be followed."""
    terms = Terms(
        services.cluster_of_address, services.default_destination, services.tls, services.connectors
    )
    datastream = datastream_from_restli(document, terms)
    brokers = datastream.metadata.get(BROKERS, "")
    if brokers and services.cluster_of_address(brokers) != datastream.destination:
        raise InvalidRequest(
            f"metadata {BROKERS} is {shown(brokers)}, which is not the destination",
            advice="name another destination as destination.connectionString, and leave this key out",
        )
    metadata = without_stamps(datastream)
    pauses = paused_partitions(metadata)
    metadata.pop(PAUSED_PARTITIONS, None)
    refuse_ignored(metadata)
    return replace(
        datastream,
        metadata=metadata,
        pauses=paused({}, pauses, Halt(_REASON, services.clock.now_ms(), REST)),
    )


def without_stamps(datastream: Datastream) -> dict[str, str]:
    """Its metadata without what `api.restli` adds when it is shown: reading, changing and writing back a
    definition adds nothing to it."""
    said = {BROKERS: datastream.metadata.get(BROKERS), MANAGED: "true"}
    said |= {TASK_PREFIX: datastream.name, GROUP_ID: datastream.name}
    return {key: value for key, value in datastream.metadata.items() if said.get(key) != value}


def is_repeated(asked: Datastream, stored: Datastream) -> bool:
    """Whether a creation is the one that was carried out already, its answer having been lost: Brooklin's
    client gives each creation an identity of its own."""
    identity = asked.metadata.get(UUID, "")
    return bool(identity) and identity == stored.metadata.get(UUID) and _wish(asked) == _wish(stored)


def _wish(datastream: Datastream) -> Datastream:
    """What a person decides of a datastream; not what has become of it."""
    metadata = {key: value for key, value in datastream.metadata.items() if key != CREATED_MS}
    return replace(datastream, metadata=metadata, status=DatastreamStatus.INITIALIZING, pauses={}, halt=None)

"""Parsing of datastreams created through Brooklin's interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from api.brooklin.actions import REST
from api.ignored import refuse_ignored
from api.restli import RestliConfiguration, datastream_from_restli
from api.services import Services
from mirror.coordination.brooklin import PAUSED_PARTITIONS, paused_partitions
from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.datastreams.creation import Creation, creation_of
from mirror.model.datastreams.datastream import Datastream, Halt
from mirror.model.datastreams.metadata import BROKERS, GROUP_ID, MANAGED, TASK_PREFIX, UUID
from mirror.model.datastreams.pauses import paused

_REASON: Final = PAUSED_PARTITIONS


def definition_of(document: Mapping[str, Any], services: Services) -> Datastream:
    """Parse the definition sent by a client and drop metadata that the service derives itself. Raises
    InvalidRequest, also for unsupported metadata."""
    terms = RestliConfiguration(
        services.cluster_of_address,
        services.default_destination,
        services.tls,
        services.connectors,
        services.transports,
    )
    datastream = datastream_from_restli(document, terms)
    brokers = datastream.metadata.get(BROKERS, "")
    if brokers and services.cluster_of_address(brokers) != datastream.destination:
        raise InvalidRequest(
            f"metadata {BROKERS} is {shown(brokers)}, which is not the destination",
            advice="set destination.connectionString and remove this key",
        )
    metadata = without_stamps(datastream)
    pauses = paused_partitions(metadata)
    metadata.pop(PAUSED_PARTITIONS, None)
    refuse_ignored(metadata)
    return replace(
        datastream,
        metadata=metadata,
        pauses=paused({}, pauses, Halt(_REASON, services.clock.now_ms(), REST)),
        creation=_creation(document, datastream, services.control.caller.name),
    )


def without_stamps(datastream: Datastream) -> dict[str, str]:
    """Return the metadata without the keys that `api.restli` adds to responses, so that reading, changing and
    writing back a definition adds nothing."""
    stamps = {BROKERS: datastream.metadata.get(BROKERS), MANAGED: "true"}
    stamps |= {TASK_PREFIX: datastream.name, GROUP_ID: datastream.name}
    return {key: value for key, value in datastream.metadata.items() if stamps.get(key) != value}


def _creation(document: Mapping[str, Any], datastream: Datastream, principal: str) -> Creation | None:
    """Return the idempotency record of a creation. Brooklin's client assigns each creation an id and repeats
    it in retries. The name is part of the key, because a definition that was read and is created under
    another name carries the id of the original."""
    identity = datastream.metadata.get(UUID, "")
    if not identity:
        return None
    return creation_of(UUID, f"{identity} {datastream.name}", document, principal)

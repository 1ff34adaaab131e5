"""Builds the canaries that the monitor watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.clusters.directory import ClusterDirectory
from headrace.console.client import RestClient
from mirror.adapters.kafka.loop_thread import shared_loop
from mirror.control.handlers import Control
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicNaming
from monitor.adapters.canary_probe import CanaryEnd, CanaryProbe
from monitor.canary.canary_watch import CanaryPath, Paths


def probes_of(directory: ClusterDirectory) -> Callable[[CanaryPath], CanaryProbe]:
    """Return a function that builds the probe of a canary, given its path from source to destination.

    The function raises ConfigError if the directory does not permit a cluster of the path.
    """

    def open_probe(path: CanaryPath) -> CanaryProbe:
        source = CanaryEnd(directory.resolve(path.source), path.topic)
        destination = CanaryEnd(directory.resolve(path.destination), path.copy)
        return CanaryProbe(source, destination, shared_loop())

    return open_probe


def own_paths(control: Control) -> Paths:
    """Return a function that lists the canary paths of the service to which this instance belongs."""

    def paths() -> Mapping[DatastreamName, CanaryPath]:
        return {
            datastream.name: CanaryPath.of(
                datastream.name, datastream.source, datastream.destination, datastream.naming
            )
            for datastream in (stored.datastream for stored in control.list().readable)
            if datastream.status is DatastreamStatus.READY and datastream.selection.canary
        }

    return paths


def rest_paths(rest: RestClient) -> Paths:
    """Return a function that lists the canary paths of a service, read over REST."""

    def paths() -> Mapping[DatastreamName, CanaryPath]:
        return {
            DatastreamName(definition["name"]): path_of_definition(definition)
            for definition in rest.get("/v1/datastreams")
            # Instances of older versions have no canaries.
            if definition["status"] == DatastreamStatus.READY and definition.get("canary")
        }

    return paths


def path_of_definition(definition: Mapping[str, Any]) -> CanaryPath:
    """Return the path of a datastream's canary. `definition`: definition in the format of /v1."""
    destination = definition["destination"]
    return CanaryPath.of(
        definition["name"],
        ClusterRef(definition["source"]["cluster"]),
        ClusterRef(destination["cluster"]),
        TopicNaming(destination["name"]),
    )

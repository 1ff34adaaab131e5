"""Reads and changes the datastreams of a cluster pair through the REST interface."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from api.resources.datastreams.datastream_models import DatastreamBody
from headrace.console.client import RestClient
from headrace.console.datastreams.conditions import unmet_condition
from headrace.console.resources import DATASTREAMS, WaitCondition, path_of
from mirror.errors import AlreadyExists, NotFound, Refused, TimedOut
from mirror.jobs.dr.fork import PartitionOffsets
from mirror.jobs.dr.operation import AuditedTopic
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.topics import TopicNaming


class PairDatastreams:
    """REST client for the datastreams of a cluster pair. All methods raise Unreachable and the errors of the
    service.

    `cause`: reason and requester, recorded with each change.
    """

    def __init__(self, client: RestClient, cause: Mapping[str, str]) -> None:
        self._client = client
        self._cause = dict(cause)

    def definitions(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Map each of the pair's datastreams to its definition. Raises NotFound."""
        return {name: self._client.get(path_of(name)) for name in names}

    def lag(self, name: str) -> Mapping[str, Any]:
        """Return the response of `GET /v1/datastreams/{name}/lag`."""
        found: Mapping[str, Any] = self._client.get(f"{path_of(name)}/lag")
        return found

    def instances(self) -> list[Mapping[str, Any]]:
        """Return the response of `GET /v1/instances`."""
        found: list[Mapping[str, Any]] = self._client.get("/v1/instances")
        return found

    def audits(self, name: str) -> list[AuditedTopic]:
        """Map each topic of a datastream to the state of its continuous audit; empty if the audit is off."""
        found = self._client.get("/v1/audits", datastream=name)
        return [
            AuditedTopic(
                topic=audit["topic"],
                through_ms=audit["complete_through_ms"],
                faults=sum(fault["records"] for fault in audit["faults"]),
                more_faults=audit["more_faults"],
                problem=audit["problem"],
            )
            for audit in found["topics"]
        ]

    def require(self, name: str, condition: WaitCondition) -> None:
        """Raise TimedOut unless a datastream meets a condition."""
        if unmet := unmet_condition(self._client, path_of(name), condition, 0):
            raise TimedOut(f"datastream {name} is not {condition}: {unmet}")

    def require_lag_below(self, name: str, seconds: float) -> None:
        """Raise TimedOut unless the oldest uncopied record of a datastream is younger than `seconds`."""
        found = self.lag(name)
        if found["lag_records"] == 0:
            return
        if found["lag_ms"] is None:
            raise TimedOut(f"the lag of datastream {name} is unknown")
        if found["lag_ms"] > seconds * 1000:
            raise TimedOut(f"datastream {name} is {found['lag_ms'] / 1000:.1f} s behind")

    def stop(self, names: Collection[str]) -> None:
        """Stop datastreams. Raises TimedOut if one has not stopped yet."""
        for name in names:
            if self._client.get(path_of(name))["status"] not in ("STOPPED", "STOPPING"):
                self._client.begin("POST", f"{path_of(name)}/stop", self._cause)
        self._require_all(names, WaitCondition.STOPPED)

    def resume(self, name: str) -> None:
        """Resume a stopped datastream. Raises TimedOut if it has not stopped yet."""
        status = self._client.get(path_of(name))["status"]
        if status == "STOPPING":
            raise TimedOut(f"datastream {name} is stopping")
        if status != "READY":
            self._client.post(f"{path_of(name)}/resume", self._cause)

    def create(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Create the datastreams that do not exist. Raises TimedOut if one is not running yet."""
        names = []
        for body in bodies:
            names.append(str(body["name"]))
            try:
                self._client.get(path_of(names[-1]))
            except NotFound:
                with contextlib.suppress(AlreadyExists):
                    self._client.create(DATASTREAMS, body, **self._cause)
        self._require_all(names, WaitCondition.RUNNING)

    def delete(self, names: Collection[str]) -> None:
        """Delete the datastreams that exist. Raises TimedOut if one is not deleted yet."""
        for name in names:
            with contextlib.suppress(NotFound):
                if self._client.get(path_of(name))["status"] != "DELETING":
                    self._client.begin("DELETE", path_of(name), **self._cause)
        self._require_all(names, WaitCondition.DELETED)

    def _require_all(self, names: Iterable[str], condition: WaitCondition) -> None:
        for name in names:
            self.require(name, condition)


def require_direction(definition: Mapping[str, Any], origin: str, target: str) -> None:
    """Raise Refused unless a datastream copies from `origin` to `target` without renaming topics."""
    name = definition["name"]
    ways = definition["source"]["cluster"], definition["destination"]["cluster"]
    if ways != (origin, target):
        raise Refused(f"datastream {name} copies from {ways[0]} to {ways[1]}, not from {origin} to {target}")
    if TopicNaming(definition["destination"]["name"]).destination("topic") != "topic":
        raise Refused(
            f"the topics of datastream {name} have other names at {target}, so clients would not find them",
            advice="create the datastream without --rename",
        )


def body_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request body that creates a datastream with this definition."""
    return {key: value for key, value in definition.items() if key in DatastreamBody.model_fields}


def opposite(definition: Mapping[str, Any], name: str, starts: PartitionOffsets) -> dict[str, Any]:
    """Return the request body that creates a datastream from the destination to the source of this one.

    `starts`: start offsets.

    The task prefix is removed, because datastreams that share tasks must store their progress on the same
    cluster.
    """
    source, destination = definition["source"], definition["destination"]
    metadata = {key: value for key, value in definition["metadata"].items() if key != TASK_PREFIX}
    return {
        **body_of(definition),
        "name": name,
        "source": {**source, "cluster": destination["cluster"]},
        "destination": {**destination, "cluster": source["cluster"]},
        "metadata": metadata,
        "start": "earliest",
        "start_positions": {
            topic: {str(number): offset for number, offset in offsets.items()}
            for topic, offsets in starts.items()
        },
    }

"""Connectors and tasks of an instance for Brooklin's /health. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from api.restli import OUR_CONNECTOR, datastream_to_restli
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, GroupName, TaskName


def connectors_of(
    lanes: Sequence[LaneStatus],
    datastreams: Sequence[Datastream],
    address_of_cluster: Callable[[ClusterRef], str],
) -> list[dict[str, Any]]:
    """Return the tasks of an instance by connector. `datastreams`: all datastreams, as last read by the
    instance."""
    members: dict[GroupName, list[Datastream]] = {}
    for datastream in datastreams:
        members.setdefault(datastream.group, []).append(datastream)
    tasks: dict[TaskName, list[LaneStatus]] = {}
    for state in lanes:
        tasks.setdefault(state.spec.task, []).append(state)
    found: dict[str, list[dict[str, Any]]] = {}
    for task, states in sorted(tasks.items()):
        sharing = members.get(states[0].spec.key.group, [])
        first = datastream_to_restli(sharing[0], address_of_cluster) if sharing else {}
        connector = first.get("connectorName", OUR_CONNECTOR)
        ends = {end: first[end]["connectionString"] for end in ("source", "destination") if sharing}
        names = ",".join(one.name for one in sharing) or states[0].spec.key.group
        task_health = {"name": task, "datastreams": names, **ends, **_state_of(states)}
        found.setdefault(connector, []).append(task_health)
    return [{"connectorName": name, "tasks": tasks_of} for name, tasks_of in found.items()]


def _state_of(lanes: Sequence[LaneStatus]) -> dict[str, Any]:
    """Return ERROR with the reason if a lane is paused or waiting; no status if no lane has started
    copying."""
    partitions = {"partitions": f"[{', '.join(str(lane.spec.key.partition) for lane in lanes)}]"}
    still = [lane for lane in lanes if lane.phase in {LanePhase.PAUSED, LanePhase.WAITING}]
    if still:
        reason = f"{still[0].spec.key.partition}: {still[0].reason}"
        return {**partitions, "statusCode": "ERROR", "statusMessage": reason}
    if any(lane.phase is LanePhase.COPYING for lane in lanes):
        return {**partitions, "statusCode": "OK", "statusMessage": "OK"}
    return partitions

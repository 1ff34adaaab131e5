"""/health and /diag for Brooklin's clients: connectors, tasks and lanes of an instance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from api.brooklin.protocol import CollectionPage, RoutingRefusal, chosen_fields, collection, unsupported
from api.brooklin.restli import CONNECTOR, OUR_CONNECTOR, datastream_to_restli, plain
from api.fleet.all_instances import AllInstances
from api.fleet.dependencies import FleetDep, ReadsDep, ServicesDep, SlowCallsDep
from api.fleet.questions import FleetQuery
from api.services import Services
from mirror.errors import HeadraceError, InvalidRequest, NotFound
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.lane.progress import LaneProgress
from mirror.model import bounds
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName, TaskName
from mirror.model.topics import TopicPartition
from mirror.wording import counted

router = APIRouter(tags=["brooklin"])


def connectors_of(
    lanes: Sequence[LaneStatus],
    datastreams: Sequence[Datastream],
    address_of_cluster: Callable[[ClusterRef], str],
) -> list[dict[str, Any]]:
    """Return the connectors of Brooklin's /health, each with its tasks on this instance. `datastreams`: all
    datastreams that the instance last read."""
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
        names = ",".join(member.name for member in sharing) or states[0].spec.key.group
        task_health = {"name": task, "datastreams": names, **ends, **_state_of(states)}
        found.setdefault(connector, []).append(task_health)
    return [{"connectorName": name, "tasks": tasks_of} for name, tasks_of in found.items()]


def _state_of(lanes: Sequence[LaneStatus]) -> dict[str, Any]:
    """Return the status fields of a task: ERROR with the reason if one of its lanes is paused or waiting, OK
    if one copies, and no status otherwise."""
    partitions = {"partitions": f"[{', '.join(str(lane.spec.key.partition) for lane in lanes)}]"}
    still = [lane for lane in lanes if lane.phase in {LanePhase.PAUSED, LanePhase.WAITING}]
    if still:
        reason = f"{still[0].spec.key.partition}: {still[0].reason}"
        return {**partitions, "statusCode": "ERROR", "statusMessage": reason}
    if any(lane.phase is LanePhase.COPYING for lane in lanes):
        return {**partitions, "statusCode": "OK", "statusMessage": "OK"}
    return partitions


_UNKNOWN_LAG: Final = -1
_MOST_GROUPS: Final = 20
"""Maximum number of groups whose stored progress one request reads. Each group needs connections."""


def status_element(scope: str, content: str, services: Services) -> dict[str, Any]:
    """Return the response of this instance to a /diag query. Its `status` field is a JSON string.

    Errors are also returned as a ServerComponentHealth.
    """
    try:
        status = json.dumps(_content(scope, content, services), separators=(",", ":"), ensure_ascii=False)
    except HeadraceError as error:
        return component_health(services, errors=str(error))
    return component_health(services, status)


def component_health(services: Services, status: str = "", errors: str = "") -> dict[str, Any]:
    """Return the ServerComponentHealth of this instance for a response of /diag."""
    return {
        "succeeded": not errors,
        "status": status,
        "instanceName": services.status.name,
        "errorMessages": errors,
    }


def connectors_known(services: Services) -> frozenset[str]:
    """Return the names of connectors that a request to /diag may contain."""
    return services.connectors | {connector_of(datastream) for datastream in services.status.datastreams}


def connector_of(datastream: Datastream) -> str:
    """Return the connector name that the client gave when it created the datastream."""
    return datastream.metadata.get(CONNECTOR, OUR_CONNECTOR)


def _content(scope: str, content: str, services: Services) -> object:
    path, _, query = content.partition("?")
    parameters = {key: values[-1] for key, values in parse_qs(query).items()}
    mine = [datastream for datastream in services.status.datastreams if connector_of(datastream) == scope]
    paths: Mapping[str, Callable[[], object]] = {
        "/datastream_state": lambda: _datastream_state(parameters.get("datastream", ""), mine, services),
        "/partitions": lambda: _partitions(mine, services),
        "/consumer_offsets": lambda: _consumer_offsets(parameters.get("datastream"), mine, services),
    }
    answer = paths.get(path.lower().rstrip("/"))
    if answer is None:
        raise InvalidRequest(f"unknown content {shown(path)}", advice=f"use one of {', '.join(paths)}")
    return answer()


def _lanes_of(datastream: Datastream, services: Services) -> dict[TopicPartition, LaneStatus]:
    """Return the lanes of this instance that copy partitions of the datastream."""
    return {
        key.partition: state
        for key, state in sorted(services.status.lanes.items())
        if key.group == datastream.group and datastream.selection.matches(key.partition.topic)
    }


def _datastream_state(name: str, mine: Iterable[Datastream], services: Services) -> dict[str, Any]:
    datastream = _named(name, mine)
    lanes = _lanes_of(datastream, services)
    still = {
        str(partition): {"reason": state.phase.name, "description": state.text}
        for partition, state in lanes.items()
        if state.phase in {LanePhase.PAUSED, LanePhase.WAITING}
    }
    manual = {
        topic: ["*"] if pause.numbers is None else [str(number) for number in sorted(pause.numbers)]
        for topic, pause in sorted(datastream.pauses.items())
    }
    return {
        "datastream": name,
        "assignedTopicPartitions": [str(partition) for partition in lanes],
        "autoPausedPartitions": still,
        "manualPausedPartitions": manual,
    }


def _partitions(mine: Iterable[Datastream], services: Services) -> list[dict[str, Any]]:
    found = []
    for datastream in mine:
        lanes = _lanes_of(datastream, services)
        if lanes:
            found.append(
                {
                    "consumerGroupId": datastream.consumer_group,
                    "sourceInstance": services.status.name,
                    "topicPartitions": _by_topic({lane: lane.partition for lane in lanes}, list),
                    "datastreams": [datastream.name],
                }
            )
    return found


def _consumer_offsets(
    name: str | None, mine: Iterable[Datastream], services: Services
) -> list[dict[str, Any]]:
    chosen = (
        [datastream for datastream in mine if _lanes_of(datastream, services)]
        if name is None
        else [_named(name, mine)]
    )
    if len({datastream.group for datastream in chosen}) > _MOST_GROUPS:
        raise InvalidRequest(
            f"the query must name a datastream: this instance runs {counted(len(chosen), 'datastream')}",
            advice="request one datastream: /consumer_offsets?datastream=NAME",
        )
    return [_offsets_of(datastream, services) for datastream in chosen]


def _offsets_of(datastream: Datastream, services: Services) -> dict[str, Any]:
    """Return the stored offsets of a datastream.

    `committedOffsets`: last stored checkpoints; all earlier records are at the destination.
    """
    lanes, stored = _lanes_of(datastream, services), _stored(datastream, services)
    next_offsets = {
        partition: progress.next_offset
        for partition in lanes
        if (progress := stored.get(LaneKey(datastream.group, partition))) is not None
    }
    consumed = {partition: offset - 1 for partition, offset in next_offsets.items() if offset > 0}
    lags = {partition: state.lag for partition, state in lanes.items()}
    lag_ms = {partition: _UNKNOWN_LAG if lag[1] is None else lag[1] for partition, lag in lags.items()}
    lag_records = {partition: _UNKNOWN_LAG if lag[0] is None else lag[0] for partition, lag in lags.items()}
    return {
        "consumerGroupId": datastream.consumer_group,
        "datastreamName": datastream.name,
        "consumedOffsets": _by_topic(consumed, _by_number),
        "committedOffsets": _by_topic(next_offsets, _by_number),
        "consumptionLagMap": _by_topic(lag_ms, _by_number),
        "consumptionLagRecords": _by_topic(lag_records, _by_number),
    }


def _stored(datastream: Datastream, services: Services) -> Mapping[LaneKey, LaneProgress]:
    """Return the stored progress of a datastream's lanes; empty if nothing is stored. Raises Unreachable."""
    try:
        return services.progress(datastream.destination, datastream.group).lanes
    except InvalidRequest:  # nothing stored yet
        return {}


def _named(name: str, mine: Iterable[Datastream]) -> Datastream:
    found = next((datastream for datastream in mine if datastream.name == DatastreamName(name)), None)
    if found is None:
        raise NotFound(f"Datastream not found: {plain(name)}")
    return found


def _by_number(found: Mapping[int, int]) -> dict[str, int]:
    return {str(number): found[number] for number in sorted(found)}


def _by_topic(found: Mapping[TopicPartition, int], shape: Callable[[dict[int, int]], Any]) -> dict[str, Any]:
    topics: dict[str, dict[int, int]] = {}
    for partition, value in sorted(found.items()):
        topics.setdefault(partition.topic, {})[partition.partition] = value
    return {topic: shape(values) for topic, values in topics.items()}


_FINDERS: Final = {"status", "allStatus"}
_TYPE: Final = "connector"
_DEADLINE_SECONDS: Final = 10.0
"""Time for an instance to read stored state from clusters."""


@router.get("/health")
async def health(services: ServicesDep, request: Request) -> dict[str, Any]:
    """Return ServerHealth: connectors with their tasks on this instance. Makes no remote calls."""
    status = services.status
    lanes = [state for _, state in sorted(status.lanes.items())]
    return chosen_fields(request.query_params)(
        {
            "clusterName": services.service_name,
            "instanceName": status.name,
            "connectors": connectors_of(lanes, status.datastreams, services.address_of_cluster),
        }
    )


@router.get("/diag")
async def diagnose(
    services: ServicesDep, slow_calls: SlowCallsDep, reads: ReadsDep, fleet: FleetDep, request: Request
) -> dict[str, Any]:
    """Return a ServerComponentHealth of this instance (`q=status`) or of all instances (`q=allStatus`)."""
    query = request.query_params
    finder = query.get("q")
    if finder not in _FINDERS:
        target = f"{request.url.path}?{request.url.query}"
        raise unsupported("GET", target, request.headers)
    kind, scope, content = (_parameter(query.get(name), name) for name in ("type", "scope", "content"))
    if kind != _TYPE or scope not in connectors_known(services):
        raise RoutingRefusal(f"Unknown component: {shown(kind)} {shown(scope)}")
    page, chosen = CollectionPage.of(query), chosen_fields(query)
    if finder == "allStatus":
        live = await run_in_threadpool(reads.live)
        element = await _of_all(AllInstances(services, fleet, live), scope, content, services)
    else:
        element = await slow_calls.run(lambda: status_element(scope, content, services))
    return collection([chosen(element)], page, request.url.path, query)


async def _of_all(instances: AllInstances, scope: str, content: str, services: Services) -> dict[str, Any]:
    """Return the combined status of all instances. `succeeded` is true only if every instance responded
    without error."""
    replies = await instances.ask(
        FleetQuery(DIAGNOSTICS, {"scope": scope, "content": content}, deadline_seconds=_DEADLINE_SECONDS),
        lambda: status_element(scope, content, services),
        element_read,
    )
    errors = {
        name: f"{reply.state}: {reply.reason}" for name, reply in replies.items() if reply.value is None
    }
    answers = {name: reply.value for name, reply in replies.items() if reply.value is not None}
    errors |= {name: answer["errorMessages"] for name, answer in answers.items() if not answer["succeeded"]}
    status = {name: answer["status"] for name, answer in answers.items() if answer["succeeded"]}
    found = component_health(services, json.dumps(status) if status else "", json.dumps(errors))
    return {**found, "succeeded": not errors}


def _parameter(value: str | None, name: str) -> str:
    if value is None:
        raise RoutingRefusal(f"Parameter '{name}' is required")
    return value


DIAGNOSTICS: Final = "diagnostics"


def element_read(value: Any) -> Mapping[str, Any]:
    """Parse the ServerComponentHealth of another instance. Raises InvalidRequest."""
    found = bounds.mapping("its diagnostics", value)
    for name in ("succeeded", "status", "errorMessages"):
        bounds.field(found, name)
    return found

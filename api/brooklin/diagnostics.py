"""Status of the lanes of an instance at /diag: Brooklin's three content paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from api.restli import CONNECTOR, OUR_CONNECTOR, plain
from api.services import Services
from mirror.errors import HeadraceError, InvalidRequest, NotFound
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.lane.progress import LaneProgress
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition
from mirror.wording import counted

_UNKNOWN_LAG: Final = -1
_MOST_GROUPS: Final = 20
"""Maximum number of groups whose stored progress one request reads; each one needs connections."""


def status_element(scope: str, content: str, services: Services) -> dict[str, Any]:
    """Return a ServerComponentHealth, whose `status` is a JSON string. Errors are returned as an element,
    too."""
    try:
        status = json.dumps(_content(scope, content, services), separators=(",", ":"), ensure_ascii=False)
    except HeadraceError as error:
        return component_health(services, errors=str(error))
    return component_health(services, status)


def component_health(services: Services, status: str = "", errors: str = "") -> dict[str, Any]:
    """Return the element of this instance."""
    return {
        "succeeded": not errors,
        "status": status,
        "instanceName": services.status.name,
        "errorMessages": errors,
    }


def connectors_known(services: Services) -> frozenset[str]:
    """Return the connectors that diagnostics accepts."""
    return services.connectors | {connector_of(datastream) for datastream in services.status.datastreams}


def connector_of(datastream: Datastream) -> str:
    """Return the connector name given by the client."""
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
    """Return the lanes of its group that copy for it."""
    return {
        key.partition: state
        for key, state in sorted(services.status.lanes.items())
        if key.group == datastream.group and datastream.selection.matches(key.partition.topic)
    }


def _datastream_state(name: str, mine: Iterable[Datastream], services: Services) -> dict[str, Any]:
    datastream = _named(name, mine)
    lanes = _lanes_of(datastream, services)
    still = {
        str(partition): {"reason": state.phase.name, "description": state.reason}
        for partition, state in lanes.items()
        if state.phase in {LanePhase.PAUSED, LanePhase.WAITING}
    }
    manual = {
        topic: ["*"] if one.numbers is None else [str(number) for number in sorted(one.numbers)]
        for topic, one in sorted(datastream.pauses.items())
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
    chosen = [one for one in mine if _lanes_of(one, services)] if name is None else [_named(name, mine)]
    if len({one.group for one in chosen}) > _MOST_GROUPS:
        raise InvalidRequest(
            counted(len(chosen), "datastream runs here", "datastreams run here"),
            advice="request one datastream: /consumer_offsets?datastream=NAME",
        )
    return [_offsets_of(one, services) for one in chosen]


def _offsets_of(datastream: Datastream, services: Services) -> dict[str, Any]:
    """Return the offsets of a datastream. `committedOffsets`: last stored resume offsets; all earlier records
    are at the destination."""
    lanes, stored = _lanes_of(datastream, services), _stored(datastream, services)
    next_offsets = {
        partition: progress.next_offset
        for partition in lanes
        if (progress := stored.get(LaneKey(datastream.group, partition))) is not None
    }
    consumed = {partition: offset - 1 for partition, offset in next_offsets.items() if offset > 0}
    lags = {partition: state.lag for partition, state in lanes.items()}
    lag_ms = {one: _UNKNOWN_LAG if lag[1] is None else lag[1] for one, lag in lags.items()}
    lag_records = {one: _UNKNOWN_LAG if lag[0] is None else lag[0] for one, lag in lags.items()}
    return {
        "consumerGroupId": datastream.consumer_group,
        "datastreamName": datastream.name,
        "consumedOffsets": _by_topic(consumed, _by_number),
        "committedOffsets": _by_topic(next_offsets, _by_number),
        "consumptionLagMap": _by_topic(lag_ms, _by_number),
        "consumptionLagRecords": _by_topic(lag_records, _by_number),
    }


def _stored(datastream: Datastream, services: Services) -> Mapping[LaneKey, LaneProgress]:
    """Return the stored progress, empty if there is none. Raises Unreachable."""
    try:
        return services.progress(datastream.destination, datastream.group).lanes
    except InvalidRequest:  # nothing stored yet
        return {}


def _named(name: str, mine: Iterable[Datastream]) -> Datastream:
    found = next((one for one in mine if one.name == DatastreamName(name)), None)
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

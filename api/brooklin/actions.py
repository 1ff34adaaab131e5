"""Brooklin's actions on a datastream: pause, resume, stop, and move of partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import anyio.to_thread

from api.brooklin.protocol import BrooklinRefusal, RoutingRefusal, in_brooklins_words
from api.brooklin.restli import plain
from api.services import Services
from mirror.control.commands import ChangePauses, ChangeStatus, MovePartitions
from mirror.errors import HeadraceError, IllegalTransition, InvalidRequest, NotFound
from mirror.model.datastreams.datastream import TRANSITIONS, Datastream, DatastreamStatus
from mirror.model.datastreams.pauses import Partitions, read_partitions
from mirror.model.identifiers import DatastreamName, TaskName
from mirror.model.topics import TopicPartition

STATUS_ACTIONS: Final = frozenset({"pause", "resume", "stop"})
PAUSE_ACTIONS: Final = {"pauseSourcePartitions": True, "resumeSourcePartitions": False}
REST: Final = "Brooklin's REST"
"""Requester recorded for actions on Brooklin's interface, whose requests contain no name."""
_STOP_SECONDS: Final = 90.0
"""Brooklin's timeout for a stop."""
_LOOK_SECONDS: Final = 0.2
_WRONG_STATE: Final = {
    "pause": "Datastream is not ready, cannot pause",
    "resume": "Datastream is not paused or stopped, cannot resume",
    "stop": "Datastream is not ready or paused, cannot stop",
}


async def change_status(
    name: DatastreamName, action: str, given: Mapping[str, Any], services: Services
) -> None:
    """Pause, resume or stop a datastream. Raises BrooklinRefusal, RoutingRefusal. With `force`, the change
    includes all datastreams that share its tasks. A stop returns when the datastream has stopped."""
    force = given.get("force", False)
    if not isinstance(force, bool):
        raise RoutingRefusal("Parameter 'force' must be true or false")
    words: dict[type[HeadraceError], str] = {
        NotFound: f"Datastream to {action} does not exist: {plain(name)}",
        IllegalTransition: f"{_WRONG_STATE[action]}: {plain(name)}",
    }

    def change() -> list[DatastreamName]:
        with in_brooklins_words(words, cause="None"):
            if force:
                return _change_group(name, action, services)
            services.control.change_status(ChangeStatus(name, action, requested_by=REST))
            return [name]

    changed = await anyio.to_thread.run_sync(change)
    if action == "stop":
        await _await_stops(changed, services)


def _change_group(name: DatastreamName, action: str, services: Services) -> list[DatastreamName]:
    """Change the status of all datastreams that share tasks with `name`, and return their names. Datastreams
    whose status does not permit the change are skipped; `name` may already have the requested status."""
    named, (allowed, target) = services.control.check_right(name), TRANSITIONS[action]
    if named.status not in allowed and named.status is not target:
        services.control.change_status(ChangeStatus(name, action, requested_by=REST))
    changed = []
    for datastream in services.control.list().datastreams:
        if datastream.group != named.group:
            continue
        with contextlib.suppress(NotFound, IllegalTransition):  # as Brooklin does, skip the others
            settles = (
                action == "stop" and services.control.get(datastream.name).status is DatastreamStatus.STOPPING
            )
            how = "settle" if settles else action
            services.control.change_status(ChangeStatus(datastream.name, how, requested_by=REST))
            changed.append(datastream.name)
    return changed


async def _await_stops(names: list[DatastreamName], services: Services) -> None:
    """Wait until the datastreams are STOPPED: no instance copies their partitions any longer."""
    latest = services.clock.monotonic() + _STOP_SECONDS
    for name in names:
        while (status := (await _now(name, services)).status) is not DatastreamStatus.STOPPED:
            if status is not DatastreamStatus.STOPPING:
                raise BrooklinRefusal(
                    f"Datastream was not stopped: {name}",
                    HTTPStatus.METHOD_NOT_ALLOWED,
                    f"the datastream is {status}",
                )
            if services.clock.monotonic() >= latest:
                raise BrooklinRefusal(
                    f"Timed out waiting for datastream to stop: {name}",
                    HTTPStatus.REQUEST_TIMEOUT,
                    "it is still stopping; see GET /v1/health of the leader",
                )
            await services.sleep(_LOOK_SECONDS)


async def _now(name: DatastreamName, services: Services) -> Datastream:
    return await anyio.to_thread.run_sync(services.control.get, name)


def change_pauses(name: DatastreamName, action: str, given: Mapping[str, Any], services: Services) -> None:
    """Pause or resume partitions. Raises RoutingRefusal, InvalidRequest, NotFound, IllegalTransition."""
    texts = _required(given, "sourcePartitions")
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise InvalidRequest(
            "sourcePartitions must map topics to partitions",
            advice='example: {"orders": "0,13,2", "users": "*"}',
        )
    with in_brooklins_words({NotFound: f"Datastream not found: {plain(name)}"}, cause="None"):
        datastream = services.control.get(name)
    if not texts:
        return
    partitions: Partitions = read_partitions(texts)
    is_pause = PAUSE_ACTIONS[action]
    if is_pause:
        partitions = _existing_partitions(datastream, partitions, services)
    services.control.change_pauses(ChangePauses(name, partitions, is_pause, "", REST))


def _existing_partitions(datastream: Datastream, wanted: Partitions, services: Services) -> Partitions:
    """Return the partitions that a topic has now, which `*` stands for in Brooklin.

    While the source does not respond, `*` means all partitions, including those added later, because pausing
    must not depend on the source.
    """
    counts = services.topics(datastream.source)
    if counts is None:
        return wanted
    missing = sorted(wanted.keys() - counts.keys())
    if missing:
        raise InvalidRequest(f"topic {missing[0]} does not exist at {datastream.source}")
    found: dict[str, frozenset[int] | None] = {}
    for topic, numbers in wanted.items():
        found[topic] = frozenset(range(counts[topic])) if numbers is None else numbers
    return found


def move(name: DatastreamName, given: Mapping[str, Any], services: Services) -> None:
    """Request a move of partitions to an instance. Raises RoutingRefusal, InvalidRequest, NotFound,
    IllegalTransition."""
    partitions, host = (_text(given, field) for field in ("partitions", "targetHost"))
    moved = frozenset(TopicPartition.parse(part.strip()) for part in partitions.split(","))
    with in_brooklins_words({NotFound: f"Datastream not found: {plain(name)}"}, cause="None"):
        services.control.move(MovePartitions(name, moved, host, REST))


def instance_of_task(name: DatastreamName, given: Mapping[str, Any], services: Services) -> str:
    """Return the instance that runs a task according to the plan. Raises RoutingRefusal, BrooklinRefusal."""
    task = TaskName(_text(given, "task"))
    with in_brooklins_words({NotFound: f"Datastream not found: {plain(name)}"}, cause="None"):
        services.control.get(name)
    placement = services.plan().by_task.get(task)
    if placement is None or placement.instance is None:
        raise BrooklinRefusal("Connector task not found", HTTPStatus.NOT_FOUND)
    return placement.instance


def _required(given: Mapping[str, Any], field: str) -> Any:
    if field not in given:
        raise RoutingRefusal(f"Parameter '{field}' is required")
    return given[field]


def _text(given: Mapping[str, Any], field: str) -> str:
    value = _required(given, field)
    if not isinstance(value, str):
        raise RoutingRefusal(f"Parameter '{field}' must be a string")
    return value

"""CreateTopics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import DEFAULTS

_EXISTS = 36
_BAD_PARTITIONS = 37
_BAD_REPLICATION = 38
_BAD_SETTING = 40
_POLICY_VIOLATION = 44
_LEAST_SEGMENT_BYTES = 1024 * 1024
_Result = CreateTopicsResponse.CreatableTopicResult


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    return CreateTopicsResponse(
        topics=[_create(state, asked, one, asked.message.validate_only) for one in asked.message.topics]
    )


def _create(state: ClusterState, asked: HandledRequest, one: Any, validate_only: bool) -> Any:
    settings = {entry.name: entry.value for entry in one.configs}
    error, message = asked.error(one.name), "refused"
    if not error:
        error, message = _problem(state, one, settings)
    if error:
        return _Result(name=one.name, error_code=error, error_message=message, configs=None)
    if not validate_only:
        replication = 1 if one.replication_factor == -1 else one.replication_factor
        plain = {name.replace(".", "_"): value for name, value in settings.items()}
        state.create_topic(
            one.name, 1 if one.num_partitions == -1 else one.num_partitions, replication, **plain
        )
    created = state.topics.get(one.name)
    return _Result(
        name=one.name,
        topic_id=created.identity if created else None,
        error_code=asked.error_after(one.name),
        error_message=None,
        num_partitions=len(created.partitions) if created else -1,
        replication_factor=len(created.partitions[0].replicas) if created else -1,
        configs=None,
    )


def _problem(state: ClusterState, one: Any, settings: dict[str, str]) -> tuple[int, str]:
    if one.name in state.topics:
        return _EXISTS, "exists"
    if one.num_partitions == 0 or one.num_partitions < -1:
        return _BAD_PARTITIONS, "partitions"
    if one.replication_factor == 0 or one.replication_factor > len(state.brokers):
        return _BAD_REPLICATION, "replication factor"
    if unknown := sorted(settings.keys() - DEFAULTS.keys()):
        return _BAD_SETTING, f"Unknown topic config name: {unknown[0]}"
    size = settings.get("segment.bytes", str(_LEAST_SEGMENT_BYTES))
    if int(size) < _LEAST_SEGMENT_BYTES:
        bound = f"Value must be at least {_LEAST_SEGMENT_BYTES}"
        return _BAD_SETTING, f"Invalid value {size} for configuration segment.bytes: {bound}"
    if state.create_policy is not None and (objection := state.create_policy(one.name, settings)):
        return _POLICY_VIOLATION, objection
    return 0, ""


HANDLER = Handler(CreateTopicsRequest, CreateTopicsResponse, (2, 7), _handle)

"""DescribeConfigs of topics."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import DEFAULTS, Topic

_TOPIC = 2
_UNKNOWN_TOPIC = 3
_INVALID_REQUEST = 42
_OF_TOPIC = 1
_DEFAULT = 5
_Result = DescribeConfigsResponse.DescribeConfigsResult


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    return DescribeConfigsResponse(results=[_describe(state, asked, one) for one in asked.message.resources])


def _describe(state: ClusterState, asked: HandledRequest, one: Any) -> Any:
    topic = state.topics.get(one.resource_name)
    error = asked.error(one.resource_name)
    if one.resource_type != _TOPIC:
        error = error or _INVALID_REQUEST
    elif topic is None:
        error = error or _UNKNOWN_TOPIC
    wanted = one.configuration_keys
    return _Result(
        error_code=error,
        error_message="refused" if error else None,
        resource_type=one.resource_type,
        resource_name=one.resource_name,
        configs=[] if error or topic is None else _settings(topic, wanted),
    )


def _settings(topic: Topic, wanted: list[str] | None) -> list[Any]:
    names = sorted(DEFAULTS.keys() | topic.own.keys())
    return [
        _Result.DescribeConfigsResourceResult(
            name=name,
            value=topic.setting(name),
            read_only=False,
            config_source=_OF_TOPIC if name in topic.own else _DEFAULT,
            is_sensitive=False,
            synonyms=[],
            documentation=None,
        )
        for name in names
        if wanted is None or name in wanted
    ]


HANDLER = Handler(DescribeConfigsRequest, DescribeConfigsResponse, (1, 4), _handle)

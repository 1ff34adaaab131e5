"""Requests to create, expand, describe, trim and delete topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from kafka.protocol import admin

from mirror.model.movement.history import UNLIMITED, Retention
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.call import CONTROL_BYTES, Call

T = TypeVar("T")

_TOPIC: Final = 2
_SET_ON_TOPIC: Final = 1
_TIMEOUT_MS: Final = 8_000
"""Timeout sent to the controller; shorter than the client's request timeout."""
_DELETION_BY_ID: Final = 6
"""Version of DeleteTopics that accepts topic ids."""
_DESCRIPTION_BYTES: Final = 64 * 1024
"""Maximum size of the settings of one topic, without their documentation."""
_KEEPS_ALL: Final = Retention(UNLIMITED, UNLIMITED)


class TopicOutcome(NamedTuple):
    """Result of a request for one topic, with the broker's error message."""

    error: int
    message: str


class TopicSetting(NamedTuple):
    """A setting of a topic. `own`: whether it is set on the topic itself, not inherited."""

    value: str
    own: bool


def create_topic(
    name: str, partitions: int, replication: int, settings: Mapping[str, str]
) -> Call[TopicOutcome]:
    """Return a request that creates one topic; see `create_topics`."""
    topic = TopicDescription(name, partitions, settings=settings)
    return _creation([topic], replication, lambda outcomes: outcomes[name])


def create_topics(topics: Sequence[TopicDescription], replication: int) -> Call[Mapping[str, TopicOutcome]]:
    """Return a request that creates topics on the controller (with KRaft: any broker).

    Replication -1 means the broker default.
    """
    return _creation(topics, replication, lambda outcomes: outcomes)


def _creation(
    topics: Sequence[TopicDescription], replication: int, read: Callable[[Mapping[str, TopicOutcome]], T]
) -> Call[T]:
    wanted = [
        {
            "name": topic.name,
            "num_partitions": topic.partitions,
            "replication_factor": replication,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in sorted(topic.settings.items())],
        }
        for topic in topics
    ]

    def outcomes(response: Any) -> T:
        return read(
            {
                found.name: TopicOutcome(found.error_code, found.error_message or "")
                for found in response.topics
            }
        )

    fields = {"topics": wanted, "timeout_ms": _TIMEOUT_MS, "validate_only": False}
    return Call(admin.CreateTopicsRequest, admin.CreateTopicsResponse, (2, 7), fields, outcomes)


def create_partitions(counts: Mapping[str, int]) -> Call[Mapping[str, TopicOutcome]]:
    """Return a request that increases partition counts on the controller (with KRaft: any broker).

    `counts`: new partition count by topic. The result is the outcome by topic.
    """
    topics = [{"name": name, "count": count, "assignments": None} for name, count in counts.items()]
    return Call(
        admin.CreatePartitionsRequest,
        admin.CreatePartitionsResponse,
        (0, 3),
        {"topics": topics, "timeout_ms": _TIMEOUT_MS, "validate_only": False},
        lambda response: {
            found.name: TopicOutcome(found.error_code, found.error_message or "")
            for found in response.results
        },
    )


def delete_topic(name: str, topic_id: bytes = b"") -> Call[TopicOutcome]:
    """Return a request that deletes one topic on the controller (with KRaft: any broker).

    With an id, the topic is deleted only if it has this id (Kafka 2.8 or later).
    """

    def read(response: Any) -> TopicOutcome:
        found = response.responses[0]
        return TopicOutcome(found.error_code, getattr(found, "error_message", None) or "")

    messages, timeout = (admin.DeleteTopicsRequest, admin.DeleteTopicsResponse), {"timeout_ms": _TIMEOUT_MS}
    if not topic_id:
        return Call(*messages, (1, _DELETION_BY_ID - 1), {"topic_names": [name], **timeout}, read)
    state = {"name": None, "topic_id": UUID(bytes=topic_id)}
    return Call(*messages, (_DELETION_BY_ID, _DELETION_BY_ID), {"topics": [state], **timeout}, read)


def delete_records(place: TopicPartition, before: int) -> Call[int]:
    """Return a request that deletes a partition's records before an offset, on its leader. Its result is an
    error code."""
    partition = {"partition_index": place.partition, "offset": before}
    topic = {"name": place.topic, "partitions": [partition]}
    return Call(
        admin.DeleteRecordsRequest,
        admin.DeleteRecordsResponse,
        (0, 2),
        {"topics": [topic], "timeout_ms": _TIMEOUT_MS},
        lambda response: int(response.topics[0].partitions[0].error_code),
    )


def values_of(
    settings: Mapping[str, TopicSetting], inherited: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings: values set on the topic itself, and inherited values of the named settings."""
    own = {key: setting.value for key, setting in settings.items() if setting.own}
    return own, {
        key: setting.value for key, setting in settings.items() if not setting.own and key in inherited
    }


class DescribedTopic(NamedTuple):
    """All settings of one topic, or the error that prevented reading them."""

    error: int
    message: str
    settings: Mapping[str, TopicSetting]


def describe_settings(topics: Sequence[str]) -> Call[Mapping[str, Mapping[str, TopicSetting]]]:
    """Return a request for all settings of each topic; omits topics with an error."""
    return _describe(
        topics,
        lambda response: {
            result.resource_name: _described(result).settings
            for result in response.results
            if not result.error_code
        },
    )


def retention_of(settings: Mapping[str, TopicSetting]) -> Retention:
    """Return the retention of a partition whose topic has the given settings."""
    policy = settings.get("cleanup.policy")
    if policy is not None and "delete" not in policy.value:
        return _KEEPS_ALL
    return Retention(_number(settings.get("retention.ms")), _number(settings.get("retention.bytes")))


def _number(setting: TopicSetting | None) -> int | None:
    if setting is None:
        return None
    try:
        return max(int(setting.value), UNLIMITED)
    except ValueError:
        return None


def describe_each(topics: Sequence[str]) -> Call[Mapping[str, DescribedTopic]]:
    """Return a request for all settings of each topic, or for the error that prevents reading them."""
    return _describe(
        topics, lambda response: {result.resource_name: _described(result) for result in response.results}
    )


def _describe(topics: Sequence[str], read: Callable[[Any], T]) -> Call[T]:
    resources = [
        {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": None} for name in topics
    ]
    messages = (admin.DescribeConfigsRequest, admin.DescribeConfigsResponse)
    fields = {"resources": resources, "include_synonyms": False}
    return Call(*messages, (1, 4), fields, read, CONTROL_BYTES + len(topics) * _DESCRIPTION_BYTES)


def _described(result: Any) -> DescribedTopic:
    settings = {
        entry.name: TopicSetting(entry.value or "", entry.config_source == _SET_ON_TOPIC)
        for entry in result.configs
    }
    return DescribedTopic(result.error_code, result.error_message or "", settings)


_ABOUT_SETTINGS: Final = frozenset({Code.INVALID_CONFIG, Code.POLICY_VIOLATION})
_BOUND: Final = re.compile(r"must be (?:at least|no more than) (-?[0-9]+)")
"""Matches the error messages of `ConfigDef.Range` in Kafka."""


def adjusted_setting(error: int, message: str, settings: Mapping[str, str]) -> tuple[str, str | None] | None:
    """Return the rejected topic setting and the nearest accepted value, or None if no setting was rejected.

    A value of None means that the setting must be omitted. The result is None if the error is not about any
    of `settings`.
    """
    if error not in _ABOUT_SETTINGS:
        return None
    places = {key: at for key in settings if (at := _place(key, message)) >= 0}
    if not places:
        return None
    key = min(places, key=places.__getitem__)
    bound = _BOUND.search(message)
    value = bound[1] if bound is not None and len(places) == 1 else None
    return key, None if value == settings[key] else value


def _place(key: str, message: str) -> int:
    found = re.search(rf"(?<![\w.]){re.escape(key)}(?!\.?\w)", message)
    return -1 if found is None else found.start()

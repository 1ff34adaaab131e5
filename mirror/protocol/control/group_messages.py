"""Messages about groups that kafka-python does not define.

ConsumerGroupDescribe (KIP-848), ShareGroupDescribe, DescribeShareGroupOffsets and AlterShareGroupOffsets
(KIP-932), StreamsGroupDescribe (KIP-1071). Fields as in Kafka's message definitions.
"""

from __future__ import annotations

from types import new_class
from typing import Any, Final, NamedTuple

from kafka.protocol.api_message import ApiMessage

_Fields = list[dict[str, Any]]


def _field(name: str, kind: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **more}


def _fields(kind: str, *names: str) -> _Fields:
    return [_field(name, kind) for name in names]


def _struct(name: str, kind: str, fields: _Fields, **more: Any) -> dict[str, Any]:
    return _field(name, kind, fields=fields, **more)


def _nullable(name: str) -> dict[str, Any]:
    return _field(name, "string", nullableVersions="0+", default="null")


class Messages(NamedTuple):
    """A request class and its response class."""

    request: Any
    response: Any


def messages(key: int, name: str, versions: str, request: _Fields, response: _Fields) -> Messages:
    """Return a request class and a response class with the given fields."""
    schema = {"apiKey": key, "validVersions": versions, "flexibleVersions": "0+"}
    return Messages(
        _message_class("Request", {**schema, "name": f"{name}Request", "fields": request}),
        _message_class("Response", {**schema, "name": f"{name}Response", "fields": response}),
    )


def _message_class(kind: str, schema: dict[str, Any]) -> Any:
    """Create the class of a message. kafka-python requires the name of one of its own schemas, whose content
    `json_patch` replaces."""
    patch = {"json_patch": classmethod(lambda _, json: {**schema, "type": kind.lower()})}
    return new_class(f"DescribeGroups{kind}", (ApiMessage,), exec_body=lambda body: body.update(patch))


_ERROR: Final = [_field("ErrorCode", "int16"), _nullable("ErrorMessage")]
_GROUP: Final = [
    *_ERROR,
    *_fields("string", "GroupId", "GroupState"),
    *_fields("int32", "GroupEpoch", "AssignmentEpoch"),
]
_RIGHTS: Final = _field("AuthorizedOperations", "int32", default="-2147483648")
_DESCRIBE: Final = [_field("GroupIds", "[]string"), _field("IncludeAuthorizedOperations", "bool")]


def _described(fields: _Fields) -> _Fields:
    """Return the fields of a response that describes groups."""
    return [_field("ThrottleTimeMs", "int32"), _struct("Groups", "[]DescribedGroup", fields)]


def _assignment(name: str) -> dict[str, Any]:
    partitions = [_field("TopicId", "uuid"), _field("TopicName", "string"), _field("Partitions", "[]int32")]
    return _struct(name, "Assignment", [_struct("TopicPartitions", "[]TopicPartitions", partitions)])


_CONSUMER: Final = [
    _field("MemberId", "string"),
    _nullable("InstanceId"),
    _nullable("RackId"),
    _field("MemberEpoch", "int32"),
    *_fields("string", "ClientId", "ClientHost"),
    _field("SubscribedTopicNames", "[]string"),
    _nullable("SubscribedTopicRegex"),
    _assignment("Assignment"),
    _assignment("TargetAssignment"),
    _field("MemberType", "int8", "1+", default="-1", ignorable=True),
]
_CONSUMER_GROUP: Final = [
    *_GROUP,
    _field("AssignorName", "string"),
    _struct("Members", "[]Member", _CONSUMER),
    _RIGHTS,
]
CONSUMER_GROUP_DESCRIBE: Final = messages(
    69, "ConsumerGroupDescribe", "0-1", _DESCRIBE, _described(_CONSUMER_GROUP)
)

_SHARE_CONSUMER: Final = [
    _field("MemberId", "string"),
    _nullable("RackId"),
    _field("MemberEpoch", "int32"),
    *_fields("string", "ClientId", "ClientHost"),
    _field("SubscribedTopicNames", "[]string"),
    _assignment("Assignment"),
]
_SHARE_GROUP: Final = [
    *_GROUP,
    _field("AssignorName", "string"),
    _struct("Members", "[]Member", _SHARE_CONSUMER),
    _RIGHTS,
]
SHARE_GROUP_DESCRIBE: Final = messages(77, "ShareGroupDescribe", "1", _DESCRIBE, _described(_SHARE_GROUP))

_ASKED_TOPICS: Final = [_field("TopicName", "string"), _field("Partitions", "[]int32")]
_ASKED_GROUP: Final = [
    _field("GroupId", "string"),
    _struct("Topics", "[]AskedTopic", _ASKED_TOPICS, nullableVersions="0+"),
]
_START: Final = [
    _field("PartitionIndex", "int32"),
    _field("StartOffset", "int64"),
    _field("LeaderEpoch", "int32"),
    _field("Lag", "int64", "1+", default="-1", ignorable=True),
    *_ERROR,
]
_STARTS: Final = [
    _field("TopicName", "string"),
    _field("TopicId", "uuid"),
    _struct("Partitions", "[]StartOffset", _START),
]
_SHARE_OFFSETS: Final = [_field("GroupId", "string"), _struct("Topics", "[]Topic", _STARTS), *_ERROR]
DESCRIBE_SHARE_GROUP_OFFSETS: Final = messages(
    *(90, "DescribeShareGroupOffsets", "0-1"),
    [_struct("Groups", "[]AskedGroup", _ASKED_GROUP)],
    _described(_SHARE_OFFSETS),
)

_WANTED: Final = [_field("PartitionIndex", "int32"), _field("StartOffset", "int64")]
_WANTED_TOPIC: Final = [_field("TopicName", "string"), _struct("Partitions", "[]WantedOffset", _WANTED)]
_ALTERED_TOPIC: Final = [
    _field("TopicName", "string"),
    _field("TopicId", "uuid"),
    _struct("Partitions", "[]Outcome", [_field("PartitionIndex", "int32"), *_ERROR]),
]
ALTER_SHARE_GROUP_OFFSETS: Final = messages(
    *(91, "AlterShareGroupOffsets", "0"),
    [_field("GroupId", "string"), _struct("Topics", "[]WantedTopic", _WANTED_TOPIC)],
    [_field("ThrottleTimeMs", "int32"), *_ERROR, _struct("Responses", "[]AlteredTopic", _ALTERED_TOPIC)],
)

_PAIR: Final = _fields("string", "Key", "Value")
_INTERNAL_TOPIC: Final = [
    _field("Name", "string"),
    _field("Partitions", "int32"),
    _field("ReplicationFactor", "int16"),
    _struct("TopicConfigs", "[]KeyValue", _PAIR),
]
_SUBTOPOLOGY: Final = [
    _field("SubtopologyId", "string"),
    *_fields("[]string", "SourceTopics", "RepartitionSinkTopics"),
    _struct("StateChangelogTopics", "[]TopicInfo", _INTERNAL_TOPIC),
    _struct("RepartitionSourceTopics", "[]TopicInfo", _INTERNAL_TOPIC),
]
_TOPOLOGY: Final = [
    _field("Epoch", "int32"),
    _struct("Subtopologies", "[]Subtopology", _SUBTOPOLOGY, nullableVersions="0+", default="null"),
]
_TASK_OFFSET: Final = [
    _field("SubtopologyId", "string"),
    _field("Partition", "int32"),
    _field("Offset", "int64"),
]
_TASKS: Final = [
    _struct(name, "[]TaskIds", [_field("SubtopologyId", "string"), _field("Partitions", "[]int32")])
    for name in ("ActiveTasks", "StandbyTasks", "WarmupTasks")
]
_STREAMS_CLIENT: Final = [
    _field("MemberId", "string"),
    _field("MemberEpoch", "int32"),
    _nullable("InstanceId"),
    _nullable("RackId"),
    *_fields("string", "ClientId", "ClientHost"),
    _field("TopologyEpoch", "int32"),
    _field("ProcessId", "string"),
    _struct(
        *("UserEndpoint", "Endpoint", [_field("Host", "string"), _field("Port", "uint16")]),
        nullableVersions="0+",
        default="null",
    ),
    _struct("ClientTags", "[]KeyValue", _PAIR),
    _struct("TaskOffsets", "[]TaskOffset", _TASK_OFFSET),
    _struct("TaskEndOffsets", "[]TaskOffset", _TASK_OFFSET),
    _struct("Assignment", "Assignment", _TASKS),
    _struct("TargetAssignment", "Assignment", _TASKS),
    _field("IsClassic", "bool"),
]
_STREAMS_GROUP: Final = [
    *_GROUP,
    _struct("Topology", "Topology", _TOPOLOGY, nullableVersions="0+", default="null"),
    _struct("Members", "[]Member", _STREAMS_CLIENT),
    _RIGHTS,
]
STREAMS_GROUP_DESCRIBE: Final = messages(
    89, "StreamsGroupDescribe", "0", _DESCRIBE, _described(_STREAMS_GROUP)
)

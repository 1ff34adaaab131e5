"""ConsumerGroupDescribe (KIP-848), which kafka-python does not have."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

_API_KEY: Final = 69


def _field(name: str, kind: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **more}


def _message(kind: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiKey": _API_KEY,
        "type": kind.lower(),
        "name": f"ConsumerGroupDescribe{kind}",
        "validVersions": "0-1",
        "flexibleVersions": "0+",
        "fields": fields,
    }


def _nullable(name: str) -> dict[str, Any]:
    return _field(name, "string", nullableVersions="0+", default="null")


def _assignment(name: str) -> dict[str, Any]:
    partitions = [
        _field("TopicId", "uuid"),
        _field("TopicName", "string"),
        _field("Partitions", "[]int32"),
    ]
    return _field(
        name, "Assignment", fields=[_field("TopicPartitions", "[]TopicPartitions", fields=partitions)]
    )


_MEMBER: Final = [
    _field("MemberId", "string"),
    _nullable("InstanceId"),
    _nullable("RackId"),
    _field("MemberEpoch", "int32"),
    _field("ClientId", "string"),
    _field("ClientHost", "string"),
    _field("SubscribedTopicNames", "[]string"),
    _nullable("SubscribedTopicRegex"),
    _assignment("Assignment"),
    _assignment("TargetAssignment"),
    _field("MemberType", "int8", "1+", default="-1", ignorable=True),
]
_GROUP: Final = [
    _field("ErrorCode", "int16"),
    _nullable("ErrorMessage"),
    _field("GroupId", "string"),
    _field("GroupState", "string"),
    _field("GroupEpoch", "int32"),
    _field("AssignmentEpoch", "int32"),
    _field("AssignorName", "string"),
    _field("Members", "[]Member", fields=_MEMBER),
    _field("AuthorizedOperations", "int32", default="-2147483648"),
]


class DescribeGroupsRequest(ApiMessage):  # type: ignore[misc]
    """Request with its own schema; kafka-python would otherwise search its files for the class name."""

    @classmethod
    def json_patch(cls, json: dict[str, Any]) -> dict[str, Any]:
        """Return the schema."""
        fields = [_field("GroupIds", "[]string"), _field("IncludeAuthorizedOperations", "bool")]
        return _message("Request", fields)


class DescribeGroupsResponse(ApiMessage):  # type: ignore[misc]
    """Response with its own schema, like the request."""

    @classmethod
    def json_patch(cls, json: dict[str, Any]) -> dict[str, Any]:
        """Return the schema."""
        return _message(
            "Response",
            [_field("ThrottleTimeMs", "int32"), _field("Groups", "[]DescribedGroup", fields=_GROUP)],
        )


ConsumerGroupDescribeRequest = DescribeGroupsRequest
ConsumerGroupDescribeResponse = DescribeGroupsResponse

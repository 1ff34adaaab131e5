"""Requests that list and describe consumer groups, sent to the coordinator of the groups."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol import admin

from mirror.protocol.control import group_messages
from mirror.protocol.control.call import MANY_BYTES, Call

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""Type of a group with the protocol of KIP-848."""

SHARE: Final = "share"
"""Type of a share group (KIP-932)."""
STREAMS: Final = "streams"
"""Type of a group with the protocol of Kafka Streams (KIP-1071)."""
_CONSUMER: Final = "consumer"
"""Protocol type of classic groups of consumers."""
_WORKER_GROUPS: Final = frozenset({"connect", "sr"})
"""Protocol types of groups without consumers: workers of Kafka Connect, and schema registries.

The consumers of a connector have their own group.
"""
_WITHOUT_MEMBERS: Final = frozenset({"", "Empty", "Dead"})


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it.

    `kind`: classic, consumer, streams or share; empty on brokers before Kafka 3.8. `state`: empty on brokers
    before Kafka 2.6.
    """

    kind: str = ""
    state: str = ""

    @property
    def has_members(self) -> bool:
        """Return whether the group is known to have members."""
        return self.state not in _WITHOUT_MEMBERS


class ListedGroups(NamedTuple):
    """Response that lists groups, keyed by name. Without groups if `error` is set."""

    error: int
    groups: Mapping[str, ListedGroup]


def list_groups() -> Call[ListedGroups]:
    """Return a request for the groups of all types and states that the broker coordinates."""

    def read(response: Any) -> ListedGroups:
        groups = {
            group.group_id: ListedGroup((group.group_type or "").lower(), group.group_state or "")
            for group in response.groups
        }
        return ListedGroups(response.error_code, groups)

    messages = (admin.ListGroupsRequest, admin.ListGroupsResponse)
    return Call(*messages, (1, 5), {"states_filter": [], "types_filter": []}, read, MANY_BYTES)


class DescribedGroup(NamedTuple):
    """Topics that the members of a group use. `topics`: None if unknown, for example during a rebalance."""

    error: int
    topics: frozenset[str] | None


def describe_group(group: str) -> Call[DescribedGroup]:
    """Return a request for the topics that the members of a classic group use."""

    def read(response: Any) -> DescribedGroup:
        found = response.groups[0]
        if found.error_code:
            return DescribedGroup(found.error_code, None)
        if found.protocol_type in _WORKER_GROUPS:
            return DescribedGroup(0, frozenset())
        is_known = found.protocol_type == _CONSUMER and all(
            member.member_metadata for member in found.members
        )
        return DescribedGroup(
            0,
            frozenset(topic for member in found.members for topic in _member_topics(member))
            if is_known
            else None,
        )

    messages = (admin.DescribeGroupsRequest, admin.DescribeGroupsResponse)
    return Call(*messages, (0, 5), {"groups": [group]}, read, MANY_BYTES)


def describe_consumer_group(group: str) -> Call[DescribedGroup]:
    """Return a request for the topics that the members of a group of the type consumer use (KIP-848)."""

    def topics(found: Any) -> frozenset[str]:
        targets = (_assigned(member.target_assignment) for member in found.members)
        return _subscribed(found).union(*targets)

    return _description(group_messages.CONSUMER_GROUP_DESCRIBE, (0, 1), group, topics)


def describe_share_group(group: str) -> Call[DescribedGroup]:
    """Return a request for the topics that the members of a share group use (KIP-932)."""
    return _description(group_messages.SHARE_GROUP_DESCRIBE, (1, 1), group, _subscribed)


def describe_streams_group(group: str) -> Call[DescribedGroup]:
    """Return a request for the topics of a streams group, including internal topics (KIP-1071)."""

    def topics(found: Any) -> frozenset[str] | None:
        if found.topology is None or found.topology.subtopologies is None:
            return None
        names: set[str] = set()
        for part in found.topology.subtopologies:
            names.update(part.source_topics, part.repartition_sink_topics)
            names.update(topic.name for topic in part.state_changelog_topics)
            names.update(topic.name for topic in part.repartition_source_topics)
        return frozenset(names)

    return _description(group_messages.STREAMS_GROUP_DESCRIBE, (0, 0), group, topics)


def _description(
    messages: group_messages.Messages,
    versions: tuple[int, int],
    group: str,
    topics: Callable[[Any], frozenset[str] | None],
) -> Call[DescribedGroup]:
    """Return a request that describes a group.

    `topics`: finds the topics in the response.
    """

    def read(found: Any) -> DescribedGroup:
        (described,) = found.groups
        error = described.error_code
        return DescribedGroup(error, None if error else topics(described))

    return Call(*messages, versions, {"group_ids": [group]}, read, MANY_BYTES)


def _subscribed(found: Any) -> frozenset[str]:
    """Return the topics that the members of a group subscribe to or are assigned."""
    names = (frozenset(member.subscribed_topic_names) for member in found.members)
    return frozenset().union(*names, *(_assigned(member.assignment) for member in found.members))


def _assigned(assignment: Any) -> frozenset[str]:
    return frozenset(topic.topic_name for topic in assignment.topic_partitions)


def _member_topics(member: Any) -> Iterator[str]:
    """Yield the topics that a member subscribes to or is assigned."""
    yield from _topics_in(bytes(member.member_metadata), has_partitions=False)
    if member.member_assignment:
        yield from _topics_in(bytes(member.member_assignment), has_partitions=True)


def _topics_in(data: bytes, *, has_partitions: bool) -> Iterator[str]:
    """Yield the topics of a subscription or assignment of Kafka's consumer protocol."""
    (count,) = struct.unpack_from(">i", data, 2)
    at = 6
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, at)
        name = data[at + 2 : at + 2 + size]
        if size < 0 or len(name) != size:
            raise ValueError("a topic name of a member is incomplete")
        yield name.decode()
        at += 2 + size
        if has_partitions:
            at += 4 + 4 * struct.unpack_from(">i", data, at)[0]

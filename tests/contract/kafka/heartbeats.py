"""Members of share groups and streams groups that only send heartbeats: no client library here has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from mirror.protocol.control.group_messages import messages
from tests.contract.kafka.asking import BrokerClient, settled
from tests.contract.kafka.group_offsets import Member

_LEAVING: Final = -1
_NOT_YET: Final = frozenset({14, 15, 16})


def _field(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": "0+", **more}


def _text(name: str) -> dict[str, Any]:
    return _field(name, "string", nullableVersions="0+", default="null")


_RESPONSE: Final = [
    _field("ThrottleTimeMs", "int32"),
    _field("Error", "int16"),
    _text("ErrorMessage"),
    _text("MemberId"),
    _field("MemberEpoch", "int32"),
]
"""Beginning of both responses; the rest is ignored."""
_MEMBER: Final = [_field("GroupId", "string"), _field("MemberId", "string"), _field("MemberEpoch", "int32")]
_TOPICS: Final = _field("SubscribedTopicNames", "[]string", nullableVersions="0+", default="null")
_SHARE, _SHARE_RESPONSE = messages(
    76, "ShareGroupHeartbeat", "1", [*_MEMBER, _text("RackId"), _TOPICS], _RESPONSE
)

_INTERNAL: Final = [
    _field("Name", "string"),
    _field("Partitions", "int32"),
    _field("ReplicationFactor", "int16"),
    _field("TopicConfigs", "[]string"),
]
_SUBTOPOLOGY: Final = [
    _field("SubtopologyId", "string"),
    _field("SourceTopics", "[]string"),
    _field("SourceTopicRegex", "[]string"),
    _field("StateChangelogTopics", "[]TopicInfo", fields=_INTERNAL),
    _field("RepartitionSinkTopics", "[]string"),
    _field("RepartitionSourceTopics", "[]TopicInfo", fields=_INTERNAL),
    _field("CopartitionGroups", "[]string"),
]
_TOPOLOGY: Final = [
    _field("Epoch", "int32"),
    _field("Subtopologies", "[]Subtopology", fields=_SUBTOPOLOGY),
]
_UNSET: Final = {"nullableVersions": "0+", "default": "null"}
_STREAMS, _STREAMS_RESPONSE = messages(
    *(88, "StreamsGroupHeartbeat", "0"),
    [
        *_MEMBER,
        _field("EndpointInformationEpoch", "int32"),
        _text("InstanceId"),
        _text("RackId"),
        _field("RebalanceTimeoutMs", "int32"),
        _field("Topology", "Topology", fields=_TOPOLOGY, **_UNSET),
        *(_field(name, "[]string", **_UNSET) for name in ("ActiveTasks", "StandbyTasks", "WarmupTasks")),
        _text("ProcessId"),
        _field("UserEndpoint", "Endpoint", fields=[_field("Host", "string")], **_UNSET),
        *(_field(name, "[]string", **_UNSET) for name in ("ClientTags", "TaskOffsets", "TaskEndOffsets")),
        _field("ShutdownApplication", "bool"),
    ],
    _RESPONSE,
)


@contextmanager
def share_member(broker: BrokerClient, group: str, topic: str) -> Iterator[None]:
    """Keep a member in a share group for less than its session timeout (45 s)."""
    member = str(uuid4())

    def beat(epoch: int) -> int:
        topics = [topic] if epoch == 0 else None
        request = _SHARE(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )
        return settled(lambda: (int(broker.ask(request, _SHARE_RESPONSE, 1).error),), _NOT_YET)[0]

    assert beat(0) == 0
    try:
        yield
    finally:
        assert beat(_LEAVING) == 0


@contextmanager
def streams_member(broker: BrokerClient, group: str, topic: str, changelog: str) -> Iterator[Member]:
    """Keep a member in a streams group for less than its session timeout (45 s)."""
    member = str(uuid4())
    changelogs = _STREAMS.Topology.Subtopology.TopicInfo(
        name=changelog, partitions=0, replication_factor=1, topic_configs=[]
    )
    part = _STREAMS.Topology.Subtopology(
        subtopology_id="0",
        source_topics=[topic],
        source_topic_regex=[],
        state_changelog_topics=[changelogs],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    topology = _STREAMS.Topology(epoch=0, subtopologies=[part])

    def beat(epoch: int) -> tuple[int, int]:
        tasks: list[str] | None = [] if epoch == 0 else None
        request = _STREAMS(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            endpoint_information_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            topology=topology if epoch == 0 else None,
            active_tasks=tasks,
            standby_tasks=tasks,
            warmup_tasks=tasks,
            process_id="p" if epoch == 0 else None,
            user_endpoint=None,
            client_tags=[] if epoch == 0 else None,
            task_offsets=None,
            task_end_offsets=None,
            shutdown_application=False,
        )

        def answer() -> tuple[int, int]:
            found = broker.ask(request, _STREAMS_RESPONSE, 0)
            return int(found.error), int(found.member_epoch)

        return settled(answer, _NOT_YET)

    error, epoch = beat(0)
    assert error == 0
    try:
        yield Member(member, epoch)
    finally:
        assert beat(_LEAVING)[0] == 0

"""Supported versions, topics with their settings, coordinators and offsets of groups."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from tests.contract.kafka.asking import EARLIEST, BrokerClient, settled
from tests.fakes.broker.batches import build
from tests.fakes.broker.handlers.table import HANDLERS
from tests.fakes.broker.topics import DEFAULTS

NOW = int(time.time() * 1000)
GROUP = 0
NOT_YET = {14, 15, 16}
OF_NEWER_BROKERS = {77, 89, 90, 91}
"""Requests for share and streams groups; test_share_groups.py sends them to Kafka 4.4."""


def test_every_version_that_the_fake_serves_is_one_that_brokers_offer(broker: BrokerClient) -> None:
    request = ApiVersionsRequest(client_software_name="contract", client_software_version="1")
    answer = broker.ask(request, ApiVersionsResponse, 3)
    offered = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    for api in HANDLERS.keys() - OF_NEWER_BROKERS:
        handler = HANDLERS[api]
        lowest, highest = offered[api]
        assert lowest <= handler.versions[0] <= handler.versions[1] <= highest, (api, offered[api])
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    assert levels["transaction.version"] == 2


def test_metadata_by_name_and_by_id(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic, 2)
    (found,) = broker.metadata([topic]).topics
    assert (found.error_code, found.name, found.is_internal) == (0, topic, False)
    assert sorted((p.partition_index, p.error_code, p.leader_epoch) for p in found.partitions) == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    missing = broker.metadata([f"{topic}-no"]).topics[0]
    assert (missing.error_code, missing.name, missing.partitions) == (3, f"{topic}-no", [])

    def by_id(identity: Any) -> Any:
        one = MetadataRequest.MetadataRequestTopic(topic_id=identity, name=None)
        request = MetadataRequest(topics=[one], allow_auto_topic_creation=False)
        return broker.ask(request, MetadataResponse, 12).topics[0]

    assert by_id(found.topic_id).name == topic
    assert by_id(uuid4()).error_code == 100
    assert broker.metadata([]).topics == []
    assert topic in {one.name for one in broker.metadata(None).topics}


def test_topics_that_cannot_be_created_or_grown(broker: BrokerClient, topic: str) -> None:
    assert broker.create_topic(topic, 2) == 0
    refusals = {
        "it exists": broker.try_to_create(topic, 1, 1, {}),
        "no partitions": broker.try_to_create(f"{topic}-1", 0, 1, {}),
        "too many replicas": broker.try_to_create(f"{topic}-2", 1, 3, {}),
        "an unknown setting": broker.try_to_create(f"{topic}-3", 1, 1, {"no.such": "1"}),
        "segments below a mebibyte": broker.try_to_create(f"{topic}-4", 1, 1, {"segment.bytes": "1024"}),
    }
    assert refusals == {
        "it exists": 36,
        "no partitions": 37,
        "too many replicas": 38,
        "an unknown setting": 40,
        "segments below a mebibyte": 40,
    }

    def grow(name: str, count: int) -> int:
        one = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[one], timeout_ms=15_000, validate_only=False)
        return int(broker.ask(request, CreatePartitionsResponse, 3).results[0].error_code)

    assert (grow(topic, 3), grow(topic, 3), grow(f"{topic}-no", 2)) == (0, 37, 3)


def test_settings_of_a_topic(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic, max_message_bytes="2000000", cleanup_policy="compact")

    def describe(name: str) -> Any:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        one = resource(resource_type=2, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[one], include_synonyms=False)
        return broker.ask(request, DescribeConfigsResponse, 4).results[0]

    found = describe(topic)
    values = {entry.name: entry.value for entry in found.configs}
    own = {entry.name for entry in found.configs if entry.config_source == 1}
    assert own == {"max.message.bytes", "cleanup.policy"}
    assert (values["max.message.bytes"], values["cleanup.policy"]) == ("2000000", "compact")
    assert values.keys() == DEFAULTS.keys()
    assert describe(f"{topic}-no").error_code == 3


def test_offsets_of_a_group_without_members(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic, 2)
    broker.find_coordinator(GROUP, topic)
    kind = OffsetCommitRequest.OffsetCommitRequestTopic

    def commit(name: str, number: int, offset: int) -> int:
        one = kind.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=topic,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[kind(name=name, partitions=[one])],
        )

        def attempt() -> tuple[int]:
            answer = broker.ask(request, OffsetCommitResponse, 8)
            return (int(answer.topics[0].partitions[0].error_code),)

        return settled(attempt, NOT_YET)[0]

    assert (commit(topic, 1, 42), commit(f"{topic}-no", 0, 1)) == (0, 3)

    def committed(topics: Any) -> list[tuple[int, int]]:
        request = OffsetFetchRequest(group_id=topic, topics=topics, require_stable=True)
        answer = broker.ask(request, OffsetFetchResponse, 7)
        assert answer.error_code == 0
        return sorted(
            (one.partition_index, one.committed_offset) for t in answer.topics for one in t.partitions
        )

    wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])
    assert committed([wanted]) == [(0, -1), (1, 42)]
    assert committed(None) == [(1, 42)]

    asked = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [asked(group_id=name, topics=None, member_id=None) for name in (topic, f"{topic}-none")]
    several = broker.ask(OffsetFetchRequest(groups=groups, require_stable=True), OffsetFetchResponse, 9)
    found = {one.group_id: one for one in several.groups}
    assert found.keys() == {topic, f"{topic}-none"}
    assert found[topic].error_code == 0
    assert [
        (one.name, part.partition_index, part.committed_offset)
        for one in found[topic].topics
        for part in one.partitions
    ] == [(topic, 1, 42)]
    assert not found[f"{topic}-none"].topics


def test_records_are_deleted_up_to_an_offset(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic)
    for _ in range(3):
        broker.produce(topic, build([(NOW, b"k", b"v", [])] * 10))
    assert broker.delete_records(topic, 15) == (0, 15)
    assert broker.offset(topic, EARLIEST)[1] == 15
    assert broker.delete_records(topic, 5) == (0, 15)
    assert broker.fetch(topic, 14).error_code == 1
    assert broker.delete_records(topic, 31)[0] == 1
    assert broker.delete_records(topic, -1) == (0, 30)
    assert broker.delete_records(f"{topic}-no", 0)[0] == 3
    broker.create_topic(f"{topic}-compact", cleanup_policy="compact")
    assert broker.delete_records(f"{topic}-compact", 0)[0] == 44

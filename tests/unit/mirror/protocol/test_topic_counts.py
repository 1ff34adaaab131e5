"""Test partition counts encoded by another implementation, in every supported version of Metadata."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from mirror.errors import CorruptData
from mirror.protocol.control.cluster import topic_counts
from mirror.protocol.topic_counts import FROM, decode_counts

CALL = topic_counts()
VERSIONS = range(CALL.versions[0], CALL.versions[1] + 1)
UNAUTHORIZED = 29


def partition(number: int, replicas: int, version: int) -> Any:
    nodes = list(range(replicas))
    return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
        error_code=0,
        partition_index=number,
        leader_id=-1 if number == 1 else 1,
        leader_epoch=3,
        replica_nodes=nodes,
        isr_nodes=nodes[:1],
        offline_replicas=[],
        version=version,
    )


def topic(name: str, partitions: int, version: int, error: int = 0, replicas: int = 3) -> Any:
    return MetadataResponse.MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=uuid.uuid4(),
        is_internal=False,
        partitions=[partition(number, replicas, version) for number in range(partitions)],
        version=version,
    )


def encoded(version: int) -> bytes:
    broker = MetadataResponse.MetadataResponseBroker
    response = MetadataResponse(
        throttle_time_ms=70,
        brokers=[
            broker(node_id=1, host="one", port=9092, rack=None, version=version),
            broker(node_id=2, host="two", port=9092, rack="r" * 200, version=version),
        ],
        cluster_id="id",
        controller_id=1,
        topics=[
            topic("a", 3, version),
            topic("ümlaut", 200, version),
            topic("wide", 2, version, replicas=150),
            topic("hidden", 0, version, UNAUTHORIZED),
            topic("none", 0, version),
        ],
        version=version,
    )
    response.API_VERSION = version
    return bytes(response.encode(header=False, framed=False))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_topic_without_an_error_is_counted(version: int) -> None:
    counts, throttle_ms = CALL.decode(version, memoryview(encoded(version)))
    assert counts == {"a": 3, "ümlaut": 200, "wide": 2, "none": 0}
    assert throttle_ms == 70


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= FROM])
def test_a_response_that_ends_too_early_is_damaged(version: int) -> None:
    whole = encoded(version)
    for size in range(0, len(whole) - 6, 7):
        with pytest.raises(CorruptData):
            decode_counts(version, memoryview(whole)[:size])

"""Test Fetch and Produce against another implementation, in every supported version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest as TheirFetch
from kafka.protocol.consumer import FetchResponse as TheirFetched
from kafka.protocol.producer import ProduceRequest as TheirProduce
from kafka.protocol.producer import ProduceResponse as TheirProduced

from mirror.errors import CorruptData
from mirror.protocol import fetch, produce
from mirror.protocol.fetch import FetchPosition, FetchRequest, LeaderHint

TOPIC = uuid.UUID(int=0x1234567890ABCDEF)
OTHER = uuid.UUID(int=0xFFFF)
FETCH_VERSIONS = range(fetch.VERSIONS[0], fetch.VERSIONS[1] + 1)
PRODUCE_VERSIONS = range(produce.VERSIONS[0], produce.VERSIONS[1] + 1)


def key_of(topic: uuid.UUID, by_id: bool) -> bytes:
    return topic.bytes if by_id else b"topic-%d" % (topic.int & 0xFF)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_they_read_our_fetch_request(version: int) -> None:
    by_id = version >= fetch.BY_ID_FROM
    one, two = key_of(TOPIC, by_id), key_of(OTHER, by_id)
    request = FetchRequest(
        wait_ms=500,
        min_bytes=1,
        max_bytes=8_000_000,
        read_committed=True,
        topics={
            one: [(0, FetchPosition(7, 1_000, 6, 9_999)), (3, FetchPosition(8, 2_000, 8, 9_999))],
            two: [(1, FetchPosition(-1, 0, -1, 10))],
        },
        session_id=42,
        session_epoch=3,
        forgotten={two: [4, 5]},
        rack=b"r1",
    )
    theirs: Any = TheirFetch.decode(fetch.encode_request(version, request), version=version)
    assert (theirs.max_wait_ms, theirs.min_bytes, theirs.max_bytes, theirs.isolation_level) == (
        500,
        1,
        8_000_000,
        1,
    )
    asked = [
        (
            topic.topic_id.bytes if by_id else topic.topic.encode(),
            [
                (p.partition, p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch)
                for p in topic.partitions
            ],
        )
        for topic in theirs.topics
    ]
    epoch, last = version >= 9, version >= 12
    assert asked == [
        (
            one,
            [
                (0, 7 if epoch else -1, 1_000, 6 if last else -1),
                (3, 8 if epoch else -1, 2_000, 8 if last else -1),
            ],
        ),
        (two, [(1, -1, 0, -1)]),
    ]
    if version >= 7:
        assert (theirs.session_id, theirs.session_epoch) == (42, 3)
        (forgotten,) = theirs.forgotten_topics_data
        assert list(forgotten.partitions) == [4, 5]
        assert (forgotten.topic_id.bytes if by_id else forgotten.topic.encode()) == two
    if version >= 11:
        assert theirs.rack_id == "r1"


def their_fetched(version: int) -> bytes:
    topic_class = TheirFetched.FetchableTopicResponse
    part_class = topic_class.PartitionData
    tagged: dict[str, Any] = {}
    if version >= 12:
        tagged = {
            "diverging_epoch": part_class.EpochEndOffset(epoch=4, end_offset=77),
            "current_leader": part_class.LeaderIdAndEpoch(leader_id=2, leader_epoch=9),
        }
    full = part_class(
        partition_index=3,
        error_code=6,
        high_watermark=100,
        last_stable_offset=90,
        log_start_offset=10,
        aborted_transactions=[
            part_class.AbortedTransaction(producer_id=5, first_offset=50),
            part_class.AbortedTransaction(producer_id=6, first_offset=60),
        ],
        preferred_read_replica=-1,
        records=b"batches",
        **tagged,
    )
    empty = part_class(
        partition_index=4,
        error_code=0,
        high_watermark=5,
        last_stable_offset=5,
        log_start_offset=0,
        aborted_transactions=None,
        preferred_read_replica=1,
        records=None,
    )
    name = {"topic_id": TOPIC} if version >= 13 else {"topic": "topic-239"}
    named = {}
    if version >= 16:
        named["node_endpoints"] = [
            TheirFetched.NodeEndpoint(node_id=2, host="b2", port=9092, rack=None),
            TheirFetched.NodeEndpoint(node_id=3, host="b3", port=9093, rack="r1"),
        ]
    response = TheirFetched(
        throttle_time_ms=12,
        error_code=70 if version >= 7 else 0,
        session_id=99,
        responses=[topic_class(partitions=[full, empty], **name)],
        **named,
    )
    response.API_VERSION = version
    return bytes(response.encode(header=False, framed=False))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_we_read_their_fetch_response(version: int) -> None:
    response = fetch.decode_response(version, memoryview(their_fetched(version)))
    assert (response.throttle_ms, response.error, response.session_id) == (
        (12, 70, 99) if version >= 7 else (12, 0, 0)
    )
    assert response.nodes == ({2: ("b2", 9092), 3: ("b3", 9093)} if version >= 16 else {})
    full, empty = response.partitions
    assert full.topic == key_of(TOPIC, version >= 13)
    assert (full.partition, full.error, full.high_watermark, full.last_stable_offset) == (3, 6, 100, 90)
    assert full.log_start == (10 if version >= 5 else -1)
    assert full.aborted == ((5, 50), (6, 60))
    assert bytes(full.records) == b"batches"
    assert full.diverging == ((4, 77) if version >= 12 else None)
    assert full.leader == (LeaderHint(2, 9) if version >= 12 else None)
    assert (empty.partition, empty.aborted, bytes(empty.records)) == (4, (), b"")
    assert empty.preferred_replica == (1 if version >= 11 else -1)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_fetch_response_cut_anywhere_is_refused(version: int) -> None:
    whole = their_fetched(version)
    for size in range(len(whole)):
        with pytest.raises(CorruptData):
            fetch.decode_response(version, memoryview(whole)[:size])


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, b"headrace-g-t-0"])
def test_they_read_our_produce_request(version: int, transactional_id: bytes | None) -> None:
    by_id = version >= produce.BY_ID_FROM
    one, two = key_of(TOPIC, by_id), key_of(OTHER, by_id)
    buffers, size = produce.encode_request(
        version,
        {one: [(0, b"a" * 300), (5, memoryview(b"b" * 20))], two: [(1, bytearray(b"c"))]},
        30_000,
        transactional_id,
    )
    body = b"".join(buffers)
    assert len(body) == size
    theirs: Any = TheirProduce.decode(body, version=version)
    assert (theirs.acks, theirs.timeout_ms) == (-1, 30_000)
    assert theirs.transactional_id == (transactional_id.decode() if transactional_id else None)
    sent = [
        (
            topic.topic_id.bytes if by_id else topic.name.encode(),
            [(part.index, bytes(part.records)) for part in topic.partition_data],
        )
        for topic in theirs.topic_data
    ]
    assert sent == [(one, [(0, b"a" * 300), (5, b"b" * 20)]), (two, [(1, b"c")])]


def their_produced(version: int) -> bytes:
    topic_class = TheirProduced.TopicProduceResponse
    part_class = topic_class.PartitionProduceResponse
    tagged: dict[str, Any] = {}
    if version >= 10:
        tagged = {"current_leader": part_class.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)}
    errors = []
    if version >= 8:
        errors = [part_class.BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message="no key")]
    good = part_class(index=1, error_code=0, base_offset=500, log_append_time_ms=7, log_start_offset=3)
    bad = part_class(
        index=0,
        error_code=87,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=errors,
        error_message="invalid" if version >= 8 else None,
        **tagged,
    )
    name = {"topic_id": TOPIC} if version >= 13 else {"name": "topic-239"}
    named = {}
    if version >= 10:
        named["node_endpoints"] = [TheirProduced.NodeEndpoint(node_id=2, host="b2", port=9092, rack=None)]
    response = TheirProduced(
        responses=[topic_class(partition_responses=[good, bad], **name)], throttle_time_ms=33, **named
    )
    response.API_VERSION = version
    return bytes(response.encode(header=False, framed=False))


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_we_read_their_produce_response(version: int) -> None:
    response = produce.decode_response(version, memoryview(their_produced(version)))
    assert response.throttle_ms == 33
    assert response.nodes == ({2: ("b2", 9092)} if version >= 10 else {})
    good, bad = response.partitions
    assert (good.topic, good.partition, good.error, good.base_offset) == (
        key_of(TOPIC, version >= 13),
        1,
        0,
        500,
    )
    assert (bad.partition, bad.error) == (0, 87)
    assert (good.append_ms, bad.append_ms) == (7, -1)
    assert bad.record_errors == (((2, "no key"),) if version >= 8 else ())
    assert bad.message == ("invalid" if version >= 8 else "")
    assert bad.leader == (LeaderHint(2, 9) if version >= 10 else None)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_produce_response_cut_anywhere_is_refused(version: int) -> None:
    whole = their_produced(version)
    for size in range(len(whole)):
        with pytest.raises(CorruptData):
            produce.decode_response(version, memoryview(whole)[:size])

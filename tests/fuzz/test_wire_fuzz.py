"""Decoders with damaged input: no crash, no hang, no more memory than the input justifies.

The suite fuzzes each decoder briefly; `FUZZ_SECONDS=60` takes long.
"""

from __future__ import annotations

import os
import random
from typing import Any, Final

import pytest
from kafka.protocol.consumer import FetchResponse as TheirFetched
from kafka.protocol.producer import ProduceResponse as TheirProduced

from mirror.model.topics import TopicPartition
from mirror.protocol import fetch, produce
from mirror.protocol.batches.batch import HEADER_SIZE, ProducerStamp, scan, stamp, verify
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.decompression import decompress
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.legacy import read_message
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.batches.reframe import Reframer
from mirror.protocol.control import cluster, groups, offsets, share_groups, topics, transactions
from mirror.protocol.control.call import Call
from tests.fuzz.mutation import fuzz, mutate, peak_bytes

SECONDS: Final = float(os.environ.get("FUZZ_SECONDS", "0.15"))
SEED: Final = int(os.environ.get("FUZZ_SEED", "4"))
FETCH_VERSIONS: Final = (4, 7, 11, 12, 13, 17)
PRODUCE_VERSIONS: Final = (3, 8, 9, 11, 13)


def a_log() -> bytes:
    out = bytearray()
    for codec in Codec:
        records = [Record(n, 1_000 + n, b"k%d" % n, b"v" * n * 9, ((b"h", None),)) for n in range(5)]
        batch = write_batch(records, codec)
        stamp(memoryview(batch), codec, ProducerStamp(7, 1), 3)
        batch[0:8] = len(out).to_bytes(8, "big")
        out += batch
    return bytes(out)


def read_log(data: memoryview) -> None:
    for start, end, header in scan(data):
        if header is None:
            read_message(data[start:end])
        else:
            verify(data[start:end], header)


def read_log_unchecked(data: memoryview) -> None:
    """Decode like `read_log`, but without verifying the checksum."""
    for start, end, header in scan(data):
        if header is not None:
            payload = decompress(header.codec, data[start + HEADER_SIZE : end], 2**22)
            Reframer(Codec.NONE).add(payload, header, 0, 2**20)
            read_batch(data[start:end], header)


def fetched(version: int) -> bytes:
    topic_class = TheirFetched.FetchableTopicResponse
    part: Any = topic_class.PartitionData(
        partition_index=3,
        high_watermark=100,
        last_stable_offset=90,
        log_start_offset=10,
        aborted_transactions=[topic_class.PartitionData.AbortedTransaction(producer_id=5, first_offset=50)],
        records=a_log(),
    )
    response = TheirFetched(session_id=99, responses=[topic_class(partitions=[part, part])])
    response.API_VERSION = version
    return bytes(response.encode(header=False, framed=False))


def produced(version: int) -> bytes:
    topic_class = TheirProduced.TopicProduceResponse
    part_class = topic_class.PartitionProduceResponse
    error = part_class.BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message="no key")
    part = part_class(index=1, base_offset=500, record_errors=[error], error_message="wrong")
    response = TheirProduced(responses=[topic_class(partition_responses=[part, part])])
    response.API_VERSION = version
    return bytes(response.encode(header=False, framed=False))


def test_the_batch_scanner_survives() -> None:
    assert fuzz(read_log, [a_log()], seed=SEED, seconds=SECONDS) >= 50


def test_decompression_and_record_decoding_survive() -> None:
    assert fuzz(read_log_unchecked, [a_log()], seed=SEED, seconds=SECONDS * 3) >= 50


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_survive(version: int) -> None:
    def read(data: memoryview) -> None:
        for partition in fetch.decode_response(version, data).partitions:
            read_log(partition.records)

    assert fuzz(read, [fetched(version)], seed=SEED, seconds=SECONDS) >= 50


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_responses_survive(version: int) -> None:
    def read(data: memoryview) -> object:
        return produce.decode_response(version, data)

    assert fuzz(read, [produced(version)], seed=SEED, seconds=SECONDS) >= 50


PLACE: Final = TopicPartition("t", 0)
CALLS: Final[list[Call[Any]]] = [
    cluster.api_versions(),
    cluster.metadata(["t"]),
    cluster.topic_counts(),
    cluster.find_coordinators(cluster.TRANSACTION, ["a", "b"]),
    offsets.list_offsets({PLACE: -1}, committed=True),
    offsets.open_transactions([PLACE]),
    offsets.committed_offsets("g", [PLACE]),
    offsets.commit_offsets("g", {PLACE: 5}),
    transactions.init_producer_id("t", 1000),
    transactions.describe_transaction("t"),
    transactions.add_partitions("t", (1, 2), [PLACE]),
    transactions.end_transaction("t", (1, 2), commit=True),
    topics.create_topic("t", 1, 1, {}),
    topics.create_partitions({"t": 3, "u": 9}),
    topics.describe_settings(["t"]),
    groups.describe_consumer_group("g"),
    groups.describe_share_group("g"),
    groups.describe_streams_group("g"),
    share_groups.share_offsets("g"),
    share_groups.alter_share_offsets("g", {PLACE: 5}),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_control_responses_survive(call: Call[Any]) -> None:
    numbers = random.Random(SEED)
    for version in sorted({call.versions[0], call.versions[1]}):
        seeds = [numbers.randbytes(size) for size in (8, 40, 200)] + [bytes(60), b"\x01" * 60, b"\x02" * 90]

        def read(data: memoryview, version: int = version) -> object:
            return call.decode(version, data)

        assert fuzz(read, seeds, seed=SEED, seconds=SECONDS / 3) >= 50


def test_memory_is_bounded_by_the_input() -> None:
    numbers = random.Random(SEED)
    seeds = {version: fetched(version) for version in FETCH_VERSIONS}
    for _ in range(300):
        version = numbers.choice(FETCH_VERSIONS)
        data = mutate(seeds[version], numbers)

        def read(view: memoryview, version: int = version) -> None:
            for partition in fetch.decode_response(version, view).partitions:
                list(scan(partition.records))

        assert peak_bytes(read, data) < 40 * len(data) + 20_000

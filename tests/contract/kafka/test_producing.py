"""Validation of batches by a broker: accepted and rejected ones, with error codes."""

from __future__ import annotations

import struct
import time
from uuid import uuid4

from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tests.contract.kafka.asking import LATEST, BrokerClient
from tests.fakes.broker.batches import (
    APPEND_TIME,
    CONTROL,
    TRANSACTIONAL,
    Content,
    build,
    restamped,
    view,
    whole_batches,
)

NOW = int(time.time() * 1000)
HOUR = 3_600_000
GZIP, LZ4, ZSTD = 1, 3, 4


def records(count: int, when: int = NOW, key: bytes | None = b"k") -> list[Content]:
    return [(when, key, b"v%d" % number, [("h", b"x")]) for number in range(count)]


def flagged(data: bytes, attributes: int) -> bytes:
    read = view(data)
    return restamped(data, attributes=read.attributes | attributes, max_timestamp=read.max_timestamp)


def patched(data: bytes, form: str, at: int, value: int) -> bytes:
    """Return the batch with another field and a matching checksum."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    read = view(bytes(changed))
    return restamped(bytes(changed), attributes=read.attributes, max_timestamp=read.max_timestamp)


def test_sound_batches_of_every_codec_are_taken_and_come_back_with_their_offsets(
    broker: BrokerClient, topic: str
) -> None:
    broker.create_topic(topic)
    for number, codec in enumerate((0, GZIP, LZ4, ZSTD)):
        data = build(records(30), codec=codec)
        assert view(data).compression_type == codec
        assert broker.produce(topic, data) == (0, 30 * number)
    found = whole_batches(bytes(broker.fetch(topic, 0).records))
    assert found is not None
    for number, data in enumerate(found):
        assert view(data).validate_crc()
        assert [record.offset for record in view(data)] == list(range(30 * number, 30 * number + 30))
    assert broker.offset(topic, LATEST)[1] == 120


def test_what_is_no_sound_batch_is_refused(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic)
    sound = build(records(3))
    damaged = bytearray(sound)
    damaged[-1] ^= 1
    garbage = patched(build(records(20), codec=LZ4)[:80], ">i", 8, 68)
    answers = {
        "a base offset": broker.produce(topic, patched(sound, ">q", 0, 7)),
        "a flipped bit": broker.produce(topic, bytes(damaged)),
        "two batches in one entry": broker.produce(topic, sound + sound),
        "a control batch": broker.produce(topic, flagged(sound, CONTROL)),
        "too few records": broker.produce(topic, patched(sound, ">i", 57, 2)),
        "an offset gap": broker.produce(topic, patched(sound, ">i", 23, 5)),
        "the old format": broker.produce(topic, patched(sound, ">b", 16, 1)),
        "a payload that cannot be unpacked": broker.produce(topic, garbage),
        "zstd in an old request": broker.produce(topic, build(records(50), codec=ZSTD), version=6),
    }
    assert {what: error for what, (error, _) in answers.items()} == {
        "a base offset": 87,
        "a flipped bit": 2,
        "two batches in one entry": 87,
        "a control batch": 87,
        "too few records": 87,
        "an offset gap": 87,
        "the old format": 87,
        "a payload that cannot be unpacked": -1,
        "zstd in an old request": 76,
    }
    assert broker.offset(topic, LATEST)[1] == 0


def test_limits_of_size_and_time(broker: BrokerClient, topic: str) -> None:
    sized, timed = f"{topic}-sized", f"{topic}-timed"
    broker.create_topic(sized, max_message_bytes="500")
    fits = build([(NOW, None, b"x" * 425, [])])
    larger = build([(NOW, None, b"x" * (425 + 501 - len(fits)), [])])
    assert len(larger) == 501
    assert broker.produce(sized, larger)[0] == 10
    assert broker.produce(sized, fits)[0] == 0
    broker.create_topic(timed, message_timestamp_before_max_ms=str(HOUR))
    now = int(time.time() * 1000)  # the module may have been imported more than an hour ago
    late = broker.produce_whole(timed, [build([*records(1, now), *records(1, now + 2 * HOUR)])])
    assert [(one.error_code, [e.batch_index for e in one.record_errors]) for one in late] == [(32, [1])]
    assert broker.produce(timed, build(records(1, now - 2 * HOUR)))[0] == 32
    assert broker.produce(timed, build(records(1, -1)))[0] == 0


def test_append_time_belongs_to_the_broker(broker: BrokerClient, topic: str) -> None:
    stamped, plain = f"{topic}-stamped", f"{topic}-plain"
    broker.create_topic(stamped, message_timestamp_type="LogAppendTime")
    broker.create_topic(plain)
    assert broker.produce(stamped, flagged(build(records(1)), APPEND_TIME))[0] == 32
    (answer,) = broker.produce_whole(stamped, [build(records(2, NOW - HOUR))])
    assert answer.error_code == 0
    found = view(bytes(broker.fetch(stamped, 0).records))
    assert found.max_timestamp == answer.log_append_time_ms >= NOW - 60_000
    assert [record.timestamp for record in found] == [answer.log_append_time_ms] * 2
    assert broker.produce(plain, flagged(build(records(1)), APPEND_TIME))[0] == 0
    assert not view(bytes(broker.fetch(plain, 0).records)).attributes & APPEND_TIME


def test_a_compacted_topic_wants_keys(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic, cleanup_policy="compact")
    (answer,) = broker.produce_whole(topic, [build([*records(2), *records(1, key=None)])])
    assert answer.error_code == 87
    assert [one.batch_index for one in answer.record_errors] == [2]
    assert answer.record_errors[0].batch_index_error_message
    assert broker.produce(topic, build(records(1)))[0] == 0


def test_topics_that_are_not_there(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic)
    assert broker.produce(f"{topic}-no", build(records(1)))[0] == 3
    assert broker.produce(topic, build(records(1)), partition=7)[0] == 3
    assert broker.produce(topic, build(records(1)), version=13, topic_id=uuid4())[0] == 100
    assert broker.produce(topic, build(records(1)), version=13) == (0, 0)


def test_of_a_partition_named_twice_only_the_last_batch_is_kept(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic)
    first, second = build([(NOW, None, b"first", [])]), build([(NOW, None, b"second", [])])
    assert broker.produce(topic, first, second) == (0, 0)
    assert [record.value for record in view(bytes(broker.fetch(topic, 0).records))] == [b"second"]


def test_old_versions_of_produce_end_the_connection(broker: BrokerClient, topic: str) -> None:
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[])
    assert broker.hangs_up(request, ProduceResponse, 2)


def test_sequences_of_an_idempotent_producer(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic)
    _, producer, epoch = broker.producer(None)

    def send(sequence: int, count: int = 2, bump: int = 0) -> tuple[int, int]:
        return broker.produce(topic, build(records(count), producer=(producer, epoch + bump, sequence)))

    steps = {
        "the first": send(0),
        "the next": send(2),
        "the same again": send(2),
        "the first again": send(0),
        "a gap": send(8),
        "what was missing": send(4),
        "another size at a known sequence": send(4, 1),
        "four more": [send(sequence)[0] for sequence in (6, 8, 10, 12)],
        "older than the last five": send(2),
        "a new epoch that does not begin at 0": send(14, bump=1),
        "a new epoch": send(0, bump=1),
        "the old epoch": send(14),
    }
    assert steps == {
        "the first": (0, 0),
        "the next": (0, 2),
        "the same again": (0, 2),
        "the first again": (0, 0),
        "a gap": (45, -1),
        "what was missing": (0, 4),
        "another size at a known sequence": (45, -1),
        "four more": [0, 0, 0, 0],
        "older than the last five": (45, -1),
        "a new epoch that does not begin at 0": (45, -1),
        "a new epoch": (0, 14),
        "the old epoch": (47, -1),
    }


def test_a_duplicate_is_told_by_its_append_time(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic)
    _, producer, epoch = broker.producer(None)
    batch = build(records(1), producer=(producer, epoch, 0))
    (first,) = broker.produce_whole(topic, [batch])
    (again,) = broker.produce_whole(topic, [batch])
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert again.log_append_time_ms >= NOW - 60_000


def test_a_producer_that_the_broker_never_saw_may_begin_anywhere_and_sequences_wrap(
    broker: BrokerClient, topic: str
) -> None:
    broker.create_topic(topic)
    _, producer, epoch = broker.producer(None)
    last = 2**31 - 5
    assert broker.produce(topic, build(records(10), producer=(producer, epoch, last))) == (0, 0)
    assert broker.produce(topic, build(records(1), producer=(producer, epoch, 5))) == (0, 10)


def test_a_transactional_batch_needs_a_transactional_id(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic, 2)
    _, producer, epoch = broker.producer(None)
    batch = build(records(1), producer=(producer, epoch, 0), transactional=True)
    assert view(batch).attributes & TRANSACTIONAL
    assert broker.produce(topic, batch)[0] == 53

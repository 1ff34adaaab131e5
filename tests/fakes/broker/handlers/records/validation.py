"""Validation of a batch for a topic: checks of Kafka's `LogValidator` and `UnifiedLog`, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import CorruptRecordError

from tests.fakes.broker import batches
from tests.fakes.broker.topics import Topic

UNKNOWN_ERROR: Final = -1
CORRUPT: Final = 2
TOO_LARGE: Final = 10
BAD_TIMESTAMP: Final = 32
UNSUPPORTED_CODEC: Final = 76
INVALID: Final = 87
_ZSTD_FROM: Final = 7
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True)
class Judged:
    """Error with the records that caused it (index, message), or the bytes to store.

    `append_time`: the broker's time if the topic uses LogAppendTime, else -1.
    """

    error: int
    data: bytes = b""
    append_time: int = -1
    culprits: tuple[tuple[int, str], ...] = ()
    message: str | None = None


def judge_batch(topic: Topic, records: bytes | None, version: int, now_ms: int) -> Judged:
    """Validate the records of one partition in a Produce request of that version."""
    whole = batches.whole_batches(bytes(records or b""))
    if whole is None or len(whole) != 1 or whole[0][16] != 2:
        return Judged(INVALID, message="not exactly one record batch of version 2")
    data = whole[0]
    batch = batches.view(data)
    if batch.compression_type == batches.ZSTD and version < _ZSTD_FROM:
        return Judged(UNSUPPORTED_CODEC)
    if batch.base_offset != 0:
        return Judged(INVALID, message="the base offset is not 0")
    if len(data) > int(topic.setting("max.message.bytes")):
        return Judged(TOO_LARGE, message="the batch is larger than max.message.bytes")
    if not batch.validate_crc():
        return Judged(CORRUPT, message="the checksum is wrong")
    count = batch.records_count
    if batch.is_control_batch or count <= 0 or batch.last_offset_delta != count - 1:
        return Judged(INVALID, message="control, empty, or with gaps")
    return _judge_records(topic, data, batch, now_ms)


def _judge_records(topic: Topic, data: bytes, batch: Any, now_ms: int) -> Judged:
    has_append_time = bool(batch.attributes & batches.APPEND_TIME)
    if topic.stamps_append_time and has_append_time:
        return Judged(BAD_TIMESTAMP, message="the producer must not set the append time")
    if batch.compression_type != batches.SNAPPY:  # kafka-python has no snappy codec installed
        problem = _read(topic, batch, now_ms)
        if problem is not None:
            return problem
    if topic.stamps_append_time:
        attributes = batch.attributes | batches.APPEND_TIME
        return Judged(0, batches.restamped(data, attributes=attributes, max_timestamp=now_ms), now_ms)
    if has_append_time:
        attributes = batch.attributes & ~batches.APPEND_TIME
        stamp = batch.max_timestamp
        data = batches.restamped(data, attributes=attributes, max_timestamp=stamp)
    return Judged(0, data)


def _read(topic: Topic, batch: Any, now_ms: int) -> Judged | None:
    offsets: list[int] = []
    culprits: list[tuple[int, str]] = []
    latest = now_ms + int(topic.setting("message.timestamp.after.max.ms"))
    earliest = now_ms - int(topic.setting("message.timestamp.before.max.ms"))
    counts_time = not topic.stamps_append_time
    error = 0
    try:
        for index, record in enumerate(batch):
            offsets.append(record.offset)
            if topic.is_compacted and record.key is None:
                error = error or INVALID
                culprits.append((index, "Compacted topic cannot accept message without key"))
            elif counts_time and record.timestamp != _NO_TIME and not earliest <= record.timestamp <= latest:
                error = error or BAD_TIMESTAMP
                culprits.append((index, "Timestamp is out of range"))
    except CorruptRecordError as problem:
        return Judged(INVALID, message=str(problem))
    except Exception as problem:  # noqa: BLE001 - decompressors raise exceptions of any kind
        return Judged(UNKNOWN_ERROR, message=str(problem))
    if batch.compression_type and offsets != list(range(len(offsets))):
        return Judged(UNKNOWN_ERROR, message="records of a compressed batch are not in sequence")
    if error:
        return Judged(error, culprits=tuple(culprits), message="One or more records have been rejected")
    return None
